package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
)

// never is later than every time of a history.
const never = math.MaxInt64

// A hold is one lease as its worker knew it. Times are those of the history, in ns.
type hold struct {
	id                 int
	worker, name, slot string
	invoked, acquired  int64
	// until is the end of what the worker believed, and how says what that was: a release, a loss, a death or a keep.
	until  int64
	how    string
	fence  int64
	shared bool
	// robbed is when a clock that was set forward may have taken a vote which the hold could not spare.
	robbed int64
}

// ended is when others may have the lock.
func (h *hold) ended() int64 {
	if h.robbed < h.until {
		return h.robbed
	}
	return h.until
}

type fault struct {
	kind, whom string
	begin, end int64
}

type step struct {
	begin, end int64
	full       map[string]bool
}

// A history is what one run has left, read line by line; tests/chaos/history.py has the lines.
type history struct {
	holds  []*hold
	faults []*fault
	steps  []step
	kept   map[string]map[string]*hold
	begun  map[string]*fault
}

func read(path string) (*history, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	read := &history{kept: map[string]map[string]*hold{}, begun: map[string]*fault{}}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for number := 1; lines.Scan(); number++ {
		if err := read.add(strings.Fields(lines.Text())); err != nil {
			return nil, fmt.Errorf("%s:%d: %v", path, number, err)
		}
	}
	read.rob()
	return read, lines.Err()
}

// numbers reads whole numbers, all of them or none.
func numbers(words ...string) ([]int64, error) {
	found := make([]int64, len(words))
	for place, word := range words {
		number, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, err
		}
		found[place] = number
	}
	return found, nil
}

// The words that each line which counts here has behind its first, and where its numbers begin and end among them.
var shapes = map[string][3]int{
	"take": {6, 2, 6}, "share": {6, 2, 6}, "give": {4, 2, 4}, "keep": {4, 2, 4}, "dead": {2, 1, 2},
	"begin": {4, 2, 3}, "end": {2, 1, 2}, "step": {5, 0, 2},
}

func (history *history) add(line []string) error {
	if len(line) == 0 {
		return nil
	}
	kind, words := line[0], line[1:]
	shape, counts := shapes[kind]
	if !counts {
		return nil
	}
	if len(words) != shape[0] {
		return fmt.Errorf("%s has %d words and not %d", kind, len(words), shape[0])
	}
	n, err := numbers(words[shape[1]:shape[2]]...)
	if err != nil {
		return err
	}
	switch kind {
	case "take", "share":
		history.take(words[0], words[1], n, kind == "share")
	case "give":
		return history.give(words[0], words[1], n[0], n[1])
	case "dead":
		for _, one := range history.kept[words[0]] {
			one.leave(n[0], one.until, "dies")
		}
		delete(history.kept, words[0])
	case "keep":
		return history.keep(words[0], words[1], n[0], n[1])
	case "begin":
		history.begun[words[0]] = &fault{kind: words[1], whom: words[3], begin: n[0], end: n[0]}
		history.faults = append(history.faults, history.begun[words[0]])
	case "end":
		if one := history.begun[words[0]]; one != nil {
			one.end = n[0]
		}
	case "step":
		full := map[string]bool{}
		for _, one := range strings.Split(words[4], ",") {
			full[one] = true
		}
		history.steps = append(history.steps, step{n[0], n[1], full})
	}
	return nil
}

func (history *history) take(worker, lock string, n []int64, shared bool) {
	name, slot, _ := strings.Cut(lock, ".")
	// What is never given back ends as it was last known to, and that is a loss.
	one := &hold{id: len(history.holds) + 1, worker: worker, name: name, slot: slot, invoked: n[0], acquired: n[1],
		until: n[2], how: "loses", fence: n[3], shared: shared, robbed: never}
	history.holds = append(history.holds, one)
	if history.kept[worker] == nil {
		history.kept[worker] = map[string]*hold{}
	}
	history.kept[worker][lock] = one
}

// leave ends a hold at a moment, or before that where its lease has ended earlier: a lease that is lost is never released.
func (h *hold) leave(at, until int64, how string) {
	h.until, h.how = at, how
	if until < at {
		h.until, h.how = until, "loses"
	}
}

func (history *history) give(worker, lock string, at, until int64) error {
	one := history.kept[worker][lock]
	if one == nil {
		return fmt.Errorf("%s gives %s and does not have it", worker, lock)
	}
	delete(history.kept[worker], lock)
	one.leave(at, until, "releases")
	return nil
}

// keep makes the last hold of a worker, which it has given back, last until no other may begin any more.
func (history *history) keep(worker, lock string, acquired, until int64) error {
	for place := len(history.holds) - 1; place >= 0; place-- {
		one := history.holds[place]
		if one.worker == worker && one.lock() == lock && one.acquired == acquired {
			if until > one.until {
				one.until, one.how = until, "keeps until"
			}
			return nil
		}
	}
	return fmt.Errorf("%s keeps %s from %d, when it did not win it", worker, lock, acquired)
}

func (h *hold) lock() string {
	if h.slot == "" {
		return h.name
	}
	return h.name + "." + h.slot
}

// rob finds the holds that a step of a clock met before they were over, and that had not the votes of all nodes by then.
func (history *history) rob() {
	for _, step := range history.steps {
		for _, one := range history.holds {
			safe := step.full[one.lock()+"/"+one.worker] && one.invoked < step.begin
			if one.invoked <= step.end && one.until >= step.begin && !safe && step.begin < one.robbed {
				one.robbed = step.begin
			}
		}
	}
}

// byName gives the holds of each lock, of all slots of a semaphore together, as they were won.
func (history *history) byName() (names []string, holds map[string][]*hold) {
	holds = map[string][]*hold{}
	for _, one := range history.holds {
		holds[one.name] = append(holds[one.name], one)
	}
	for name, some := range holds {
		some := some
		names = append(names, name)
		sort.SliceStable(some, func(a, b int) bool { return some[a].acquired < some[b].acquired })
	}
	sort.Strings(names)
	return names, holds
}
