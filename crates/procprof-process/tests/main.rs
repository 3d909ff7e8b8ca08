//! The process reader against real processes, this one and children it starts.

mod child;
mod current;
mod mapped;
mod port;
