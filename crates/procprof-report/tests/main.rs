//! Reports as a whole: laws, goldens, the same numbers as pprof, and the viewer in a real browser.

#![allow(clippy::disallowed_methods)]
#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

mod browser;
mod budget;
mod disassembly;
mod escaping;
mod go_pprof;
mod golden;
mod graphs;
mod laws;
mod left_out;
mod listing;
mod pprof;
mod pprof_top;
mod samples;
mod slices;
