// Command runtime waits, locks and allocates under labels, and writes go.allocs.pb.gz, go.goroutine.pb.gz and go.threadcreate.pb.gz, inputs of
// the report tests. In this folder: go build -trimpath -o /tmp/runtime main.go && cd .. && /tmp/runtime
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"time"
)

var kept [][]byte

func build(parts int) string {
	var text strings.Builder
	for part := range parts {
		fmt.Fprintf(&text, "part %d of %d;", part, parts)
	}
	return text.String()
}

func keep(size int) { kept = append(kept, make([]byte, size)) }

func wait(ready *sync.WaitGroup, done chan struct{}) {
	ready.Done()
	<-done
}

func lockedWait(ready *sync.WaitGroup, done chan struct{}) {
	runtime.LockOSThread()
	wait(ready, done)
}

func write(kind string) {
	file, err := os.Create("go." + kind + ".pb.gz")
	if err != nil {
		panic(err)
	}
	if err := pprof.Lookup(kind).WriteTo(file, 0); err != nil {
		panic(err)
	}
	file.Close()
}

func main() {
	runtime.MemProfileRate = 512
	for round := range 400 {
		build(round)
		keep(64 << (round % 9))
	}
	var ready sync.WaitGroup
	done := make(chan struct{})
	for number := range 24 {
		ready.Add(1)
		pool := []string{"reader", "writer", "reaper"}[number%3]
		pprof.Do(context.Background(), pprof.Labels("pool", pool), func(context.Context) {
			if number%4 == 0 {
				go lockedWait(&ready, done)
			} else {
				go wait(&ready, done)
			}
		})
	}
	go func() { time.Sleep(time.Hour) }()
	ready.Wait()
	time.Sleep(50 * time.Millisecond)
	write("allocs")
	write("goroutine")
	write("threadcreate")
	close(done)
}
