// Command busy serves small requests to itself and writes go.cpu.pb.gz and go.heap.pb.gz, two of the inputs of the report tests.
// Build it with -trimpath.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime/pprof"
	"sort"
	"time"
)

type item struct {
	Name  string
	Vals  []int
	Inner map[string]string
}

func work() int {
	its := []item{}
	for i := 0; i < 50; i++ {
		m := map[string]string{}
		for j := 0; j < 20; j++ {
			m[fmt.Sprint("k", j*i)] = fmt.Sprint("v", i)
		}
		its = append(its, item{fmt.Sprint("n", i), []int{3, 1, 2}, m})
	}
	b, _ := json.Marshal(its)
	var out []item
	json.Unmarshal(b, &out)
	sort.Slice(out, func(i, j int) bool { return out[i].Name > out[j].Name })
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(b)
	w.Close()
	h := sha256.Sum256(z.Bytes())
	re := regexp.MustCompile(`n(\d+)`)
	return len(re.FindAll(b, -1)) + int(h[0])
}
func main() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, work()) }))
	f, _ := os.Create("go.cpu.pb.gz")
	pprof.StartCPUProfile(f)
	t := time.Now()
	for time.Since(t) < 3*time.Second {
		r, _ := http.Get(srv.URL)
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	pprof.StopCPUProfile()
	f.Close()
	f, _ = os.Create("go.heap.pb.gz")
	pprof.Lookup("heap").WriteTo(f, 0)
	f.Close()
}
