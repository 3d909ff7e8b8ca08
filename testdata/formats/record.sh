#!/bin/sh
# Records the profiles here that real profilers write: needs gcc, go, a JDK 17, Maven, unzip, libgoogle-perftools-dev and libjemalloc-dev. Run in this folder.
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

javac -d "$build" Work.java
events='+jdk.ExecutionSample#enabled=true,+jdk.ExecutionSample#period=20ms,+jdk.ObjectAllocationSample#enabled=true,+jdk.ObjectAllocationSample#throttle=20/s'
events="$events,+jdk.JavaMonitorEnter#enabled=true,+jdk.JavaMonitorEnter#threshold=0ms,+jdk.ThreadPark#enabled=true,+jdk.ThreadPark#threshold=0ms"
events="$events,+jdk.ActiveSetting#enabled=true,+jdk.JVMInformation#enabled=true"
java -Xmx64m -XX:StartFlightRecording:settings=none,filename=jfr/work.jfr,"$events" -cp "$build" Work 2

# Flame graphs and collapsed stacks of one session each: the libraries come from Maven Central.
for version in 4.0 4.5; do
    mvn -q dependency:get -Dartifact="tools.profiler:async-profiler:$version" -Dtransitive=false
    jar="$HOME/.m2/repository/tools/profiler/async-profiler/$version/async-profiler-$version.jar"
    unzip -q -o "$jar" linux-x64/libasyncProfiler.so -d "$build/$version"
    java -Xmx64m -cp "$build" Work 12 &
    pid=$!
    sleep 2
    profiler() { jcmd "$pid" JVMTI.agent_load "$build/$version/linux-x64/libasyncProfiler.so" "\"$1\"" >/dev/null; }
    out="$PWD/async-profiler-html/work-$version"
    profiler start,event=ctimer,interval=10ms,cstack=vm
    sleep 3
    profiler "stop,flamegraph,file=$out.html"
    profiler "dump,flamegraph,reverse,file=$out-reversed.html"
    profiler "dump,collapsed,file=$out.collapsed"
    wait
done
