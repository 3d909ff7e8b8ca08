//! The facts about a profile besides its samples: completed from the profile itself, and written into it.

use jiff::Timestamp;
use procprof_profile::format::Decoded;
use procprof_profile::{Error, Meta, Nanos, Parts, Profile, ProfileType, Result};

use crate::kinds::Kind;
use crate::symbols::{UPLOADED_BY, UPLOADS, is_wanted_fact};

const TOOL: &str = concat!("procprof ", env!("CARGO_PKG_VERSION"));

/// Key of the fact that names the sample type whose values the top functions have.
pub const SHOWN: &str = "shown";

/// Adds the facts that the profile states about itself, where the server has none of its own, and those that follow
/// from its format.
pub(crate) fn complete(meta: &mut Meta, decoded: &Decoded) {
    let own = Meta::from_comments(decoded.profile.comments());
    for (text, own_text) in [
        (&mut meta.engine, own.engine),
        (&mut meta.means, own.means),
        (&mut meta.instance_version, own.instance_version),
        (&mut meta.instance_build_id, own.instance_build_id),
    ] {
        if text.is_empty() {
            *text = own_text;
        }
    }
    meta.lost = meta.lost.or(own.lost);
    meta.truncated = meta.truncated.or(own.truncated);
    meta.unsampled = meta.unsampled.or(own.unsampled);
    meta.instance_start = meta.instance_start.or(own.instance_start);
    let is_import = meta.trigger == "import";
    for (key, value) in own.more.into_iter().filter(|(key, value)| is_import || may_set(key, value)).take(OWN_FACTS_MAX)
    {
        meta.more.entry(key).or_insert(value);
    }
    if meta.engine.is_empty() {
        meta.engine = engine(meta, decoded.format).to_owned();
    }
    if meta.means.is_empty() {
        meta.means = meta.profile_type.as_ref().map_or("", means).to_owned();
    }
    if !decoded.warnings.is_empty() {
        meta.more.insert("warnings".to_owned(), decoded.warnings.join("; "));
    }
    let shown = decoded.profile.sample_type(decoded.profile.default_sample_type()).0;
    meta.more.insert(SHOWN.to_owned(), shown.to_owned());
    TOOL.clone_into(&mut meta.tool);
}

/// Facts that this server finds out itself: a profile's word for them is worth nothing, unless it is one that a server
/// stored and that is imported.
const OWN: &[&str] = &[
    SHOWN,
    UPLOADS,
    "symbols",
    "symbols-from",
    "symbolize-error",
    "unresolved-locations",
    "imported-from",
    "warnings",
    "tool",
];

/// Most further facts taken from a profile, and their longest name and text, in bytes.
const OWN_FACTS_MAX: usize = 64;
const KEY_MAX: usize = 64;
const TEXT_MAX: usize = 4096;

/// Whether a profile may set a fact about itself: its name has our form and is none that the server determines, and its
/// text is one line.
fn may_set(key: &str, text: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
    let is_plain = !key.is_empty() && key.len() <= KEY_MAX && key.bytes().all(is_name);
    let is_ours = OWN.contains(&key) || is_wanted_fact(key) || key.starts_with(UPLOADED_BY);
    is_plain && !is_ours && text.len() <= TEXT_MAX && crate::is_plain(text)
}

/// The sampler, by format and kind of node.
fn engine(meta: &Meta, format: &'static str) -> &'static str {
    let of_kind = Kind::named(&meta.kind).and_then(|kind| kind.engine_for(format));
    of_kind.unwrap_or(if format == "gperftools-cpu" { "gperftools" } else { format })
}

fn means(profile_type: &ProfileType) -> &'static str {
    match profile_type {
        ProfileType::Cpu => "CPU time of all threads during the capture",
        ProfileType::Wall => "time that passed, on and off the CPU",
        ProfileType::OffCpu => "time in which threads did not run: blocked, or ready without a CPU",
        ProfileType::Alloc => "memory allocated, freed or not",
        ProfileType::Heap => "memory in use at that moment",
        ProfileType::Contention => "time spent waiting for locks, charged to who waited",
        ProfileType::Mutex => "time others waited for locks, charged to who held them",
        ProfileType::Goroutine => "goroutines at that moment",
        ProfileType::GoroutineLeak => "goroutines at that moment that nothing can wake",
        ProfileType::Other(_) => "",
    }
}

