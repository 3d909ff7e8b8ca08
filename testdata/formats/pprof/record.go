// Records the pprof files here: `go run -trimpath record.go` in this folder writes go-heap.pb.gz and go-cpu.pb.gz (with labels) of its own work.
package main

import (
	"context"
	"os"
	"runtime"
	"runtime/pprof"
	"time"
)

var kept [][]byte

//go:noinline
func keep() {
	for i := 0; i < 64; i++ {
		kept = append(kept, make([]byte, 64<<10))
	}
	kept = kept[32:]
}

//go:noinline
func spin(until time.Duration) (sum int) {
	for start := time.Now(); time.Since(start) < until; {
		for i := 0; i < 1000; i++ {
			sum += i * i
		}
	}
	return sum
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	runtime.MemProfileRate = 64 << 10
	cpu, err := os.Create("go-cpu.pb.gz")
	check(err)
	check(pprof.StartCPUProfile(cpu))
	pprof.Do(context.Background(), pprof.Labels("query_id", "q1", "kind", "test"), func(context.Context) { spin(300 * time.Millisecond) })
	spin(100 * time.Millisecond)
	pprof.StopCPUProfile()
	check(cpu.Close())
	keep()
	runtime.GC()
	heap, err := os.Create("go-heap.pb.gz")
	check(err)
	check(pprof.WriteHeapProfile(heap))
	check(heap.Close())
}
