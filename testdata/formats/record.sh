#!/bin/sh
# Records the profiles here that real profilers write: needs gcc, go, libgoogle-perftools-dev and libjemalloc-dev. Run in this folder.
set -eu
build=$(mktemp -d)
trap 'rm -r "$build"' EXIT
cc() { gcc -O1 -g -fno-omit-frame-pointer -pthread "$@"; }

cc -DWITH_PROFILER -o "$build/work" work.c -Wl,--no-as-needed -lprofiler
CPUPROFILE_FREQUENCY=250 "$build/work" cpu gperftools-cpu/work.prof

cc -DWITH_TCMALLOC -o "$build/work" work.c -ltcmalloc
"$build/work" heap "$build/tc"
cp "$build"/tc.0001.heap heap-text/work.heap

cc -DWITH_JEMALLOC -o "$build/work" work.c -ljemalloc
MALLOC_CONF=prof:true,lg_prof_sample:14 "$build/work" heap jemalloc/work.heap
MALLOC_CONF=prof:true,prof_accum:true,lg_prof_sample:14 "$build/work" heap jemalloc/work-accum.heap

go build -trimpath -o "$build/gowork" work.go
"$build/gowork" "$build"
cp "$build"/goroutine.txt "$build"/threadcreate.txt go-count/
cp "$build"/mutex.txt "$build"/block.txt contention/
cp "$build"/heap.txt heap-text/go-heap.txt
