//! Files that are there whole or not at all, on real folders.

#![allow(clippy::unwrap_used)]

mod cache;
mod folder;
mod new_file;
mod versions;
