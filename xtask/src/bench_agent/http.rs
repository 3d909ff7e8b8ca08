//! A small axum service under `wrk`: with the agent and everything in it on, and twice without, which shows the noise.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::{Effort, build, median};
use crate::table::Table;

/// Connections of `wrk`, and seconds of each of its runs.
const CONNECTIONS: &str = "32";
const SECONDS: u64 = 3;

/// The services have one core, and `wrk` another, so that they do not take each other's.
const CORES: [&str; 2] = ["0", "1"];

/// The output of a run of `wrk`.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Requests a second.
    rate: f64,
    /// The 99th percentile of the time to an answer, milliseconds.
    p99: f64,
}

/// A figure: its name, its field, and its goal.
type Figure = (&'static str, fn(&Load) -> f64, &'static str);

const FIGURES: [Figure; 2] = [("requests/s", |load| load.rate, "-1 %"), ("p99, ms", |load| load.p99, "+2 %")];

/// Builds the services.
pub(super) fn programs() -> Result<()> {
    services().map(drop)
}

/// The service without the agent, and with it.
fn services() -> Result<(PathBuf, PathBuf)> {
    Ok((build::program("server", "server", &[])?, build::program("server", "server,ours", &[])?))
}

/// Prints the table.
pub(super) fn measure(effort: Effort) -> Result<()> {
    let (plain, ours) = services()?;
    let servers = [Server::start(&plain)?, Server::start(&ours)?, Server::start(&plain)?];
    let mut loads: Vec<[Load; 3]> = Vec::new();
    servers.iter().try_for_each(|server| server.load().map(drop)).context("warm up")?;
    for round in 0..3 * effort.rounds + 1 {
        let mut turn = [Load { rate: 0.0, p99: 0.0 }; 3];
        // Each runs first, second and third as often as the others.
        for place in 0..3 {
            let which = (place + round) % 3;
            turn[which] = servers[which].load()?;
        }
        loads.push(turn);
    }
    let of = |figure: &dyn Fn(&[Load; 3]) -> f64| median(loads.iter().map(figure).collect());
    let change = |one: usize, other: usize, of_load: fn(&Load) -> f64| {
        let mut changes: Vec<f64> =
            loads.iter().map(|turn| 100.0 * (of_load(&turn[one]) / of_load(&turn[other]) - 1.0)).collect();
        changes.sort_by(f64::total_cmp);
        let quartile = |of_four: usize| changes[(changes.len() - 1) * of_four / 4];
        format!("{:+.2} % ({:+.2} to {:+.2})", quartile(2), quartile(1), quartile(3))
    };
    let mut table = Table::new(&["figure", "without", "with everything on", "on beside off", "off beside off", "goal"]);
    for (name, of_load, goal) in FIGURES {
        let (off, on) = (of(&|turn| of_load(&turn[0])), of(&|turn| of_load(&turn[1])));
        table.row([
            name.to_owned(),
            format!("{off:.2}"),
            format!("{on:.2}"),
            change(1, 0, of_load),
            change(2, 0, of_load),
            goal.to_owned(),
        ]);
    }
    table.print(&format!(
        "An axum service under `wrk -c {CONNECTIONS}` ({} turns of {SECONDS} s; median and quartiles of pairs)",
        loads.len()
    ));
    Ok(())
}

fn on_core(core: &str, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", core]).arg(program);
    command
}

struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(program: &Path) -> Result<Server> {
        let mut child = on_core(CORES[0], program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the service")?;
        let output = child.stdout.take().context("read its output")?;
        // Held from here on, so that it is ended in any case.
        let mut server = Server { child, url: String::new() };
        let mut address = String::new();
        BufReader::new(output).read_line(&mut address).context("read its address")?;
        ensure!(!address.is_empty(), "the service ended at its start");
        server.url = format!("http://{}/", address.trim());
        Ok(server)
    }

    fn load(&self) -> Result<Load> {
        let duration = format!("{SECONDS}s");
        let output = on_core(CORES[1], Path::new("wrk"))
            .args(["-t", "1", "-c", CONNECTIONS, "-d", &duration, "--latency", &self.url])
            .output();
        let output = output.context("run wrk")?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "wrk ended with {}: {text}", output.status);
        ensure!(!text.contains("Non-2xx"), "answers were refused: {text}");
        let after = |key: &str| text.lines().find_map(|line| line.trim().strip_prefix(key)).map(str::trim);
        let rate = after("Requests/sec:")
            .and_then(|rate| rate.parse().ok())
            .with_context(|| format!("find the rate in {text}"))?;
        let p99 = after("99%").and_then(milliseconds).with_context(|| format!("find the 99th percentile in {text}"))?;
        Ok(Load { rate, p99 })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended by itself is only reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `850.00us`, `1.25ms`, `2.00s`.
fn milliseconds(text: &str) -> Option<f64> {
    let units = [("us", 1e-3), ("ms", 1.0), ("s", 1e3)];
    let (number, unit) = units.iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, unit)))?;
    Some(number.parse::<f64>().ok()? * unit)
}
