//! Any text as the answer of a process's `/pprof/symbol`: its addresses and names, and each name demangled.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use procprof_fuzz::{Bound, Meter};
use procprof_symbolize::{demangle, remote};

thread_local! {
    static METER: RefCell<Meter> = const { RefCell::new(Meter::new(Bound { multiple: 64, free: 1 << 20 })) };
}

fuzz_target!(|bytes: &[u8]| {
    METER.with_borrow_mut(|meter| {
        meter.hold(bytes.len(), || {
            let text = String::from_utf8_lossy(bytes);
            let Ok(names) = remote::parse_answer(&text) else { return };
            assert!(names.iter().map(|(_, name)| name.len()).sum::<usize>() <= text.len());
            for (_, name) in names {
                let _ = demangle(&name);
            }
        });
    });
});
