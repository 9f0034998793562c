// Command porcupine has the history of a run judged by a checker that others wrote: github.com/anishathalye/porcupine. The models are ours, a
// lock with fences, a lock in two modes and a semaphore. A hold is two operations: one wins it between the call and the return of
// acquire, the other ends it, by a release, a loss, a death or a keep. Porcupine looks for one order of all of them that the model permits.
//
//	porcupine -slots pool=2 -least 1000 -seconds 60 -picture FOLDER HISTORY
//
// It prints a line for each lock, and ends with status 1 where one is refused, is not decided in time, or where fewer holds were judged
// than there must be.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// pieceHolds is how many holds of one lock are judged at once; those at its edges belong to the next piece as well.
const pieceHolds = 1000

// A subject is one lock with what it is to the models.
type subject struct {
	name, kind string
	model      func(rules) porcupine.Model
	pieces     [][]*hold
	holds      int
	// shown is the piece that the picture has: the one that is refused, or else the first.
	shown []*hold
}

// slotsOf reads `pool=2,other=3`.
func slotsOf(text string) (map[string]int, error) {
	found := map[string]int{}
	for _, word := range strings.Split(text, ",") {
		if word == "" {
			continue
		}
		name, number, _ := strings.Cut(word, "=")
		count, err := strconv.Atoi(number)
		if err != nil || count < 1 || count > maxSlots {
			return nil, fmt.Errorf("-slots takes NAME=COUNT with 1 to %d slots, and not %q", maxSlots, word)
		}
		found[name] = count
	}
	return found, nil
}

func subjects(history *history, slots map[string]int) ([]*subject, error) {
	names, holds := history.byName()
	found := []*subject{}
	for _, name := range names {
		one := &subject{name: name, kind: "a lock", model: lock, holds: len(holds[name]), pieces: pieces(holds[name])}
		count, is := slots[name]
		for _, hold := range holds[name] {
			if hold.shared {
				one.kind, one.model = "a lock with readers", shared
			}
			number, err := strconv.Atoi(hold.slot)
			if (hold.slot != "") != is || is && (err != nil || number < 0 || number >= maxSlots) {
				return nil, fmt.Errorf("%s is no slot of the semaphores %v", hold.lock(), slots)
			}
		}
		if is {
			one.kind, one.model = fmt.Sprintf("a semaphore of %d", count), semaphore(count)
		}
		one.shown = one.pieces[0]
		found = append(found, one)
	}
	return found, nil
}

// pieces cuts the holds of a lock, in the order in which they were won, into stretches of time. A hold belongs to each that it was
// held in, so two that overlap meet in one, and the hold at an edge carries its fence over it.
func pieces(holds []*hold) (found [][]*hold) {
	for first := 0; first < len(holds); first += pieceHolds {
		last := first + pieceHolds
		if last > len(holds)-1 {
			last = len(holds) - 1
		}
		piece := []*hold{}
		for place, one := range holds[:last+1] {
			if place >= first || one.until >= holds[first].acquired {
				piece = append(piece, one)
			}
		}
		found = append(found, piece)
	}
	return found
}

// operations gives the two of each hold. One that ends at a moment has ended by the next look at it: to free a lock sooner
// permits more in each model, so no later end has to be tried. Only its win may come after that, where the lease came too late.
func operations(holds []*hold, clients map[string]int) (found []porcupine.Operation) {
	for _, one := range holds {
		client := clients[one.worker]
		ended := one.ended()
		found = append(found, porcupine.Operation{ClientId: client, Input: event{hold: one}, Call: one.invoked, Return: one.acquired},
			porcupine.Operation{ClientId: client, Input: event{hold: one, ends: true}, Call: ended, Return: later(ended, one.acquired)})
	}
	return found
}

