// The program behind `go-count/labels.txt` and the same as pprof, `labels.pb.gz`: goroutines with labels.
package main

import (
	"context"
	"os"
	"runtime/pprof"
	"time"
)

func wait(done chan bool) { <-done }

func main() {
	done := make(chan bool)
	for _, labels := range []pprof.LabelSet{
		pprof.Labels("tenant", "a b"),
		pprof.Labels("tenant", "a b"),
		pprof.Labels("tenant", "c", "say \"k\"", "é\n\\x"),
	} {
		pprof.Do(context.Background(), labels, func(context.Context) { go wait(done) })
	}
	go wait(done)
	time.Sleep(50 * time.Millisecond)
	for debug, name := range []string{"labels.pb.gz", "labels.txt"} {
		file, err := os.Create("go-count/" + name)
		if err != nil {
			panic(err)
		}
		pprof.Lookup("goroutine").WriteTo(file, debug)
	}
}
