//! Two servers on one bucket of a real S3 server: each is killed at random, the bucket is away, slow and answers with
//! errors, and one disk is full. What was acknowledged is archived, once, and each node is captured all along.

mod proxy;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use procprof_profile::format::pprof::encode_gzip;
use procprof_profile::{Nanos, ProfileBuilder};

use super::checks::Checks;
use crate::{clients, http, product};
use proxy::{Mode, Proxy};

/// Captured nodes.
const NODES: usize = 8;
/// Seconds of the servers' lease.
const LEASE: u64 = 6;
/// Longest time without a profile of a node while a server lives: another one takes it over within a minute.
const GAP_MAX: i64 = 60_000_000_000;
/// Longest wait for everything to be archived at the end.
const PATIENCE: Duration = Duration::from_secs(180);
/// Status codes of S3 and of what stands before it.
const STATUSES: [u16; 6] = [403, 404, 429, 500, 502, 503];
/// Bytes of the second server's disk, beside those for what it keeps: it is full only while the soak fills it.
const DISK_BYTES: u64 = 96 << 20;
/// Bytes of it for each second of the soak, twice what a server keeps.
const DISK_BYTES_A_SECOND: u64 = 128 << 10;
const KEY: (&str, &str) = ("soak", "a long secret of the soak");
const BUCKET: &str = "s3://bucket/fleet";

struct Servers {
    procprof: PathBuf,
    folder: PathBuf,
    proxy: Proxy,
    /// The bucket's server and the process that is captured.
    _gateway: product::Running,
    _target: product::Served,
    running: [Option<product::Served>; 2],
    random: u64,
    /// Profiles that a server has acknowledged, and those of which no answer came.
    pushed: BTreeSet<u64>,
    unknown: BTreeSet<u64>,
    refused: u64,
    started: i64,
}

/// Runs it for that long.
pub(super) fn run(folder: &Path, seconds: u64, checks: &mut Checks) -> Result<()> {
    clients::ensure_engines()?;
    clients::ensure_buckets()?;
    let mut servers = Servers::new(folder, seconds)?;
    servers.live(seconds)?;
    servers.proxy.set(Mode::Pass);
    servers.check(checks)
}

impl Servers {
    fn new(folder: &Path, seconds: u64) -> Result<Servers> {
        let procprof = product::procprof()?;
        let bucket = folder.join("gateway/bucket");
        std::fs::create_dir_all(&bucket).context("make a folder")?;
        let (gateway, upstream) = gateway(&folder.join("gateway"))?;
        let proxy = Proxy::start(upstream)?;
        let target = product::Served::start(Command::new(&procprof), &folder.join("target"), &["--set", "archive="])?;
        let node = |number: usize| {
            format!(
                "[[node]]\nname = \"t{number}\"\nkind = \"pprof\"\nhttp = \"{}\"\n\
                 schedule.cpu = {{ on = true, seconds = 1, every = 5 }}\nschedule.heap = {{ on = false }}\n",
                target.address
            )
        };
        let pushed = "[[node]]\nname = \"pushed\"\nkind = \"pprof\"\nurls = { cpu = \"http://127.0.0.1:1/cpu\" }\n\
                      schedule.cpu = { on = false }\n";
        let head = format!(
            "archive = \"{BUCKET}\"\nmysql = \"\"\nserver_lease_seconds = {LEASE}\nself_interval_seconds = 3600\n\
             data_free_bytes_min = 0\n"
        );
        let config = head + &(0..NODES).map(node).collect::<String>() + pushed;
        std::fs::write(folder.join("procprof.toml"), config).context("write the configuration")?;
        let full = folder.join("two");
        std::fs::create_dir(&full).context("make a folder")?;
        let mut mount = Command::new("mount");
        let size = format!("size={}", DISK_BYTES + DISK_BYTES_A_SECOND * seconds);
        mount.args(["-t", "tmpfs", "-o", &size, "procprof-soak"]).arg(&full);
        ensure!(mount.status().context("run mount")?.success(), "mount a small disk: this needs root");
        let started = i64::try_from(Timestamp::now().as_nanosecond()).context("read the clock")?;
        let mut servers = Servers {
            procprof,
            folder: folder.to_owned(),
            proxy,
            _gateway: gateway,
            _target: target,
            running: [None, None],
            random: started.unsigned_abs(),
            pushed: BTreeSet::new(),
            unknown: BTreeSet::new(),
            refused: 0,
            started,
        };
        (0..2).try_for_each(|place| servers.start(place))?;
        Ok(servers)
    }

