//! A program that does nothing, with the agent and its listener (feature `ours`) or without, linked with as much code
//! as the build requests. Its allocator also samples. Prints `ready`; then for each line of its input captures a second
//! of CPU time, and prints `ready` again; ends with its input.

#[cfg(feature = "ours")]
#[global_allocator]
static ALLOCATOR: procprof_agent::SampledAlloc = procprof_agent::SampledAlloc::new();

fn main() {
    #[cfg(feature = "ours")]
    let listener = {
        let agent = procprof_agent::start(procprof_agent::Config::default()).expect("start the agent");
        procprof_agent::Listener::bind("127.0.0.1:0".parse().expect("an address"), agent, None).expect("listen")
    };
    println!("ready");
    while std::io::stdin().read_line(&mut String::new()).is_ok_and(|length| length > 0) {
        #[cfg(feature = "ours")]
        capture();
        println!("ready");
    }
    #[cfg(feature = "ours")]
    listener.stop();
}

#[cfg(feature = "ours")]
fn capture() {
    let capture = procprof_agent::CpuCapture::start(&procprof_agent::CpuOptions::default()).expect("start a capture");
    let end = std::time::Instant::now() + std::time::Duration::from_secs(1);
    while std::time::Instant::now() < end {
        std::hint::spin_loop();
    }
    drop(capture.finish());
}
