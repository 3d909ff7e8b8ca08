//! Rounds at a fixed rate in the background, until SIGTERM or SIGINT.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use procprof_collect::{Backoff, HttpClient, Transition};
use procprof_profile::ProfileType;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::journal::Journal;
use super::pid_file::{Claim, claim, read_pid, running};
use super::settings::Settings;
use super::{file, round};

/// When the process is down, it is tried again after this, or after the interval if that is shorter.
const RETRY: Duration = Duration::from_secs(60);

/// How long the background process has to claim its pid file.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// Starts the background process and waits until it is at work.
pub(super) fn start(settings: &Settings) -> Result<ExitCode> {
    if let Some(pid) = running(&settings.pid_file) {
        bail!("already running (pid {pid}, {})", settings.pid_file.display());
    }
    file::check_writable(&settings.folder)?;
    Journal::file(&settings.log_file)?;
    let log = OpenOptions::new().append(true).open(&settings.log_file).context("open log")?;
    let program = std::env::current_exe().context("find own program")?;
    let child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .arg("--daemon-internal")
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("open log")?)
        .stderr(log)
        .spawn()
        .context("start background process")?;
    let pid = child.id();
    wait_until_claimed(child, settings)?;
    println!("collecting in the background (pid {pid}), log {}", settings.log_file.display());
    Ok(ExitCode::SUCCESS)
}

fn wait_until_claimed(mut child: Child, settings: &Settings) -> Result<()> {
    let deadline = std::time::Instant::now() + START_PATIENCE;
    while !has_claimed(&settings.pid_file, child.id()) {
        if let Some(status) = child.try_wait().context("wait for background process")? {
            bail!("the background process ended with {status}; see {}", settings.log_file.display());
        }
        if std::time::Instant::now() > deadline {
            bail!("the background process (pid {}) has not begun within {} s", child.id(), START_PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn has_claimed(path: &Path, pid: u32) -> bool {
    File::open(path).ok().and_then(|mut file| read_pid(&mut file)) == Some(pid)
}

/// The background process: rounds until a signal ends it.
pub(super) async fn serve(settings: &Settings) -> Result<ExitCode> {
    // Fails only for the leader of a process group, which has no terminal to lose either.
    let _ = rustix::process::setsid();
    let journal = Journal::file(&settings.log_file)?;
    let cancel = cancelled_by_signals()?;
    let _pid_file = match claim(&settings.pid_file)? {
        Claim::Ours(pid_file) => pid_file,
        Claim::Running(pid) => {
            journal.error(&format!("already running (pid {pid})"));
            return Ok(ExitCode::FAILURE);
        }
    };
    journal.info(&format!("started (pid {}), a round every {} s", std::process::id(), settings.interval.as_secs()));
    settings.warnings.iter().for_each(|warning| journal.warning(warning));
    rounds(settings, &journal, &cancel).await;
    journal.info("stopped");
    Ok(ExitCode::SUCCESS)
}

async fn rounds(settings: &Settings, journal: &Journal, cancel: &CancellationToken) {
    let client = HttpClient::new();
    let mut failing: BTreeMap<ProfileType, Backoff> = BTreeMap::new();
    let mut start = Instant::now();
    while wait_until(start, cancel).await {
        let mut is_down = false;
        for request in &settings.requests {
            let captured = round::capture(settings, &client, request, cancel).await;
            if cancel.is_cancelled() {
                return;
            }
            is_down |= captured.result.as_ref().is_err_and(round::Failure::is_down);
            log_turns(journal, failing.entry(request.profile_type.clone()).or_default(), settings.interval, &captured);
        }
        round::clean(settings, journal);
        let interval = if is_down { settings.interval.min(RETRY) } else { settings.interval };
        start = next_start(start, interval, Instant::now());
    }
}

/// False when cancelled before.
async fn wait_until(start: Instant, cancel: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = cancel.cancelled() => false,
        () = tokio::time::sleep_until(start) => true,
    }
}

/// Logs every success; of failures in a row the first and the end.
fn log_turns(journal: &Journal, backoff: &mut Backoff, interval: Duration, captured: &round::Captured) {
    let turn = if captured.result.is_ok() { backoff.succeeded() } else { backoff.failed(interval) };
    match turn {
        Transition::Within(_) => return,
        Transition::Entering(_) => {
            round::log(journal, captured);
            journal.info(&format!(
                "{} profile: retrying; the next line about it follows when it works again",
                captured.profile_type
            ));
            return;
        }
        Transition::Leaving(failures) => {
            journal.info(&format!("{} profile: works again after {failures} failures", captured.profile_type))
        }
        Transition::None => {}
    }
    round::log(journal, captured);
}

/// The first of `previous + interval`, `previous + 2 * interval`, … that is not over: a round that took too long shifts
/// no other.
fn next_start(previous: Instant, interval: Duration, now: Instant) -> Instant {
    let behind = now.saturating_duration_since(previous);
    let rounds = behind.as_millis().div_ceil(interval.as_millis().max(1)).max(1);
    previous + interval.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX))
}

/// A token that SIGTERM and SIGINT cancel.
pub(super) fn cancelled_by_signals() -> Result<CancellationToken> {
    let cancel = CancellationToken::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut signals = signal(kind).context("listen for signals")?;
        let cancel = cancel.clone();
        tokio::spawn(async move {
            signals.recv().await;
            cancel.cancel();
        });
    }
    Ok(cancel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_keep_their_rate() {
        let begin = Instant::now();
        let after = |seconds: f64| begin + Duration::from_secs_f64(seconds);
        let check =
            |now: f64, wanted: f64| assert_eq!(next_start(begin, Duration::from_secs(60), after(now)), after(wanted));
        check(10.2, 60.0);
        check(60.0, 60.0);
        check(61.0, 120.0);
        check(200.0, 240.0);
    }
}
