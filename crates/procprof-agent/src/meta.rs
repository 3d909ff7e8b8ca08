//! The metadata that every profile of this agent contains.

use crate::error::Result;
use crate::modules::Modules;
use procprof_profile::format::{Limits, decode};
use procprof_profile::{Meta, Nanos, Profile, ProfileType};

/// This crate's name and version.
pub(crate) const TOOL: &str = concat!("procprof-agent ", env!("CARGO_PKG_VERSION"));

/// The facts known without looking at the samples.
pub(crate) fn known_facts(profile_type: ProfileType, engine: &str, modules: &Modules) -> Meta {
    Meta {
        profile_type: Some(profile_type),
        engine: engine.to_owned(),
        tool: TOOL.to_owned(),
        instance_start: instance_start(),
        instance_build_id: modules.main_build_id().to_owned(),
        ..Meta::default()
    }
}

/// When this process started, by which readers notice restarts.
#[cfg(all(feature = "symbolize", target_os = "linux"))]
fn instance_start() -> Option<Nanos> {
    use procprof_process::{Identity, Pid};
    Identity::read(Pid::current()).ok().map(|own| own.start_time)
}

#[cfg(not(all(feature = "symbolize", target_os = "linux")))]
fn instance_start() -> Option<Nanos> {
    None
}

/// A dump of this process in its text form, which lacks the build ids of the mappings.
pub(crate) fn decode_dump(text: &[u8], modules: &Modules) -> Result<Profile> {
    let mut parts = decode(text, &Limits::default())?.profile.into_parts();
    modules.add_build_ids(&mut parts);
    Ok(parts.finish()?)
}

/// Adds the facts to a profile that was decoded from somewhere.
pub(crate) fn add(profile: Profile, meta: &Meta) -> Result<Profile> {
    let mut parts = profile.into_parts();
    for comment in meta.to_comments() {
        let text = parts.strings.push(&comment);
        parts.comments.extend(text);
    }
    Ok(parts.finish()?)
}
