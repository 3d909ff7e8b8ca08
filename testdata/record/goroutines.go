// Work on the thread's stack that goroutines call for: by runtime.systemstack, by the growth of a stack, by the clock in
// the vdso, by allocation and its garbage collection.
// goroutines MODE SECONDS FILE writes Go's own profile of these seconds of CPU time to the file.
package main

import (
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"syscall"
	"time"
)

var sink int
var kept [64][]byte

//go:noinline
func callers(addresses []uintptr) {
	for range 100 {
		sink += runtime.Callers(0, addresses)
	}
}

//go:noinline
func clock() {
	for range 1000 {
		sink += time.Now().Nanosecond()
	}
}

//go:noinline
func allocate() {
	for i := range 1000 {
		kept[i%len(kept)] = make([]byte, 1+i*17%4096)
	}
}

// Needs 4 KiB of stack each time.
//
//go:noinline
func grow(depth int) int {
	var values [512]int
	values[depth] = depth
	if depth == 0 {
		return values[0]
	}
	return grow(depth-1) + values[depth-1]
}

//go:noinline
func grown() {
	done := make(chan int)
	go func() { done <- grow(40) }()
	sink += <-done
}

func used() float64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Sec+usage.Stime.Sec) + float64(usage.Utime.Usec+usage.Stime.Usec)/1e6
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	file, _ := os.Create(os.Args[3])
	// More often than StartCPUProfile would, which complains but goes on.
	runtime.SetCPUProfileRate(997)
	pprof.StartCPUProfile(file)
	addresses := make([]uintptr, 32)
	for used() < seconds {
		switch os.Args[1] {
		case "callers":
			callers(addresses)
		case "clock":
			clock()
		case "allocate":
			allocate()
		case "grow":
			grown()
		}
	}
	pprof.StopCPUProfile()
}
