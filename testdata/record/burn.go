// burn.c in Go: interfaces, closures, and goroutines that the runtime moves between threads.
// burn SECONDS prints nothing.
package main

import (
	"os"
	"strconv"
	"sync"
	"syscall"
)

var sink uint64

//go:noinline
func step(n uint64) uint64 {
	sum := uint64(0)
	for i := uint64(0); i < n; i++ {
		sum += i ^ sum
	}
	return sum
}

//go:noinline
func spin(n uint64) uint64 {
	sum := uint64(0)
	for i := uint64(0); i < n; i++ {
		sum += step(1000)
	}
	return sum
}

type work interface{ run() uint64 }
type hotA struct{ n uint64 }
type hotB struct{ n uint64 }

//go:noinline
func (w *hotA) run() uint64 { return spin(w.n) + 1 }

//go:noinline
func (w *hotB) run() uint64 { return spin(w.n) + 2 }

//go:noinline
func deep(n int, all []work) uint64 {
	if n == 0 {
		sum := uint64(0)
		for _, work := range all {
			sum += work.run()
		}
		return sum
	}
	return deep(n-1, all) + 1
}

func used() float64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Sec+usage.Stime.Sec) + float64(usage.Utime.Usec+usage.Stime.Usec)/1e6
}

func main() {
	seconds := 1.0
	if len(os.Args) > 1 {
		seconds, _ = strconv.ParseFloat(os.Args[1], 64)
	}
	var group sync.WaitGroup
	for range 2 {
		group.Add(1)
		go func() {
			defer group.Done()
			// Rounds differ in length, so that samples at a steady rate do not find the same part of each.
			random := uint64(1)
			for used() < seconds {
				random = random*6364136223846793005 + 1
				scale := 50 + (random>>33)%101
				sink += deep(20, []work{&hotA{7 * scale}, &hotB{3 * scale}})
			}
		}()
	}
	group.Wait()
}
