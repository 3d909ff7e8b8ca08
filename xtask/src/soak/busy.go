// A Go process with net/http/pprof: burns CPU in a named function, holds memory. Listens on the port it is given and prints "port N".
package main

import (
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"time"
)

var (
	sink uint64
	kept [][]byte
)

//go:noinline
func burnGo() {
	for end := time.Now().Add(5 * time.Millisecond); time.Now().Before(end); {
		for i := uint64(0); i < 10000; i++ {
			sink = sink*31 + i
		}
	}
}

//go:noinline
func holdGo() { kept = append(kept, make([]byte, 1<<20)) }

func main() {
	for i := 0; i < 16; i++ {
		holdGo()
	}
	go func() {
		for {
			burnGo()
			time.Sleep(20 * time.Millisecond)
		}
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		panic(err)
	}
	fmt.Printf("port %d\n", listener.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(listener, nil))
}
