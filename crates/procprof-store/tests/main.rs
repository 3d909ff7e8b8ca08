//! The store from outside: its promises, on real folders.

#![allow(clippy::unwrap_used)]

mod basics;
mod support;
