//! The child that reads binaries, as a program of its own for this crate's tests.

fn main() {
    let task = std::env::args().next_back().unwrap_or_default();
    std::process::exit(procprof_server::symbolize_child_main(&task));
}
