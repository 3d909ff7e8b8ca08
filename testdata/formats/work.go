// The program behind the recorded Go profiles here: `go run work.go DIR` writes goroutine, threadcreate, mutex, block and heap as text.
package main

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"
)

var kept [][]byte

//go:noinline
func contend(lock *sync.Mutex, done *sync.WaitGroup) {
	for i := 0; i < 20; i++ {
		lock.Lock()
		time.Sleep(100 * time.Microsecond)
		lock.Unlock()
	}
	done.Done()
}

//go:noinline
func keep() {
	for i := 0; i < 64; i++ {
		kept = append(kept, make([]byte, 64<<10))
	}
	kept = kept[32:]
}

func main() {
	runtime.MemProfileRate = 64 << 10
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	var lock sync.Mutex
	var done sync.WaitGroup
	for i := 0; i < 3; i++ {
		done.Add(1)
		go contend(&lock, &done)
	}
	done.Wait()
	keep()
	runtime.GC()
	for i := 0; i < 3; i++ {
		go func() { select {} }()
	}
	time.Sleep(10 * time.Millisecond)
	for _, name := range []string{"goroutine", "threadcreate", "mutex", "block", "heap"} {
		file, err := os.Create(filepath.Join(os.Args[1], name+".txt"))
		if err != nil {
			panic(err)
		}
		if err := pprof.Lookup(name).WriteTo(file, 1); err != nil {
			panic(err)
		}
		file.Close()
	}
}
