//! Any bytes as what is read of a host that is recorded. `FUZZ_PART=kernel_types`: the kernel's description of its
//! types; `process_context`: what a process publishes for OpenTelemetry.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use procprof_fuzz::{Bound, Meter, part};
use procprof_host::btf::Btf;
use procprof_process::ProcessContext;

thread_local! {
    // Of a type of 12 bytes its place is kept; an attribute of some bytes takes two strings and a place in a map.
    static METER: RefCell<Meter> =
        const { RefCell::new(Meter::new(Bound { multiple: 64, free: 1 << 20 })) };
}

fuzz_target!(|bytes: &[u8]| METER.with_borrow_mut(|meter| {
    meter.hold(bytes.len(), || match part().as_deref() {
        Some("process_context") => context(bytes),
        _ => types(bytes),
    });
}));

fn types(bytes: &[u8]) {
    let Ok(types) = Btf::parse(bytes) else { return };
    for (structure, field) in [("task_struct", "pid"), ("pt_regs", "orig_ax"), ("a", "b")] {
        if let Some(field) = types.field(structure, field) {
            assert!(field.bits < 1 << 8);
        }
    }
    if let Some(id) = types.typedef("btf_trace_sched_switch") {
        types.parameters(id);
    }
}

fn context(bytes: &[u8]) {
    let Some(context) = ProcessContext::parse(bytes) else { return };
    assert!(context.attributes.len() <= 64);
    assert!(context.attributes.iter().all(|(key, value)| key.len() <= 128 && value.len() <= 512));
}
