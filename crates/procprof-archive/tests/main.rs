//! The archive from outside: what is written is read back, by this crate and by other engines; broken files are
//! errors.

#![allow(clippy::unwrap_used)]

mod buckets;
mod compact;
mod engines;
mod hostile;
#[path = "../../procprof-files/tests/versions/law.rs"]
mod law;
mod laws;
mod reference;
mod rollups;
mod support;
mod versions;
