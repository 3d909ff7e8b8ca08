//! Any text as a mangled name of C++: `FUZZ_PART=llvm` printed as LLVM does it, `FUZZ_PART=gnu` as binutils do.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use procprof_demangle::limits::DEMANGLED_BYTES_MAX;
use procprof_demangle::{Demangler, Style};
use procprof_fuzz::{Bound, Meter, part};

thread_local! {
    static STATE: RefCell<State> = RefCell::new(State::new());
}

struct State {
    style: Style,
    meter: Meter,
}

impl State {
    fn new() -> State {
        let style = match part().as_deref() {
            Some("gnu") => Style::Gnu,
            Some("llvm") | None => Style::Llvm,
            Some(other) => panic!("no style {other:?}"),
        };
        // A text may be as long as the limit whatever the name's length, and is in memory twice while it grows.
        State { style, meter: Meter::new(Bound { multiple: 1024, free: 4 * DEMANGLED_BYTES_MAX }) }
    }
}

fuzz_target!(|bytes: &[u8]| STATE.with_borrow_mut(|state| {
    let name = format!("_Z{}", String::from_utf8_lossy(bytes));
    let style = state.style;
    state.meter.hold(bytes.len(), || {
        let mut text = String::from("before");
        let is_printed = Demangler::default().append(&name, style, &mut text);
        assert!(text.starts_with("before") && text.len() <= "before".len() + DEMANGLED_BYTES_MAX);
        assert!(is_printed || text == "before");
    });
}));
