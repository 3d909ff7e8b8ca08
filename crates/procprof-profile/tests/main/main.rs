//! Laws every profile and every format obeys, and real pprof reading what we write.

#![allow(clippy::disallowed_methods)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bounds;
mod fixtures;
mod go_pprof;
mod laws;
mod random;
mod sums;