func later(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

// judge says what is wrong with a lock; nothing: its holds are in an order that the model permits.
func (s *subject) judge(clients map[string]int, end time.Time) string {
	for _, piece := range s.pieces {
		some := operations(piece, clients)
		switch s.check(all, some, end) {
		case porcupine.Unknown:
			s.shown = piece
			return "unknown: it is not decided in time"
		case porcupine.Illegal:
			s.shown = piece
			return s.broken(some, end) + "; " + s.first(some, end)
		}
	}
	return ""
}

func (s *subject) check(asked rules, some []porcupine.Operation, end time.Time) porcupine.CheckResult {
	left := time.Until(end)
	if left <= 0 {
		return porcupine.Unknown
	}
	return porcupine.CheckOperationsTimeout(s.model(asked), some, left)
}

// broken names the rules that the operations break, each asked for alone. Where none is broken alone the fences do not grow in the only
// order that exclusion permits.
func (s *subject) broken(some []porcupine.Operation, end time.Time) string {
	words := []string{}
	for _, one := range []struct {
		asked rules
		words string
	}{
		{rules{exclusion: true}, "two hold it at once"},
		{rules{limit: true}, "more hold it than it has slots"},
		{rules{order: true}, "a fence is out of order"},
	} {
		if s.check(one.asked, some, end) == porcupine.Illegal {
			words = append(words, one.words)
		}
	}
	if len(words) == 0 {
		words = append(words, "a fence is out of order")
	}
	return strings.Join(words, ", ")
}

// explored tells which orders porcupine has found, the longest where none has all.
func (s *subject) explored(some []porcupine.Operation, end time.Time) porcupine.LinearizationInfo {
	left := time.Until(end)
	if left < time.Second {
		// Nothing left would be without bound.
		left = time.Second
	}
	_, info := porcupine.CheckOperationsVerbose(s.model(all), some, left)
	return info
}

// first names the operation that ends soonest of those which the longest order found has no place for.
func (s *subject) first(some []porcupine.Operation, end time.Time) string {
	info, longest := s.explored(some, end), []porcupine.Operation{}
	for _, partial := range info.PartialLinearizationsOperations()[0] {
		if len(partial) > len(longest) {
			longest = partial
		}
	}
	placed := map[event]bool{}
	for _, operation := range longest {
		placed[operation.Input.(event)] = true
	}
	sort.SliceStable(some, func(a, b int) bool { return some[a].Return < some[b].Return })
	for _, operation := range some {
		if one := operation.Input.(event); !placed[one] {
			return fmt.Sprintf("no place for: %s, between %d and %d", one, operation.Call, operation.Return)
		}
	}
	return "each has a place"
}

// picture writes porcupine's page about a lock: the piece that is shown, and the faults that met it.
func (s *subject) picture(folder string, faults []*fault, clients map[string]int, end time.Time) error {
	some := operations(s.shown, clients)
	info := s.explored(some, end)
	info.AddAnnotations(annotations(faults, some))
	return porcupine.VisualizePath(s.model(all), info, filepath.Join(folder, s.name+".html"))
}

func annotations(faults []*fault, shown []porcupine.Operation) (found []porcupine.Annotation) {
	begin, end := int64(never), int64(0)
	for _, operation := range shown {
		if operation.Call < begin {
			begin = operation.Call
		}
		end = later(end, operation.Return)
	}
	for _, one := range faults {
		if one.begin <= end && one.end >= begin {
			found = append(found, porcupine.Annotation{Tag: "faults", Start: one.begin, End: one.end, Description: one.kind + " " + one.whom})
		}
	}
	return found
}

func pictures(folder string, found []*subject, faults []*fault, clients map[string]int, end time.Time) error {
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, one := range found {
		if err := one.picture(folder, faults, clients, end); err != nil {
			return err
		}
	}
	return nil
}

func run() (bool, error) {
	slots := flag.String("slots", "", "the semaphores and how many slots each has: pool=2,other=3")
	least := flag.Int("least", 1, "so many holds must have been judged")
	seconds := flag.Float64("seconds", 60, "what is not decided by then is refused as unknown")
	folder := flag.String("picture", "", "write porcupine's page about each lock into this folder")
	flag.Parse()
	counts, err := slotsOf(*slots)
	if err != nil {
		return false, err
	}
	if flag.NArg() != 1 {
		return false, fmt.Errorf("give one history")
	}
	history, err := read(flag.Arg(0))
	if err != nil {
		return false, err
	}
	found, err := subjects(history, counts)
	if err != nil {
		return false, err
	}
	clients, end, good := map[string]int{}, time.Now().Add(time.Duration(*seconds*float64(time.Second))), true
	for _, one := range history.holds {
		if _, known := clients[one.worker]; !known {
			clients[one.worker] = len(clients)
		}
	}
	for _, one := range found {
		wrong := one.judge(clients, end)
		word := "ok  "
		if wrong != "" {
			word, good, wrong = "FAIL", false, ": "+wrong
		}
		fmt.Printf("%s %s, as %s: %d holds, %d operations%s\n", word, one.name, one.kind, one.holds, 2*one.holds, wrong)
	}
	if len(history.holds) < *least {
		good = false
		fmt.Printf("FAIL only %d holds, at least %d must be judged\n", len(history.holds), *least)
	}
	return good, pictures(*folder, found, history.faults, clients, end)
}

func main() {
	good, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "porcupine:", err)
		os.Exit(2)
	}
	if !good {
		os.Exit(1)
	}
}
