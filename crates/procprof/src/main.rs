//! The procprof command.
fn main() {}
