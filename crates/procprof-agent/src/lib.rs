//! Embed in a process: CPU and heap capture and the pprof endpoints.
