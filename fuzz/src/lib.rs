//! Common code of the fuzz targets: the selected part of a target, files to write inputs to, and the bounds of time and
//! memory of each decoder.
//!
//! Exceeding a bound panics, so that the fuzzer keeps the input. The worst values are printed as they grow, in lines of
//! standard error that `cargo xtask fuzz` reads:
//!
//! ```text
//! worst: 12.5 times the input, 3 ms
//! ```

mod bound;
mod files;

pub use bound::{Bound, Meter};
pub use files::Files;

/// The selected part of the target, such as one decoder. The whole if the environment names none.
pub fn part() -> Option<String> {
    std::env::var("FUZZ_PART").ok()
}
