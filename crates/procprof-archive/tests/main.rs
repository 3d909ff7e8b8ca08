//! The archive from outside: what is written is read back, by this crate and by DuckDB; broken files are errors.

#![allow(clippy::unwrap_used)]

mod duckdb;
mod hostile;
mod laws;
mod reference;
mod support;
