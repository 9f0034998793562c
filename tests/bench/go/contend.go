package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
)

// Drain is how long a run waits after its time for contenders that have not come back.
const drain = time.Second

// A hold, as handoffs.py reads it.
type hold struct{ contender, granted, releasing, released uint64 }

// History is what happened so far; a contender that is late may add to it.
type history struct {
	sync.Mutex
	holds []hold
}

// Granted notes that a contender holds from now on; returns where.
func (h *history) granted(contender int) (int, uint64) {
	h.Lock()
	defer h.Unlock()
	now := monotonic()
	h.holds = append(h.holds, hold{contender: uint64(contender), granted: now})
	return len(h.holds) - 1, now
}

// Note changes a hold.
func (h *history) note(place int, change func(*hold)) {
	h.Lock()
	defer h.Unlock()
	change(&h.holds[place])
}

func (h *history) write(path string) error {
	h.Lock()
	defer h.Unlock()
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return binary.Write(file, binary.NativeEndian, h.holds)
}

// Contend has all workers at one lock: who has released it asks again at once.
func contend(w words, open func(string) *redsync.Mutex) error {
	for worker := range w.workers {
		warm := open(fmt.Sprintf("warm-%d-%d", os.Getpid(), worker))
		for range max(warmCycles/w.workers, 2) {
			cycle(warm)
		}
	}
	w.ready()
	began, used := monotonic(), cpu()
	ended := began + uint64(w.seconds*1e9)
	var past history
	var failures, inside atomic.Int64
	var all sync.WaitGroup
	inside.Store(int64(w.workers))
	for worker := range w.workers {
		mutex := open("bench")
		all.Add(1)
		go func() {
			defer all.Done()
			defer inside.Add(-1)
			for monotonic() < ended {
				if mutex.Lock() != nil {
					failures.Add(1)
					continue
				}
				place, granted := past.granted(worker)
				if w.stay > 0 && granted < ended {
					time.Sleep(w.stay)
				}
				releasing := monotonic()
				past.note(place, func(h *hold) { h.releasing = releasing })
				if released, err := mutex.Unlock(); err != nil || !released {
					failures.Add(1)
				}
				done := monotonic()
				past.note(place, func(h *hold) { h.released = done })
			}
		}()
	}
	time.Sleep(time.Duration(w.seconds * 1e9))
	spent := cpu() - used
	back := whenBack(&all)
	select {
	case <-back:
	case <-time.After(drain):
	}
	late := inside.Load()
	if err := past.write(w.history); err != nil {
		return err
	}
	fmt.Printf("{\"peer\": %q, \"began\": %d, \"ended\": %d, \"cpu_ns\": %d, \"failures\": %d, \"late\": %d}\n", w.peer, began, ended,
		spent.Nanoseconds(), failures.Load(), late)
	return nil
}

// WhenBack is closed when all are.
func whenBack(all *sync.WaitGroup) <-chan struct{} {
	back := make(chan struct{})
	go func() {
		all.Wait()
		close(back)
	}()
	return back
}
