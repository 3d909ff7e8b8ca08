//! A JVM recorded by its own profilers: the Flight Recorder of its JDK, or async-profiler.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use procprof_collect::jvm::{FlightSettings, FoundJvm, JvmEngine, JvmOptions, JvmSource, JvmTarget, SingleRecording};
use procprof_collect::{Request, Source};
use procprof_process::{Pid, Process};
use procprof_profile::{Grammar, Profile, ProfileType};

use super::LOOK;
use crate::collect::jvm::{decoded, with_facts};

/// A recording that has begun.
pub(super) struct JvmRecording {
    runtime: tokio::runtime::Runtime,
    process: Process,
    profile_type: ProfileType,
    running: SingleRecording,
    limit: Duration,
    /// The engine and what it does not record.
    pub(super) about: Vec<String>,
}

/// Whether a process is a JVM.
pub(super) fn is_jvm(pid: u32) -> bool {
    FoundJvm::with_pid(Pid(pid)).is_some()
}

impl JvmRecording {
    /// Begins to record until the limit, at so many samples a second where that can be chosen.
    ///
    /// # Errors
    /// The JVM can't be attached to, or has no profiler.
    pub(super) fn begin(pid: u32, profile_type: ProfileType, hz: u32, limit: Duration) -> Result<Self> {
        let library = std::env::var_os(JvmEngine::LIBRARY_VARIABLE).filter(|path| !path.is_empty());
        let engine = JvmEngine::chosen("auto", library.map(Into::into)).map_err(anyhow::Error::msg)?;
        let cpu_interval = Duration::from_millis(u64::from(1000 / hz.max(1)).max(1));
        let settings = FlightSettings { cpu_interval, ..FlightSettings::default() };
        let source = JvmSource::new(JvmOptions { target: JvmTarget::Pid(Pid(pid)), engine, settings });
        let process = Process::open(Pid(pid))?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
        let request = Request::new(profile_type.clone());
        let running = runtime.block_on(source.begin_single(&request, limit))?;
        let about = source.state().map_or_else(Vec::new, |state| {
            let engine = format!("{pid} is a JVM ({}): recorded by {}", state.runtime, state.engine);
            std::iter::once(engine).chain(state.limits).collect()
        });
        Ok(Self { runtime, process, profile_type, running, limit, about })
    }

    /// Records until the limit, the end of the JVM, or until it is stopped.
    ///
    /// # Errors
    /// The recording can't be read.
    pub(super) fn finish(self, stop: &AtomicBool, progress: &ProgressBar) -> Result<Profile> {
        let (begun, limit) = (Instant::now(), self.limit);
        while !stop.load(Ordering::Relaxed) && begun.elapsed() < limit {
            progress.set_message(format!("{:.1} s", begun.elapsed().as_secs_f64()));
            progress.tick();
            std::thread::sleep(limit.saturating_sub(begun.elapsed()).min(LOOK));
            if self.process.has_ended() {
                eprintln!("procprof: the JVM has ended; this is what it had written until then");
                break;
            }
        }
        let recordings = self.runtime.block_on(self.running.finish()).context("read the recording of the JVM")?;
        let instance_start = recordings.instance.start_time();
        for recording in &recordings.recordings {
            for decoded in decoded(recording)? {
                let is_wanted = decoded.profile.meta().profile_type.as_ref() == Some(&self.profile_type);
                if !is_wanted {
                    continue;
                }
                decoded.warnings.iter().for_each(|warning| eprintln!("procprof: {warning}"));
                let profile = with_facts(decoded.profile.adjusted(Grammar::Pprof)?, recording, instance_start)?;
                let meta = procprof_profile::Meta { trigger: "record".to_owned(), ..profile.meta() };
                return Ok(profile.with_meta(&meta)?);
            }
        }
        match self.profile_type {
            ProfileType::Contention => bail!("no thread waited for a lock"),
            _ => bail!("no sample was taken: no thread of the JVM ran"),
        }
    }
}
