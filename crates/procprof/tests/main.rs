//! The command as its users run it: real processes, real files, real tools.

mod collect;
mod crash;
mod demo;
mod documented;
mod exposure;
mod harness;
mod jeprof;
mod nodes;
mod processes;
mod remote;
mod report;
mod shell;
mod symbols;
