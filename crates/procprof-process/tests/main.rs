//! The process reader against real processes, this one and children it starts.

// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

mod child;
mod current;
mod mapped;
mod port;
