//! Real processes recorded from outside. These need perf events: root, or CAP_PERFMON, CAP_SYS_PTRACE and
//! CAP_DAC_READ_SEARCH.

// A failing unwrap is a failing test.
#![allow(clippy::unwrap_used)]

mod cuts;
mod go_stacks;
mod oracle;
mod perf_data;
mod program;
mod recorded;
mod shares;
mod stacks;
mod waits;
