package main

import (
	"os"
	"runtime/pprof"
	"sync"
	"time"
)

func wait(done chan bool) { <-done }

func lockIt(mutex *sync.Mutex) {
	mutex.Lock()
	defer mutex.Unlock()
}

func main() {
	done := make(chan bool)
	for i := 0; i < 3; i++ {
		go wait(done)
	}
	var mutex sync.Mutex
	mutex.Lock()
	go lockIt(&mutex)
	go func() { time.Sleep(time.Hour) }()
	time.Sleep(50 * time.Millisecond)
	pprof.Lookup("goroutine").WriteTo(os.Stdout, 2)
}
