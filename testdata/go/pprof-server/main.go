// A Go process with net/http/pprof: burns CPU in hot70 and hot30, contends for a lock, holds memory. Prints "port N".
package main

import (
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof"
	"runtime"
	"sync"
	"time"
)

var (
	sink   uint64
	kept   [][]byte
	shared sync.Mutex
)

func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for i := uint64(0); i < 10000; i++ {
			sink = sink*31 + i
		}
	}
}

//go:noinline
func hot70() { spin(7 * time.Millisecond) }

//go:noinline
func hot30() { spin(3 * time.Millisecond) }

//go:noinline
func growHeap() { kept = append(kept, make([]byte, 1<<20)) }

//go:noinline
func slowLock() {
	for {
		shared.Lock()
		time.Sleep(2 * time.Millisecond)
		shared.Unlock()
	}
}

func main() {
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	for i := 0; i < 16; i++ {
		growHeap()
	}
	for i := 0; i < 2; i++ {
		go slowLock()
	}
	go func() {
		for {
			hot70()
			hot30()
			time.Sleep(20 * time.Millisecond)
		}
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("port %d\n", listener.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(listener, nil))
}
