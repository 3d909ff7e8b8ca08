//! Get a profile from a process: pprof over HTTP, brpc, jemalloc.
