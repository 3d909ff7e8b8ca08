#!/bin/sh
# Records the profiles here that other tools write, each in the folder of its format: needs gcc, perf, valgrind, a JDK, node, python3 with py-spy, pyinstrument,
# austin-dist 3.7 and austin-python on the PATH, chromium, zstd, xz, bzip2. Run in this folder. Numbers that tests name have to be read off the new files.
set -eu
here=$PWD
build=$(mktemp -d)
trap 'rm -r "$build"' EXIT
cp calls.c calls.py calls.js "$build"
cd "$build"
gcc -g -O1 -fno-omit-frame-pointer -o calls calls.c

perf record -q -F 199 -g --sample-cpu -e cpu-clock,page-faults -o c.data ./calls 60
perf script -i c.data >"$here/perf-script/stacks.txt"
perf script -i c.data --header -F +pid,+cpu,+srcline >"$here/perf-script/lines.txt"
perf script -i c.data -G -F -period >"$here/perf-script/places.txt"
perf script -i c.data --show-mmap-events -F comm,tid,ip,sym,event >"$here/perf-script/names.txt"

perf record -q -F 99 -g -e cpu-clock,page-faults -o chains.data ./calls 20
perf record -q -F 49 -e task-clock --call-graph dwarf,512 -o copies.data ./calls 20
perf record -q -z -F 99 -g -e cpu-clock -o packed.data ./calls 20
perf record -q -F 99 -g -e cpu-clock -o - ./calls 20 >pipe.data
perf record -q -F 99 -g -e '{cpu-clock,page-faults}:S' -o grouped.data ./calls 20
perf record -q -z -F 99 -g -e cpu-clock -o - ./calls 20 >packed-pipe.data
mv chains.data copies.data packed.data pipe.data grouped.data packed-pipe.data "$here/perf-data"

py-spy record -r 50 -d 1 -f speedscope -o "$here/speedscope/py-spy.json" -- python3 calls.py 1
py-spy record -r 25 -d 1 -f chrometrace -o "$here/chrome-trace/py-spy.json" -- python3 calls.py 0.6
pyinstrument -r speedscope -o "$here/speedscope/pyinstrument.json" calls.py 0.2

python3 -m cProfile -o "$here/pstats/calls.pstats" calls.py 0.2

austin -i 20ms -b -o "$here/mojo/wall.mojo" python3 calls.py 1
austin -i 20ms -f python3 calls.py 0.4 | sed "s#$build/#/src/#g" >"$here/collapsed/austin-full.txt"
austin -i 5ms -m -b -o "$here/mojo/memory.mojo" python3 calls.py 1
for recording in wall memory; do
    sed -i "s#$build/#/src/#g" "$here/mojo/$recording.mojo"
    mojo2austin "$here/mojo/$recording.mojo" "$here/mojo/$recording.austin"
done

gcc -g -O1 -o heap "$here/heap.c"
valgrind -q --tool=massif --time-unit=B --massif-out-file="$here/massif/heap.massif" ./heap
valgrind -q --tool=dhat --dhat-out-file="$here/dhat/heap.dhat" ./heap
java "$here/Threads.java" >ready &
until grep -q ready ready; do sleep 0.1; done
jstack $! >"$here/java-threads/jstack.txt"
kill $!

node --cpu-prof --cpu-prof-dir="$here/cpuprofile" --cpu-prof-name=node.cpuprofile --cpu-prof-interval 5000 calls.js 0.3
node --heap-prof --heap-prof-dir="$here/heapprofile" --heap-prof-name=node.heapprofile --heap-prof-interval=65536 calls.js 0.8

# Of Chromium's trace: the metadata of the page's process, the first 25 calls of its main thread, and the profile of its script.
sed 's/Number(process.argv\[2\])/0.5/' calls.js >calls-page.js
echo '<script src="calls-page.js"></script>' >page.html
chromium --headless --no-sandbox --disable-gpu --trace-startup=disabled-by-default-v8.cpu_profiler --trace-startup-format=json \
    --trace-startup-file="$build/trace.json" --trace-startup-duration=4 --virtual-time-budget=3000 --dump-dom "file://$build/page.html" >page.out
python3 - "$build/trace.json" "$here/chrome-trace/chromium.json" <<'CUT'
import json, sys
trace = json.load(open(sys.argv[1]))
events = trace["traceEvents"]
profiles = [event for event in events if event["name"] in ("Profile", "ProfileChunk")]
page = next(event for event in profiles if "calls-page" in json.dumps(event))
kept = [event for event in events if event["pid"] == page["pid"] and event["ph"] == "M"][:8]
kept += [event for event in events if event["pid"] == event["tid"] == page["pid"] and event["ph"] in "XBE"][:25]
kept += [event for event in profiles if (event["pid"], event["id"]) == (page["pid"], page["id"])]
json.dump({"traceEvents": kept}, open(sys.argv[2], "w"), separators=(",", ":"))
CUT

cd "$here"
for packer in "zstd -q -19 -c:zst" "xz -9 -c:xz" "bzip2 -9 -c:bz2"; do
    ${packer%:*} collapsed/work.txt >"packed/work.txt.${packer#*:}"
done
# Two frames, and one to skip between them.
(head -3 collapsed/work.txt | zstd -q -c; printf '\120\052\115\030\004\0\0\0skip'; tail -n +4 collapsed/work.txt | zstd -q --ultra -22 --long=27 -c) >packed/frames.zst
sed -i "s#$build/#/src/#g" cpuprofile/*.cpuprofile heapprofile/*.heapprofile chrome-trace/*.json speedscope/*.json
