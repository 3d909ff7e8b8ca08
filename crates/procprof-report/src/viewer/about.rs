//! The text above a tree: process, sample type, time, total, and what the picture omits.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use procprof_profile::diff::{self, Scaling};
use procprof_profile::{Meta, Profile, ProfileType};

use super::nodes::Nodes;
use super::note::Note;
use crate::display::amount::{Amount, grouped, percent};
use crate::display::frame::Frame;
use crate::display::moment::utc;
use crate::display::place::base_name;
use crate::display::text::one_line;
use crate::header::headline::named_wait;
use crate::selection::view::{LeftOut, View};
use crate::{FrameKind, Layout, Options, Result};

/// The facts about a tree beside its nodes.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) title: String,
    /// Time, duration, total; of the base, too.
    pub(super) facts: Vec<String>,
    /// Filters, and missing parts.
    pub(super) notes: Vec<Note>,
    /// Kind and unit of each sample type, and the one of the tree.
    pub(super) sample_types: Vec<(String, String)>,
    pub(super) sample_index: usize,
    pub(super) amount: Amount,
    pub(super) layout: Layout,
    /// The total of the profile before filters.
    pub(super) profile_total: i64,
    /// That of the base, in a difference.
    pub(super) base_profile_total: Option<i64>,
    pub(super) scaling: Scaling,
    /// The factor of the base's values.
    pub(super) base_scale: f64,
}

/// The counted part of a profile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub(crate) sample_type: usize,
    /// Before filters.
    pub(crate) profile_total: i64,
    /// After filters.
    pub(crate) total: i64,
    /// Stacks after filters.
    pub(crate) samples: usize,
}

impl About {
    pub(super) fn new(view: &View<'_>, shares: &Shares, options: &Options) -> About {
        let profile = view.profile.as_ref();
        let meta = Meta::from_comments(profile.comments());
        let amount = Amount::of_profile(profile, shares.sample_type);
        let types = (0..profile.sample_types().len()).map(|index| profile.sample_type(index));
        let mut notes = filters(shares, &amount, options);
        notes.extend(left_out_waits(view, shares.sample_type, &amount, options));
        notes.extend(left_out(view));
        notes.extend(losses(&meta));
        notes.extend(unrecorded(&meta, shares));
        About {
            title: options.title.clone().unwrap_or_else(|| title(profile, &meta, shares.sample_type)),
            facts: facts(profile, &meta, shares, &amount),
            notes,
            sample_types: types
                .map(|(kind, unit)| (one_line(kind).into_owned(), one_line(unit).into_owned()))
                .collect(),
            sample_index: shares.sample_type,
            amount,
            layout: options.layout,
            profile_total: shares.profile_total,
            base_profile_total: None,
            scaling: Scaling::AsMeasured,
            base_scale: 1.0,
        }
    }

    /// Adds the base of a comparison with `profile`.
    pub(super) fn compare(
        &mut self,
        profile: &Profile,
        base: &Profile,
        shares: &Shares,
        options: &Options,
    ) -> Result<()> {
        self.scaling = options.normalize;
        self.base_scale = match self.scaling {
            Scaling::SameTotal if shares.profile_total != 0 => self.profile_total as f64 / shares.profile_total as f64,
            Scaling::SameTime => diff::time_ratio(profile, base)?,
            Scaling::AsMeasured | Scaling::SameTotal => 1.0,
        };
        let meta = Meta::from_comments(base.comments());
        let title = title(base, &meta, shares.sample_type);
        let when = moment_and_amounts(base, shares, &self.amount).join(" \u{b7} ");
        let scaled = match self.scaling {
            Scaling::AsMeasured => "",
            Scaling::SameTotal => ", scaled to the same total",
            Scaling::SameTime => ", scaled to the same measured time",
        };
        self.facts.push(format!("Compared with {title} \u{b7} {when}{scaled}"));
        self.notes.extend(losses(&meta).into_iter().map(Note::of_base));
        self.base_profile_total = Some(shares.profile_total);
        Ok(())
    }
}

