//! What the fuzz targets share: the part of a target that is meant, files to write inputs to, and the bounds of time and memory that each
//! decoder is held to.
//!
//! A bound that is passed panics, so that the fuzzer keeps the input. The worst that was seen is told as it grows, in lines of standard error
//! that `cargo xtask fuzz` reads:
//!
//! ```text
//! worst: 12.5 times the input, 3 ms
//! ```

mod bound;
mod files;

pub use bound::{Bound, Meter};
pub use files::Files;

/// Which part of the target is meant: one decoder, say. The whole if the environment names none.
pub fn part() -> Option<String> {
    std::env::var("FUZZ_PART").ok()
}
