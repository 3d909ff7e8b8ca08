// A program whose functions are named after it was stripped.
package main

import (
	"fmt"
	"os"
	"sort"
)

type shape interface{ area() int }

type square struct{ side int }

func (s *square) area() int { return twice(s.side) * s.side }

func twice(value int) int { return value + value }

//go:noinline
func total(shapes []shape) (sum int) {
	sort.Slice(shapes, func(i, j int) bool { return shapes[i].area() < shapes[j].area() })
	for _, each := range shapes {
		sum += each.area()
	}
	return sum
}

func main() {
	shapes := []shape{&square{1}, &square{len(os.Args)}}
	fmt.Println(total(shapes))
}
