// C called by Go, with the frame pointer used for data, and Go called by C.
// callbacks MODE runs until it is killed: c stays in one call of C, go in Go called by C, both takes turns at them.
package main

/*
#include <stdint.h>

extern void burnInGo(int rounds);

// The compiler saves the frame pointer, since it is overwritten here.
__attribute__((noinline)) static void burn_in_c(int rounds)
{
    for (volatile int i = 0; i < rounds; i++)
        __asm__ volatile("xor %%ebp, %%ebp\n1: inc %%ebp\n cmp $1000, %%ebp\n jne 1b" ::: "rbp", "cc");
}

__attribute__((noinline)) static void call_back(int rounds)
{
    burnInGo(rounds);
    __asm__ volatile("");
}
*/
import "C"

import "os"

var sink int

//export burnInGo
func burnInGo(rounds C.int) { spin(int(rounds)) }

//go:noinline
func spin(rounds int) {
	for i := range rounds * 300 {
		sink += i ^ sink
	}
}

//go:noinline
func viaC(rounds int) { C.burn_in_c(C.int(rounds)) }

//go:noinline
func viaCallback(rounds int) { C.call_back(C.int(rounds)) }

func main() {
	for {
		switch os.Args[1] {
		case "c":
			viaC(1 << 30)
		case "go":
			viaCallback(1 << 20)
		case "both":
			viaC(1000)
			viaCallback(1000)
		}
	}
}
