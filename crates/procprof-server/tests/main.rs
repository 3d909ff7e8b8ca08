//! The server with real pieces: a real agent, a real Go process, the replayed brpc, real files, over real connections.

// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

mod access;
mod api;
mod availability;
mod browser;
mod captures;
mod fe;
mod harness;
mod mysql_select;
mod nodes;
mod pages;
mod process;
mod sources;
mod start;
mod symbols;
mod viewer;
