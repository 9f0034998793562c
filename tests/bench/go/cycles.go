package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
)

// Cycle acquires and releases; whether both succeeded.
func cycle(mutex *redsync.Mutex) bool {
	if mutex.Lock() != nil {
		return false
	}
	released, err := mutex.Unlock()
	return err == nil && released
}

// Cycles has each worker acquire and release a lock of its own until the time is over.
func cycles(w words, open func(string) *redsync.Mutex) error {
	var mutexes []*redsync.Mutex
	for worker := range w.workers {
		mutexes = append(mutexes, open(fmt.Sprintf("bench-%d", worker)))
	}
	each := func(work func(int, *redsync.Mutex)) {
		var all sync.WaitGroup
		for worker, mutex := range mutexes {
			all.Add(1)
			go func() {
				defer all.Done()
				work(worker, mutex)
			}()
		}
		all.Wait()
	}
	each(func(_ int, mutex *redsync.Mutex) {
		for range max(warmCycles/w.workers, 2) {
			cycle(mutex)
		}
	})
	w.ready()
	times, failures := slices.Repeat([][]float64{nil}, w.workers), slices.Repeat([]int{0}, w.workers)
	begun, used := time.Now(), cpu()
	each(func(worker int, mutex *redsync.Mutex) {
		end := begun.Add(time.Duration(w.seconds * 1e9))
		for at := time.Now(); at.Before(end); {
			if !cycle(mutex) {
				failures[worker]++
			}
			now := time.Now()
			times[worker] = append(times[worker], float64(now.Sub(at).Nanoseconds())/1e3)
			at = now
		}
	})
	took, spent := time.Since(begun).Seconds(), cpu()-used
	all, failed := slices.Concat(times...), 0
	for _, more := range failures {
		failed += more
	}
	slices.Sort(all)
	at := func(share float64) float64 {
		if len(all) == 0 {
			return 0
		}
		return all[int(float64(len(all)-1)*share)]
	}
	fmt.Printf("{\"peer\": %q, \"cycles\": %d, \"seconds\": %.3f, \"cycles_per_s\": %.0f, \"p50_us\": %.2f, \"p99_us\": %.2f, "+
		"\"max_us\": %.2f, \"cpu_us\": %.2f, \"failures\": %d, \"violations\": 0}\n", w.peer, len(all), took, float64(len(all))/took,
		at(0.5), at(0.99), at(1), float64(spent.Nanoseconds())/1e3/float64(max(len(all), 1)), failed)
	return nil
}