    fn data(&self, place: usize) -> PathBuf {
        self.folder.join(["one", "two"][place]).join("data")
    }

    fn start(&mut self, place: usize) -> Result<()> {
        let data = self.data(place);
        let folder = data.parent().context("a folder")?;
        std::fs::create_dir_all(folder).context("make a folder")?;
        let mut command = Command::new(&self.procprof);
        self.with_bucket(&mut command);
        let config = self.folder.join("procprof.toml");
        let arguments = ["--config", config.to_str().context("a path in UTF-8")?];
        self.running[place] = Some(product::Served::start(command, &data, &arguments)?);
        Ok(())
    }

    /// Gives a command the credentials of the bucket.
    fn with_bucket(&self, command: &mut Command) {
        command.env("AWS_ENDPOINT_URL", format!("http://{}", self.proxy.address));
        command.env("AWS_ACCESS_KEY_ID", KEY.0).env("AWS_SECRET_ACCESS_KEY", KEY.1);
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % below
    }

    /// Lives through it: profiles are pushed all along, to either server.
    fn live(&mut self, seconds: u64) -> Result<()> {
        let part = |share: f64| Duration::from_secs_f64(seconds as f64 * share);
        self.push_for(part(0.1))?;
        eprintln!("xtask: each server is killed in turn");
        for round in 0..6 {
            let place = round % 2;
            self.running[place].take().context("the server runs")?.kill()?;
            let away = part(0.01) + Duration::from_secs(self.random(2 * LEASE));
            self.push_for(away)?;
            self.start(place)?;
            self.push_for(part(0.02))?;
        }
        self.proxy.set(Mode::Away);
        self.push_for(part(0.17))?;
        self.proxy.set(Mode::Pass);
        self.push_for(part(0.03))?;
        for status in STATUSES {
            self.proxy.set(Mode::Status(status));
            self.push_for(part(0.02))?;
            self.proxy.set(Mode::Pass);
            self.push_for(part(0.01))?;
        }
        self.proxy.set(Mode::Slow(Duration::from_millis(300)));
        self.push_for(part(0.1))?;
        self.proxy.set(Mode::Pass);
        eprintln!("xtask: the disk of the second server is full");
        let filler = self.folder.join("two/filler");
        // It fills what there is, and then fails.
        let _ = Command::new("dd")
            .args(["if=/dev/zero", &format!("of={}", filler.display()), "bs=64k"])
            .stderr(Stdio::null())
            .status();
        self.push_for(part(0.1))?;
        std::fs::remove_file(&filler).context("empty the disk")?;
        eprintln!("xtask: a server is killed while the bucket fails");
        self.proxy.set(Mode::Status(503));
        self.running[0].take().context("the server runs")?.kill()?;
        self.push_for(part(0.02))?;
        self.proxy.set(Mode::Pass);
        self.start(0)?;
        self.push_for(part(0.1))
    }

