//! The server with real pieces: a real agent, a real Go process, the replayed brpc, real files, over real connections.

// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

mod access;
mod api;
mod archive;
mod availability;
mod browser;
mod buckets;
mod captures;
mod differential;
mod fe;
mod harness;
mod heap;
mod hostile_texts;
mod hosts;
mod intake;
mod mysql_periods;
mod mysql_select;
mod nodes;
mod openapi;
mod pages;
mod paging;
mod process;
mod raw;
mod renders;
mod servers;
mod shares;
mod sources;
mod start;
mod symbols;
mod trees;
mod viewer;