/// The share of code without symbols by itself, and the files whose symbols would name it. A frame without a name that
/// only calls named functions hides nothing.
pub(super) fn unnamed(frames: &[Frame], nodes: &Nodes) -> Option<Note> {
    let mut by_file: BTreeMap<&str, i64> = BTreeMap::new();
    for node in 1..nodes.len() {
        let frame = &frames[nodes.frame(node) as usize];
        let own = nodes.values(node).own;
        if own > 0 && frame.kind == FrameKind::Unknown {
            let file = frame.name.trim_matches(['[', ']']).rsplit_once("+0x").map_or("", |(file, _)| file);
            let sum = by_file.entry(file).or_default();
            *sum = sum.saturating_add(own);
        }
    }
    let total = nodes.total(0);
    let hidden = by_file.values().fold(0i64, |sum, own| sum.saturating_add(*own));
    if (hidden as f64) < total as f64 * UNNAMED_MIN || total <= 0 {
        return None;
    }
    let mut files: Vec<(&str, i64)> = by_file.into_iter().filter(|(file, _)| !file.is_empty()).collect();
    files.sort_by_key(|(file, own)| (Reverse(*own), *file));
    let named: Vec<String> =
        files.iter().take(FILES_SHOWN).map(|(file, own)| format!("{file} {}", percent(*own, total))).collect();
    let share = percent(hidden, total);
    Some(match named.is_empty() {
        true => Note::new("nowhere", &[&share], format!("{share} is in code of no known file")),
        false => {
            let named = named.join(", ");
            let text = format!("{share} is in code without symbols, which those of its files would name: {named}");
            Note::new("unnamed", &[&share, &named], text)
        }
    })
}

/// Share of the total from which code without symbols is mentioned, and the files that are.
const UNNAMED_MIN: f64 = 0.01;
const FILES_SHOWN: usize = 3;

/// The node and the profile type, as far as known.
pub(crate) fn title(profile: &Profile, meta: &Meta, sample_type: usize) -> String {
    let file = profile.mappings().first().map_or("", |mapping| base_name(profile.string(mapping.filename)));
    let node = match (meta.role.as_str(), meta.node_name.as_str()) {
        (_, "") => file.to_owned(),
        (role, name) if name.starts_with(role) => name.to_owned(),
        (role, name) => format!("{role} {name}"),
    };
    let kind = meta.profile_type.as_ref().map_or_else(|| profile.sample_type(sample_type).0, |kind| kind.label());
    [node.as_str(), kind].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" \u{b7} ")
}

/// The time, the duration, the total, and the measure.
pub(crate) fn facts(profile: &Profile, meta: &Meta, shares: &Shares, amount: &Amount) -> Vec<String> {
    let (kind, unit) = profile.sample_type(shares.sample_type);
    let mut facts = vec![moment_and_amounts(profile, shares, amount).join(" \u{b7} ")];
    let measure = if unit.is_empty() || unit == kind { kind.to_owned() } else { format!("{kind}, in {unit}") };
    facts.push(match meta.means.as_str() {
        "" => format!("Width of a box: {} ({measure})", amount.what),
        means => format!("Width of a box: {} ({measure}). {means}", amount.what),
    });
    facts
}

fn moment_and_amounts(profile: &Profile, shares: &Shares, amount: &Amount) -> Vec<String> {
    let mut when = Vec::new();
    if profile.time().0 != 0 {
        when.push(utc(profile.time()));
    }
    if profile.duration().0 != 0 {
        when.push(format!("{} long", Amount::nanoseconds().text(profile.duration().0)));
    }
    when.push(format!("{} in total", amount.sentence(shares.profile_total)));
    when.push(counted(shares.samples as u64, "stack"));
    when
}

