//! One recording of a Java process, kept as a profile for each type.

use anyhow::{Context, Result};
use procprof_collect::jvm::{FlightSettings, JvmEngine, JvmOptions, JvmSource, JvmTarget};
use procprof_collect::{CollectError, Recording, RecordingData, Recordings, Request, Source, Watch};
use procprof_process::Pid;
use procprof_profile::format::pprof::encode_gzip;
use procprof_profile::format::{Decoded, Limits, decode_events};
use procprof_profile::{Grammar, Meta, Nanos, Profile, ProfileType};

use super::journal::Journal;
use super::round::clean;
use super::settings::Settings;
use super::{Args, daemon, file};
use crate::progress::Bar;

/// Length of a recording without `--duration`.
const SECONDS: u32 = 10;

/// Records once; false when a type has no profile.
pub(super) async fn once(settings: &Settings, journal: &Journal, pid: u32, args: &Args) -> Result<bool> {
    file::check_writable(&settings.folder)?;
    let cancel = daemon::cancelled_by_signals()?;
    let mut types: Vec<ProfileType> = args.types.iter().map(|typed| typed.profile_type()).collect();
    types.dedup();
    let seconds = args.duration.unwrap_or(SECONDS);
    let first = types.first().cloned().context("--type names none")?;
    let request = types.iter().cloned().fold(Request::new(first).seconds(seconds), Request::and);
    let names: Vec<&str> = request.types().map(ProfileType::name).collect();
    journal.info(&format!("recording {} of the JVM {pid} for {seconds} s", names.join(", ")));
    let bar = Bar::new("JVM");
    let watch = Watch { cancel, progress: Some(bar.listener()), ..Watch::default() };
    let library = std::env::var_os(JvmEngine::LIBRARY_VARIABLE).filter(|path| !path.is_empty());
    let engine = JvmEngine::chosen("auto", library.map(Into::into)).map_err(anyhow::Error::msg)?;
    let source =
        JvmSource::new(JvmOptions { target: JvmTarget::Pid(Pid(pid)), engine, settings: FlightSettings::default() });
    let answer = source.record(&request, &watch).await;
    drop(bar);
    let kept = match answer {
        Ok(answer) => keep(settings, journal, answer, &request).await?,
        Err(error) => {
            journal.error(&format!("JVM {pid}: {error}"));
            false
        }
    };
    clean(settings, journal);
    Ok(kept)
}

/// Keeps every profile of the answer, and names the types that have none.
async fn keep(settings: &Settings, journal: &Journal, answer: Recordings, request: &Request) -> Result<bool> {
    let mut missing: Vec<ProfileType> = request.types().cloned().collect();
    let instance_start = answer.instance.start_time();
    for recording in answer.recordings {
        for decoded in decoded(&recording)? {
            for warning in &decoded.warnings {
                journal.warning(warning);
            }
            let meta = decoded.profile.meta();
            let Some(profile_type) = meta.profile_type.clone() else { continue };
            if !missing.contains(&profile_type) {
                continue;
            }
            missing.retain(|known| *known != profile_type);
            let profile = with_facts(decoded.profile.adjusted(Grammar::Pprof)?, &recording, instance_start)?;
            let bytes = encode_gzip(&profile)?;
            let path = file::write(&settings.folder, &profile_type, recording.started, &bytes)?;
            journal.info(&format!("{profile_type} profile saved: {} ({} bytes)", path.display(), bytes.len()));
            if !meta.means.is_empty() {
                journal.info(&format!("{profile_type} profile: {}", meta.means));
            }
        }
    }
    for profile_type in &missing {
        journal
            .warning(&format!("{profile_type} profile: nothing was recorded: the JVM did nothing of this meanwhile"));
    }
    Ok(true)
}

/// Adds what is known beside the recording itself.
pub(crate) fn with_facts(profile: Profile, recording: &Recording, instance_start: Option<Nanos>) -> Result<Profile> {
    let mut meta = profile.meta();
    for (key, value) in &recording.facts {
        match key.as_str() {
            "engine" => meta.engine.clone_from(value),
            _ => drop(meta.more.insert(key.clone(), value.clone())),
        }
    }
    let meta = Meta {
        kind: "jvm".to_owned(),
        trigger: "collect".to_owned(),
        instance_start,
        tool: concat!("procprof ", env!("CARGO_PKG_VERSION")).to_owned(),
        end: Some(recording.finished),
        ..meta
    };
    Ok(profile.with_meta(&meta)?)
}

/// The profiles of a recording.
pub(crate) fn decoded(recording: &Recording) -> Result<Vec<Decoded>> {
    match recording.content.clone().map_err(|error: CollectError| anyhow::anyhow!("{error}"))? {
        RecordingData::Encoded(bytes) => decode_events(&bytes, &Limits::default()).context("decode the recording"),
        RecordingData::Decoded(decoded, _) => Ok(vec![*decoded]),
    }
}
