//! The command as its users run it: real processes, real files, real tools.

mod archive;
mod collect;
mod command;
mod crash;
mod demo;
mod disasm;
mod documented;
mod exposure;
mod harness;
mod jeprof;
mod jvm;
mod load;
mod mysql;
mod naming;
mod node;
mod nodes;
mod processes;
mod record;
mod remote;
mod report;
mod servers;
mod shell;
mod symbols;
mod totals;
