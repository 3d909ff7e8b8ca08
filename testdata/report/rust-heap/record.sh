#!/bin/sh
# Records ../rust.heap.pb.gz, a heap profile of a real program with tikv-jemallocator, not optimized. Needs `procprof` on the PATH. Run in this folder.
set -eu
build=$(mktemp -d)
trap 'rm -r "$build"' EXIT
mkdir "$build/src"
cp main.rs "$build/src/"
cat > "$build/Cargo.toml" <<'END'
[package]
name = "rust-heap"
version = "0.0.0"
edition = "2024"
[dependencies]
tikv-jemallocator = { version = "0.7", features = ["profiling"] }
tikv-jemalloc-sys = { version = "0.7", features = ["profiling"] }
END
(cd "$build" && cargo build --quiet)
binary=$build/target/debug/rust-heap
_RJEM_MALLOC_CONF=prof:true,lg_prof_sample:14 "$binary" "$build/heap"
procprof report --pprof --binary "$binary" -o ../rust.heap.pb.gz "$build/heap"
