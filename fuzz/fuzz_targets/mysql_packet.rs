//! Any bytes as input from a SQL client: `FUZZ_PART=greeting` its answer to the greeting, `command` a command and its
//! prepared parameters, `connection` packets with their heads from the login on, `statement` a statement's text,
//! `script` that of `ADMIN EXECUTE`.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use procprof_fuzz::{Bound, Meter, part};
use procprof_sql::fuzz;
use tokio::runtime::{Builder, Runtime};

thread_local! {
    static STATE: RefCell<State> = RefCell::new(State::new());
}

struct State {
    part: String,
    runtime: Runtime,
    meter: Meter,
}

impl State {
    fn new() -> State {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime can be made");
        // A token takes 56 bytes, and may be of one.
        let meter = Meter::new(Bound { multiple: 160, free: 1 << 20 });
        State { part: part().unwrap_or_else(|| "connection".to_owned()), runtime, meter }
    }
}

fuzz_target!(|bytes: &[u8]| STATE.with_borrow_mut(|state| exercise(bytes, state)));

fn exercise(bytes: &[u8], state: &mut State) {
    let State { part, runtime, meter } = state;
    meter.hold(bytes.len(), || match part.as_str() {
        "greeting" => fuzz::greeting(bytes),
        "command" => fuzz::command(bytes),
        "connection" => runtime.block_on(fuzz::connection(bytes)),
        "statement" => fuzz::statement(&String::from_utf8_lossy(bytes)),
        "script" => fuzz::script(&String::from_utf8_lossy(bytes)),
        other => panic!("no part {other:?}"),
    });
}
