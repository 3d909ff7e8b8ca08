#!/bin/bash
# Records cpu.gperftools, contention.brpc and heap.jemalloc anew: builds busy.cpp as /opt/demo_be/lib/demo_be and runs it.
# Needs g++, libgoogle-perftools-dev, libjemalloc-dev.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p /opt/demo_be/lib
g++ -std=c++17 -O1 -g -fno-omit-frame-pointer -rdynamic "$here/busy.cpp" -o /opt/demo_be/lib/demo_be -lprofiler -ljemalloc -lpthread
cd "$here"
MALLOC_CONF=prof:true,prof_active:true,lg_prof_sample:19 CPUPROFILE_FREQUENCY=100 /opt/demo_be/lib/demo_be
ls -l cpu.gperftools contention.brpc heap.jemalloc
