//! The options as meant: each from the command line, else `be.conf`, else the environment, else the default.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use procprof_collect::{BaseUrl, ProfileUrl, Request, Target, endpoints};
use procprof_profile::ProfileType;

use super::be_conf::BeConf;
use super::{Args, ProfilingType, Symbolize};

const BRPC_PORT: u16 = 8060;
const DURATION_SECONDS: u32 = 10;
const INTERVAL_SECONDS: u32 = 60;

/// The environment, as a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment(BTreeMap<String, String>);

/// Everything `collect` goes by.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// The process to collect from.
    pub(super) target: Target,
    /// The captures of one round, in order.
    pub(super) requests: Vec<Request>,
    /// From the start of one round to the start of the next.
    pub(super) interval: Duration,
    /// Older profiles are removed.
    pub(super) max_age: Duration,
    /// The oldest profiles are removed while all are larger, in bytes.
    pub(super) max_bytes: u64,
    /// The folder of the profiles.
    pub(super) folder: PathBuf,
    /// The daemon's log.
    pub(super) log_file: PathBuf,
    /// The file with the daemon's pid.
    pub(super) pid_file: PathBuf,
    /// The source of names for addresses.
    pub(super) symbolize: Symbolize,
    /// Ignored settings.
    pub(super) warnings: Vec<String>,
}

impl Environment {
    /// The environment of this process; variables that are not UTF-8 are left out.
    pub(super) fn of_process() -> Environment {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Environment(std::env::vars_os().filter_map(text).collect())
    }

    /// The value of a variable that is set and not empty.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).filter(|value| !value.is_empty()).cloned()
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(pairs: [(&str, &str); N]) -> Environment {
        Environment(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

impl Settings {
    /// Settles every option.
    pub(super) fn new(args: &Args, environment: &Environment) -> Result<Settings> {
        let home = environment.get("STARROCKS_HOME").map(PathBuf::from);
        let conf = read_conf(args, home.as_deref())?;
        let mut warnings = Vec::new();
        let base = match (&args.output_dir, conf.get("sys_log_dir", environment)?, &home) {
            (Some(folder), ..) => folder.clone(),
            (None, Some(folder), _) => PathBuf::from(folder),
            (None, None, Some(home)) => home.join("log"),
            (None, None, None) => PathBuf::from("."),
        };
        let base = std::path::absolute(&base).with_context(|| format!("find {}", base.display()))?;
        let (target, requests) = match &args.url {
            Some(url) => of_url(args, url)?,
            None => of_backend(args, &conf, environment)?,
        };
        let settings = Settings {
            target,
            requests,
            interval: interval(args, &conf, environment, &mut warnings)?,
            max_age: Duration::from_secs(u64::from(args.cleanup_days) * 86_400),
            max_bytes: args.cleanup_size,
            folder: base.join("proc_profile"),
            log_file: base.join("collect_be_profile.log"),
            pid_file: home.map_or_else(|| base.clone(), |home| home.join("bin")).join("collect_be_profile.pid"),
            symbolize: args.symbolize,
            warnings,
        };
        settings.checked(args.daemon || args.daemon_internal)
    }

    fn checked(mut self, repeats: bool) -> Result<Settings> {
        let mut busy = Duration::ZERO;
        for request in &self.requests {
            busy += Duration::from_secs(u64::from(self.target.capture_seconds(request)?));
        }
        if repeats && busy > self.interval {
            let (busy, interval) = (busy.as_secs(), self.interval.as_secs());
            self.warnings.push(format!(
                "a round takes {busy} s, which is longer than the interval of {interval} s: rounds follow \
                 without a break"
            ));
        }
        Ok(self)
    }
}

fn read_conf(args: &Args, home: Option<&Path>) -> Result<BeConf> {
    if let Some(path) = &args.be_conf {
        return BeConf::read(path);
    }
    match home.map(|home| home.join("conf/be.conf")) {
        Some(path) if path.exists() => BeConf::read(&path),
        _ => Ok(BeConf::default()),
    }
}

fn of_backend(args: &Args, conf: &BeConf, environment: &Environment) -> Result<(Target, Vec<Request>)> {
    let port = match (args.brpc_port, conf.get("brpc_port", environment)?) {
        (Some(port), _) => port,
        (None, Some(text)) => text
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .with_context(|| format!("be.conf: brpc_port {text:?}: expected 1 to 65535"))?,
        (None, None) => BRPC_PORT,
    };
    let base: BaseUrl = format!("localhost:{port}").parse()?;
    let mut target = Target::new(&endpoints::STARROCKS_BE, base.clone());
    target.brpc = Some(base);
    let seconds = args.duration.unwrap_or(DURATION_SECONDS);
    let requests =
        args.profiling_type.profile_types().into_iter().map(|profile_type| Request::new(profile_type).seconds(seconds));
    Ok((target, requests.collect()))
}

/// The last word of the path is the type, as pprof endpoints are named; other paths are of the requested type.
fn of_url(args: &Args, url: &str) -> Result<(Target, Vec<Request>)> {
    ensure!(
        args.profiling_type != ProfilingType::Both,
        "--url is one endpoint: --profiling-type must be cpu or contention"
    );
    let profile_url: ProfileUrl = url.parse()?;
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let profile_type = match path.rsplit('/').next().unwrap_or_default() {
        "profile" if path.ends_with("/mem/pprof/profile") => ProfileType::Heap,
        "profile" => ProfileType::Cpu,
        "heap" => ProfileType::Heap,
        "allocs" => ProfileType::Alloc,
        "block" | "contention" => ProfileType::Contention,
        "mutex" => ProfileType::Mutex,
        "goroutine" => ProfileType::Goroutine,
        "goroutineleak" => ProfileType::GoroutineLeak,
        "wall" => ProfileType::Wall,
        _ => args.profiling_type.profile_types().remove(0),
    };
    let sampled = matches!(profile_type, ProfileType::Cpu | ProfileType::Contention | ProfileType::Wall);
    let mut request = Request::new(profile_type.clone());
    let in_url = seconds_of(url).map_err(|text| anyhow!("--url {url}: seconds={text:?} is no number of seconds"))?;
    request.seconds = args.duration.or(if sampled { in_url.or(Some(DURATION_SECONDS)) } else { None });
    let mut target = Target::new(&endpoints::PPROF, profile_url.base());
    target.urls.insert(profile_type, profile_url);
    Ok((target, vec![request]))
}

/// The seconds in the URL itself.
fn seconds_of(url: &str) -> std::result::Result<Option<u32>, &str> {
    let query = url.split('#').next().and_then(|url| url.split_once('?')).map_or("", |(_, query)| query);
    match query.split('&').find_map(|pair| pair.strip_prefix("seconds=")) {
        Some(text) => text.parse().map(Some).map_err(|_| text),
        None => Ok(None),
    }
}

fn interval(args: &Args, conf: &BeConf, environment: &Environment, warnings: &mut Vec<String>) -> Result<Duration> {
    const NAME: &str = "COLLECT_BE_PROFILE_INTERVAL";
    let configured = conf.get(NAME, environment)?.or_else(|| environment.get(NAME));
    let configured = configured.and_then(|text| {
        let seconds: Option<u32> = text.parse().ok().filter(|seconds| (1..=31_536_000).contains(seconds));
        if seconds.is_none() {
            warnings.push(format!("{NAME} {text:?} passed over: expected seconds, 1 or more"));
        }
        seconds
    });
    let seconds = args.interval.or(configured).unwrap_or(INTERVAL_SECONDS);
    Ok(Duration::from_secs(u64::from(seconds)))
}

#[cfg(test)]
mod tests;
