//! Any text as the answer of a process's `/pprof/symbol`: its addresses and names, and each name demangled.

#![no_main]

use libfuzzer_sys::fuzz_target;
use procprof_symbolize::{demangle, remote};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let Ok(names) = remote::parse_answer(&text) else { return };
    assert!(names.iter().map(|(_, name)| name.len()).sum::<usize>() <= text.len());
    for (_, name) in names {
        let _ = demangle(&name);
    }
});
