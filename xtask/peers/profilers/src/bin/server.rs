//! A small axum service, with the agent and everything in it on at defaults (feature `ours`) or without: a page that
//! allocates, computes a little, and takes a lock. Prints its address; ends when its input does.

use axum::extract::State;
use axum::{Router, routing::get};
use std::collections::HashMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

#[cfg(feature = "ours")]
#[global_allocator]
static ALLOCATOR: procprof_agent::SampledAlloc = procprof_agent::SampledAlloc::new();

type Visits = Arc<Mutex<HashMap<u64, u64>>>;

/// Some 40 allocations and 20 us of work.
async fn page(State(visits): State<Visits>) -> String {
    let mut rows: Vec<String> = (0..40_u64).map(|row| format!("{row}:{:x}", row.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    rows.sort_unstable();
    let count = {
        let mut visits = visits.lock().expect("nobody panics with it");
        let count = visits.entry(rows.len() as u64).or_default();
        *count += 1;
        *count
    };
    let mut text = String::new();
    for row in rows {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{row} {count}");
    }
    text
}

fn main() {
    #[cfg(feature = "ours")]
    let agent = procprof_agent::start(procprof_agent::Config::default()).expect("start the agent");
    #[cfg(feature = "ours")]
    let capture = procprof_agent::CpuCapture::start(&procprof_agent::CpuOptions::default()).expect("sample the CPU all the time");
    #[cfg(feature = "ours")]
    procprof_agent::Contention::enable().expect("record waits for locks");
    let app = Router::new().route("/", get(page)).with_state(Visits::default());
    #[cfg(feature = "ours")]
    let app = app.merge(procprof_agent::router(agent));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("start the runtime");
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("bind");
    println!("{}", listener.local_addr().expect("an address"));
    runtime.spawn(async move { axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await });
    // Its end, or an error of reading it, is the end.
    let _ = std::io::stdin().read_line(&mut String::new());
    #[cfg(feature = "ours")]
    drop(capture);
}