/// Whether a profile's time is that of its end: Go stamps differences of totals (`mutex?seconds=10`) when the later
/// total is taken.
///
/// Such a time and its length reach beyond the moment the answer was complete. Half the length is left to clocks that
/// differ. What is sampled is stamped when the sampling begins.
fn is_stamped_at_end(meta: &Meta, time: Nanos, duration: Nanos) -> bool {
    let of_totals = !matches!(meta.profile_type, Some(ProfileType::Cpu | ProfileType::Wall) | None);
    let beyond = |end: Nanos| time.0.saturating_add(duration.0) > end.0.saturating_add(duration.0 / 2);
    of_totals && duration.0 > 0 && meta.end.is_some_and(beyond)
}

/// A time or length that a profile claims and that cannot be: it goes by its incoming, and this fact keeps the claim.
const CLAIMED: &str = "time-claimed";
/// How far a source's clock may be ahead of ours.
const AHEAD_MAX: i64 = 300_000_000_000;
/// Longest length believed: a year.
const DURATION_MAX: i64 = 366 * 86_400_000_000_000;

/// Moves what claims to be from the future to its incoming, so that it is listed where it belongs and expires like
/// everything else.
fn bound_claims(parts: &mut Parts, meta: &mut Meta, arrived: Nanos) {
    let (time, duration) = (parts.time, parts.duration);
    let believed = (0..=DURATION_MAX).contains(&duration.0);
    if believed && time.0.saturating_add(duration.0) <= arrived.0.saturating_add(AHEAD_MAX) {
        return;
    }
    parts.duration = if believed { duration } else { Nanos(0) };
    if time.0.saturating_add(parts.duration.0) > arrived.0.saturating_add(AHEAD_MAX) {
        parts.time = Nanos(arrived.0.saturating_sub(parts.duration.0));
    }
    let claim =
        Timestamp::from_nanosecond(i128::from(time.0)).map_or_else(|_| time.0.to_string(), |time| time.to_string());
    meta.more.insert(CLAIMED.to_owned(), format!("{claim}, {} s long", duration.0 / 1_000_000_000));
}

/// Writes the facts into the profile's comments and gives it a time; returns its start and length. `arrived` bounds
/// what it claims; `None` for what is stored already.
pub(crate) fn write(
    profile: Profile,
    meta: &mut Meta,
    window: (Nanos, Nanos),
    arrived: Option<Nanos>,
) -> Result<(Profile, Nanos, Nanos)> {
    let mut parts = profile.into_parts();
    if parts.time.0 <= 0 {
        (parts.time, parts.duration) = window;
    }
    if parts.duration.0 <= 0 {
        parts.duration = window.1;
    }
    if let Some(arrived) = arrived {
        bound_claims(&mut parts, meta, arrived);
    }
    if is_stamped_at_end(meta, parts.time, parts.duration) {
        parts.time = Nanos(parts.time.0.saturating_sub(parts.duration.0));
    }
    let (start, duration) = (parts.time, parts.duration);
    meta.end.get_or_insert(Nanos(start.0.saturating_add(duration.0)));
    let strings = &mut parts.strings;
    parts.comments.retain(|comment| !strings.get(*comment).is_some_and(Meta::is_fact));
    for fact in meta.to_comments() {
        let id = strings.push(&fact).ok_or(Error::TooLarge {
            format: "facts",
            what: "the string table",
            limit: u64::from(u32::MAX),
        })?;
        parts.comments.push(id);
    }
    Ok((parts.finish()?, start, duration))
}
