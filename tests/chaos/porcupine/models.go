package main

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// An event is an operation of the models: a hold begins or ends. An end is a release, a loss, a death or the end of a keep.
type event struct {
	hold *hold
	ends bool
}

// Rules are what a model asks for; a history that is refused is asked once more for each alone, so that it can be said which is broken.
type rules struct{ exclusion, limit, order bool }

var all = rules{exclusion: true, limit: true, order: true}

// maxSlots bounds the state of a semaphore.
const maxSlots = 16

// A lock has one holder at a time, and each holder's fence is larger than that of the one before it.
type lockState struct {
	holder int
	fence  int64
}

func lock(asked rules) porcupine.Model {
	return model(lockState{}, func(state interface{}, event event) (bool, interface{}) {
		now, one := state.(lockState), event.hold
		if event.ends {
			return !asked.exclusion || now.holder == one.id, lockState{0, now.fence}
		}
		if asked.exclusion {
			if now.holder != 0 {
				return false, state
			}
			now.holder = one.id
		}
		if one.fence != 0 {
			if asked.order && one.fence <= now.fence {
				return false, state
			}
			now.fence = one.fence
		}
		return true, now
	})
}

// A lock in two modes has one holder alone, or readers. A fence of one alone is larger than all before it, a reader's than that of the
// last one alone: readers have no order among themselves.
type sharedState struct {
	alone                  int
	readers                string
	fenceAlone, fenceOfAll int64
}

func shared(asked rules) porcupine.Model {
	return model(sharedState{}, func(state interface{}, event event) (bool, interface{}) {
		now, one := state.(sharedState), event.hold
		if event.ends {
			if !asked.exclusion {
				return true, state
			}
			held := now.alone == one.id
			if one.shared {
				now.readers, held = without(now.readers, one.id)
			} else {
				now.alone = 0
			}
			return held, now
		}
		if asked.exclusion {
			if now.alone != 0 || !one.shared && now.readers != "" {
				return false, state
			}
			if one.shared {
				now.readers = with(now.readers, one.id)
			} else {
				now.alone = one.id
			}
		}
		if one.fence != 0 {
			bound := now.fenceOfAll
			if one.shared {
				bound = now.fenceAlone
			}
			if asked.order && one.fence <= bound {
				return false, state
			}
			if one.fence > now.fenceOfAll {
				now.fenceOfAll = one.fence
			}
			if !one.shared {
				now.fenceAlone = one.fence
			}
		}
		return true, now
	})
}

// A semaphore has as many holders as slots, each in one of its own; a slot is a lock with fences.
type semaphoreState [maxSlots]lockState

func semaphore(slots int) func(asked rules) porcupine.Model {
	return func(asked rules) porcupine.Model {
		return model(semaphoreState{}, func(state interface{}, event event) (bool, interface{}) {
			now, one := state.(semaphoreState), event.hold
			number, _ := strconv.Atoi(one.slot)
			slot := &now[number]
			if event.ends {
				held := slot.holder == one.id
				slot.holder = 0
				return held || !asked.exclusion, now
			}
			if asked.exclusion && slot.holder != 0 || asked.limit && (now.held() >= slots || number >= slots) {
				return false, state
			}
			if asked.exclusion || asked.limit {
				slot.holder = one.id
			}
			if one.fence != 0 {
				if asked.order && one.fence <= slot.fence {
					return false, state
				}
				slot.fence = one.fence
			}
			return true, now
		})
	}
}

// held counts the slots that are taken.
func (s semaphoreState) held() (count int) {
	for _, slot := range s {
		if slot.holder != 0 {
			count++
		}
	}
	return count
}

// model puts what the three have in common around a step: states are compared by value, and told in words.
func model(first interface{}, step func(state interface{}, event event) (bool, interface{})) porcupine.Model {
	return porcupine.Model{
		Init:              func() interface{} { return first },
		Step:              func(state, input, _ interface{}) (bool, interface{}) { return step(state, input.(event)) },
		DescribeOperation: func(input, _ interface{}) string { return input.(event).String() },
		DescribeState:     describe,
	}
}

func (e event) String() string {
	one := e.hold
	words := one.how
	if !e.ends {
		words = "acquires"
		if one.shared {
			words = "shares"
		}
	}
	return fmt.Sprintf("%s %s %s, fence %d", one.worker, words, one.lock(), one.fence)
}

func describe(state interface{}) string {
	switch now := state.(type) {
	case lockState:
		return now.String()
	case sharedState:
		if now.readers != "" {
			return fmt.Sprintf("readers %s, fence %d", now.readers, now.fenceOfAll)
		}
		return lockState{now.alone, now.fenceOfAll}.String()
	case semaphoreState:
		words := []string{}
		for number, slot := range now {
			if slot != (lockState{}) {
				words = append(words, fmt.Sprintf("%d: %s", number, slot))
			}
		}
		return strings.Join(words, "; ")
	}
	return ""
}

func (s lockState) String() string {
	if s.holder == 0 {
		return fmt.Sprintf("free, fence %d", s.fence)
	}
	return fmt.Sprintf("hold %d, fence %d", s.holder, s.fence)
}

// with and without change a set of holds, which is kept as a text in order, so that states can be compared.
func with(set string, id int) string {
	words := append(strings.Fields(set), strconv.Itoa(id))
	sort.Strings(words)
	return strings.Join(words, " ")
}

func without(set string, id int) (string, bool) {
	words, left := strings.Fields(set), []string{}
	for _, word := range words {
		if word != strconv.Itoa(id) {
			left = append(left, word)
		}
	}
	return strings.Join(left, " "), len(left) < len(words)
}