/// The filters, and the share that they leave.
pub(crate) fn filters(shares: &Shares, amount: &Amount, options: &Options) -> Vec<Note> {
    let mut asked: Vec<String> = options.active_filters().iter().map(|(key, value)| format!("{key}={value}")).collect();
    if !options.filters.prune_from.is_empty() {
        asked.push(format!("prune_from={}", options.filters.prune_from));
    }
    if !options.root.is_empty() {
        asked.push(format!("below {}", options.root.join(" \u{203a} ")));
    }
    if asked.is_empty() {
        return Vec::new();
    }
    let share = percent(shares.total, shares.profile_total);
    let (asked, total) = (asked.join(", "), amount.text(shares.total));
    let text = format!("Only {asked}: {total}, {share} of the profile");
    vec![Note::new("only", &[&asked, &total, &share], text)]
}

/// A number of things.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}

fn were(number: u64) -> &'static str {
    if number == 1 { "was" } else { "were" }
}

/// The waits that are not shown, and how to see them.
pub(crate) fn left_out_waits(
    view: &View<'_>,
    sample_type: usize,
    amount: &Amount,
    options: &Options,
) -> impl Iterator<Item = Note> {
    view.left_out_waits.sums(sample_type).map(move |(wait, sum)| {
        let sum = amount.text(options.divided(sum));
        let note = Note::new("waits", &[&sum, wait.name()], format!("{} left out", named_wait(wait, &sum)));
        Note { shown_by: Some(("waits", "all")), ..note }
    })
}

/// The frames that are not shown, and how to see them.
pub(crate) fn left_out(view: &View<'_>) -> Option<Note> {
    let has = |kind| view.profile.sample_type_index(kind).is_some();
    let what = match &view.left_out {
        LeftOut::Nothing => return None,
        LeftOut::Unreadable(why) => {
            let text = format!("No frames are left out: drop_frames of the profile: {why}");
            return Some(Note::new("dropFrames", &[why], text));
        }
        LeftOut::Leaves if has("inuse_space") || has("alloc_space") || has("space") => {
            ("allocators", "Allocator frames")
        }
        LeftOut::Leaves if has("contentions") => ("locks", "Lock frames"),
        LeftOut::Leaves => ("profiler", "Frames of the profiler"),
    };
    let (key, frames) = what;
    let note = Note::new(key, &[], format!("{frames} at the leaf are left out"));
    Some(Note { shown_by: Some(("keep_allocators", "true")), ..note })
}

/// The reason why a profile of Go's runtime has no samples of locks or blocked goroutines: by default it records none.
pub(crate) fn unrecorded(meta: &Meta, shares: &Shares) -> Option<Note> {
    let (kind, function) = match meta.profile_type {
        Some(ProfileType::Mutex) => ("mutex", "runtime.SetMutexProfileFraction"),
        Some(ProfileType::Contention) => ("block", "runtime.SetBlockProfileRate"),
        _ => return None,
    };
    let text = format!("Go's {kind} profile has samples only if the program calls {function}");
    let is_unrecorded = meta.engine == "go" && shares.profile_total == 0;
    is_unrecorded.then(|| Note::new("go", &[kind, function], text))
}

/// Lost, cut and unsampled amounts.
pub(crate) fn losses(meta: &Meta) -> Vec<Note> {
    let mut losses = Vec::new();
    if let Some(lost) = meta.lost.filter(|lost| *lost > 0) {
        let text = format!("{} {} lost", counted(lost, "sample"), were(lost));
        losses.push(Note::new("lost", &[&grouped(lost)], text));
    }
    if let Some(truncated) = meta.truncated.filter(|truncated| *truncated > 0) {
        let text = format!("{} {} cut at the depth limit", counted(truncated, "stack"), were(truncated));
        losses.push(Note::new("truncated", &[&grouped(truncated)], text));
    }
    if let Some(nanos) = meta.unsampled.filter(|nanos| *nanos > 0) {
        let time = Amount::nanoseconds().text(i64::try_from(nanos).unwrap_or(i64::MAX));
        losses.push(Note::new("unsampled", &[&time], format!("{time} of CPU time was not sampled")));
    }
    losses
}