    /// Pushes two profiles a second to servers that run, for a while.
    fn push_for(&mut self, time: Duration) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < time {
            let place = self.random(2) as usize;
            if let Some(server) = &self.running[place] {
                let address = server.address.clone();
                self.push(&address)?;
            }
            thread::sleep(Duration::from_millis(500));
        }
        for server in self.running.iter_mut().flatten() {
            ensure!(server.ended()?.is_none(), "a server has ended");
        }
        Ok(())
    }

    /// Pushes a profile with a function of its own, of an hour that is over.
    fn push(&mut self, address: &str) -> Result<()> {
        let number = (self.pushed.len() + self.unknown.len()) as u64 + self.refused;
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        let stack = [builder.frame(&format!("pushed_{number}")), builder.frame("main")];
        builder.sample(&stack, &[1, 1_000_000], &[]);
        let hour = 3_600_000_000_000;
        let start = self.started - 3 * hour + i64::try_from(number * 7_000_000_000 % (hour as u64))?;
        builder.time(Nanos(start), Nanos(1_000_000_000));
        let profile = encode_gzip(&builder.finish().context("make a profile")?).context("make a profile")?;
        match http::send("POST", address, "/api/push?node=pushed&type=cpu", "", &profile) {
            Ok(answer) if answer.status == 201 => drop(self.pushed.insert(number)),
            Ok(_) => self.refused += 1,
            Err(_) => drop(self.unknown.insert(number)),
        }
        Ok(())
    }

    fn check(&mut self, checks: &mut Checks) -> Result<()> {
        // What is late is archived when a server starts.
        for place in 0..2 {
            self.running[place].take().context("the server runs")?.terminate()?;
            self.start(place)?;
        }
        self.sums(checks)?;
        self.gaps(checks)?;
        self.alive(checks)?;
        for place in 0..2 {
            self.running[place].take().context("the server runs")?.terminate()?;
        }
        self.files(checks)
    }

    /// The sum that each server answers has each profile that was acknowledged, once.
    fn sums(&self, checks: &mut Checks) -> Result<()> {
        let moment = |nanos: i64| Timestamp::from_nanosecond(i128::from(nanos)).map(|moment| moment.to_string());
        let hour = 3_600_000_000_000;
        let path = format!(
            "/merge?node=pushed&type=cpu&from={}&to={}&format=collapsed&sample_index=samples",
            moment(self.started - 4 * hour)?,
            moment(self.started)?
        );
        for (place, server) in self.running.iter().flatten().enumerate() {
            let begun = Instant::now();
            let (missing, twice, unknown) = loop {
                let answer = http::request("GET", &server.address, &path)?;
                let counts = counts(&String::from_utf8_lossy(&answer.body));
                let missing = self.pushed.iter().filter(|number| !counts.contains_key(number)).count();
                let twice = counts.values().filter(|count| **count != 1).count();
                let unknown = counts.keys().filter(|number| !self.pushed.contains(number)).count();
                if missing == 0 || begun.elapsed() > PATIENCE {
                    break (missing, twice, unknown);
                }
                thread::sleep(Duration::from_secs(1));
            };
            let found = format!(
                "{missing} of {} missing, {twice} not once; {unknown} of {} without an answer are there, {} were refused",
                self.pushed.len(),
                self.unknown.len(),
                self.refused
            );
            let holds = missing == 0 && twice == 0 && unknown <= self.unknown.len() && !self.pushed.is_empty();
            checks.add(format!("server {}: the sum has what was acknowledged", place + 1), found, holds);
        }
        Ok(())
    }

    /// Each node was captured all along, by one server or the other.
    fn gaps(&self, checks: &mut Checks) -> Result<()> {
        let mut times: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for server in self.running.iter().flatten() {
            for row in server.rows("profiles", "type=cpu&trigger=schedule")? {
                let name = row["node_name"].as_str().context("a name")?;
                let start: Timestamp = row["start"].as_str().context("a time")?.parse().context("a time")?;
                let start = i64::try_from(start.as_nanosecond()).context("a time")?;
                times.entry(name.to_owned()).or_default().push(start);
            }
        }
        times.retain(|name, _| name.starts_with('t'));
        let mut longest = 0;
        let mut close = 0;
        for times in times.values_mut() {
            times.sort_unstable();
            longest = longest.max(times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(i64::MAX));
            close += times.windows(2).filter(|pair| pair[1] - pair[0] < 2_000_000_000).count();
        }
        let all: usize = times.values().map(Vec::len).sum();
        let found = format!(
            "{} nodes, {all} profiles, at most {:.1} s between two of a node, {close} by both servers",
            times.len(),
            longest as f64 / 1e9
        );
        checks.add("every node was captured all along", found, times.len() == NODES && longest <= GAP_MAX);
        Ok(())
    }

    fn alive(&self, checks: &mut Checks) -> Result<()> {
        let begun = Instant::now();
        loop {
            let mut shares = Vec::new();
            for server in self.running.iter().flatten() {
                let list = server.json("/api/servers")?;
                let rows = list["servers"].as_array().context("servers")?.clone();
                let alive = rows.iter().filter(|row| row["alive"] == true);
                shares.push(alive.map(|row| row["nodes"].as_u64().unwrap_or(0)).collect::<Vec<_>>());
            }
            let holds = shares.iter().all(|share| share.len() == 2 && share.iter().sum::<u64>() == NODES as u64 + 1);
            if holds || begun.elapsed() > PATIENCE {
                checks.add("both servers share the nodes again", format!("{shares:?}"), holds);
                return Ok(());
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// The archive against itself, against the folders, and as DuckDB counts it.
    fn files(&self, checks: &mut Checks) -> Result<()> {
        for place in 0..2 {
            let mut verify = Command::new(&self.procprof);
            self.with_bucket(&mut verify);
            let output = verify
                .args(["archive", "verify", BUCKET, "--data"])
                .arg(self.data(place))
                .output()
                .context("run procprof archive verify")?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            let last = text.lines().last().unwrap_or_default().to_owned();
            checks.add(format!("sums are those of the files of server {}", place + 1), last, output.status.success());
        }
        let python = product::target()?.join("engines/python/bin/python");
        let profiles = self.folder.join("gateway/bucket/fleet/profiles/date=*/hour=*/*.parquet");
        let program = format!(
            "import duckdb; print(*duckdb.sql(\"SELECT count(*), count(DISTINCT id) FROM read_parquet('{}')\")\
             .fetchall()[0])",
            profiles.display()
        );
        let output = Command::new(python).args(["-c", &program]).output().context("run DuckDB")?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let holds = text.split_once(' ').is_some_and(|(all, distinct)| all == distinct && all != "0");
        checks.add(
            "DuckDB finds no profile twice",
            format!("{text} {}", String::from_utf8_lossy(&output.stderr)),
            holds,
        );
        Ok(())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.running = [None, None];
        // It is gone with this machine at the latest.
        let _ = Command::new("umount").arg("--lazy").arg(self.folder.join("two")).status();
    }
}

/// Counts by the number of a pushed profile.
fn counts(collapsed: &str) -> BTreeMap<u64, u64> {
    let row = |line: &str| {
        let (stack, count) = line.rsplit_once(' ')?;
        let (_, number) = stack.rsplit_once("pushed_")?;
        Some((number.parse().ok()?, count.parse().ok()?))
    };
    collapsed.lines().filter_map(row).collect()
}

/// Starts an S3 server whose buckets are the folders of a folder.
fn gateway(folder: &Path) -> Result<(product::Running, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0").context("find a port")?;
    let address = listener.local_addr().context("find a port")?;
    drop(listener);
    let mut command = Command::new(product::target()?.join("engines/versitygw/versitygw"));
    command.args(["--port", &address.to_string(), "posix"]).arg(folder);
    command.env("ROOT_ACCESS_KEY", KEY.0).env("ROOT_SECRET_KEY", KEY.1);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let running = product::Running::new(child.context("start versitygw")?);
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        ensure!(begun.elapsed() < PATIENCE, "versitygw does not answer");
        thread::sleep(Duration::from_millis(50));
    }
    Ok((running, address))
}
