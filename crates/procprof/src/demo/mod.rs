//! The demo processes: busy children of `serve --demo`, so that there is something to look at.
//!
//! The frontend is a JVM where there is a `java`. Any other child is this same executable as `demo-node`. It prints
//! `listening ADDRESS` once its endpoints answer, and ends with its parent.

mod jvm;
mod work;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use procprof_agent::{Agent, Config, Contention, Jemalloc, JemallocNaming, Listener};

use crate::allocator::MALLCTL;
use crate::cli::DemoNodeArgs;

pub(crate) use jvm::DemoJvm;

const LISTENING: &str = "listening ";
/// How long a child may take until it listens.
const START: Duration = Duration::from_secs(10);

/// A running demo child; killed when dropped.
#[derive(Debug)]
pub(crate) struct DemoProcess {
    child: Child,
    /// The address of its endpoints.
    pub(crate) address: SocketAddr,
}

impl DemoProcess {
    /// Starts a child in that role, busy or idle, and waits until it listens.
    pub(crate) fn start(role: &str, is_idle: bool) -> Result<DemoProcess> {
        let program = std::env::current_exe().context("find this executable")?;
        let mut child = Command::new(program)
            .args(["demo-node", "--role", role])
            .args(is_idle.then_some("--idle"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start the demo process {role}"))?;
        match wait_for_address(&mut child) {
            Ok(address) => Ok(DemoProcess { child, address }),
            Err(error) => {
                end(&mut child);
                Err(error.context(format!("start the demo process {role}")))
            }
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for DemoProcess {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Kills and reaps; a child that has ended already is only reaped.
fn end(child: &mut Child) {
    // An error means that it has been reaped, and there is nothing left to end.
    let _ = child.kill();
    let _ = child.wait();
}

fn wait_for_address(child: &mut Child) -> Result<SocketAddr> {
    let stdout = child.stdout.take().context("read its output")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        // The receiver is gone only when the wait is over.
        let _ = sender.send(read.map(|_| line));
    });
    let line =
        receiver.recv_timeout(START).with_context(|| format!("wait {} s for it to listen", START.as_secs()))??;
    let address =
        line.trim().strip_prefix(LISTENING).with_context(|| format!("expected {LISTENING:?}, it said {line:?}"))?;
    address.parse().with_context(|| format!("read the address {address:?}"))
}

/// Runs as a demo child until the parent ends it.
pub(crate) fn run(arguments: &DemoNodeArgs) -> Result<()> {
    end_with_parent()?;
    let agent = procprof_agent::start(Config { jemalloc: Some(jemalloc()), ..Config::default() })?;
    switch_heap_profiling_on(&agent)?;
    Contention::enable().context("record waits for locks")?;
    let _cache = if arguments.idle {
        work::first_cache()
    } else {
        work::start().context("start the demo work")?;
        Vec::new()
    };
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), agent, None)?;
    println!("{LISTENING}{}", listener.address());
    tracing::debug!(role = arguments.role, "demo process runs");
    loop {
        std::thread::park();
    }
}

/// The jemalloc that this binary allocates with.
#[allow(unsafe_code)]
pub(crate) fn jemalloc() -> Jemalloc {
    // SAFETY: `MALLCTL` is the control function of the allocator that `allocator.rs` installs for the whole process.
    unsafe { Jemalloc::new(MALLCTL, JemallocNaming::Rust) }
}

fn switch_heap_profiling_on(agent: &Agent) -> Result<()> {
    agent.heap_activate(None).map(drop).context("switch heap profiling on")
}

/// Has the kernel end this process when its parent ends, and ends at once if that has happened already.
fn end_with_parent() -> Result<()> {
    let parent = rustix::process::getppid();
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .context("bind to the parent process")?;
    if rustix::process::getppid() != parent {
        bail!("the parent process has ended");
    }
    Ok(())
}
