package main

import (
	"syscall"
	"time"
	"unsafe"
)

const clockMonotonic = 1

// Of CLOCK_MONOTONIC, which the processes of a machine share, and Go's own clock, at one moment.
var atStart, started = func() (uint64, time.Time) {
	var t syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		panic(err)
	}
	return uint64(t.Nano()), time.Now()
}()

// Monotonic is CLOCK_MONOTONIC in nanoseconds.
func monotonic() uint64 {
	return atStart + uint64(time.Since(started).Nanoseconds())
}

// The CPU time of this process so far.
func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
