//! Cold symbolizing as a whole process: this crate beside `addr2line`, `llvm-symbolizer` and blazesym.
//!
//! `cargo bench -p procprof-symbolize [-- PROGRAM...]` has each tool look up the same 16,000 random
//! addresses of each program, in ascending and in random order, and prints the median of five runs:
//! wall time, processor time of all threads, and the most anonymous and file-backed memory that was
//! resident at once (read from `/proc` each millisecond). Without arguments the programs are the ones
//! of [`inputs`]. The files are in the page cache: what is cold is the process.

// A bench may fail loudly.
#![allow(clippy::unwrap_used)]

mod inputs;
mod tool;
mod vitals;

use std::env;
use std::path::PathBuf;

use crate::tool::Tool;

const RUNS: usize = 5;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [flag, tool, program, addresses] = arguments.as_slice()
        && flag == "--ask"
    {
        return tool::ask(tool, program.as_ref(), addresses.as_ref());
    }
    let named: Vec<PathBuf> = arguments.iter().map(PathBuf::from).collect();
    let programs = if named.is_empty() { inputs::programs() } else { named };
    println!("| program | order | tool | wall s | cpu s | anonymous MB | file MB | frames |");
    println!("|---|---|---|---|---|---|---|---|");
    for program in programs {
        for (order, addresses) in inputs::addresses(&program) {
            for tool in Tool::ALL {
                let mut runs: Vec<_> = (0..RUNS).map(|_| tool.run(&program, &addresses)).collect();
                runs.sort_by(|a, b| a.wall.total_cmp(&b.wall));
                let median = &runs[RUNS / 2];
                let name = program.file_name().unwrap().display();
                println!("| {name} | {order} | {} | {median} |", tool.name());
            }
        }
    }
}
