//! What stands above the picture: which process, which measure, when, how much, and what the picture does not show.

use procprof_profile::{Meta, Profile};

use super::amount::{Amount, grouped, percent};
use super::boxes::Boxes;
use crate::Options;
use crate::moment::utc;
use crate::place::base_name;
use crate::stack_tree::StackTree;
use crate::text::one_line;
use crate::view::{LeftOut, View};

/// Lines of text above the picture.
#[derive(Clone, Debug)]
pub(super) struct Heading {
    pub(super) title: String,
    /// When, how long, how much.
    pub(super) facts: Vec<String>,
    /// What is missing, merged or filtered.
    pub(super) remarks: Vec<String>,
}

impl Heading {
    pub(super) fn new(view: &View<'_>, tree: &StackTree, boxes: &Boxes, amount: &Amount, options: &Options) -> Heading {
        let profile = view.profile.as_ref();
        let meta = Meta::from_comments(profile.comments());
        let title = options.title.clone().unwrap_or_else(|| title(profile, &meta, tree));
        let mut remarks = filters(tree, amount, options);
        remarks.extend(left_out(view));
        remarks.extend(losses(&meta));
        remarks.extend(merged(tree, boxes, amount));
        let lines = |lines: Vec<String>| lines.iter().map(|line| one_line(line).into_owned()).collect();
        Heading { title: one_line(&title).into_owned(), facts: lines(facts(profile, &meta, tree, amount)), remarks: lines(remarks) }
    }

    /// Lines below the title.
    pub(super) fn lines(&self) -> usize {
        self.facts.len() + self.remarks.len()
    }
}

/// The node and the profile type, as far as known.
fn title(profile: &Profile, meta: &Meta, tree: &StackTree) -> String {
    let file = profile.mappings().first().map_or("", |mapping| base_name(profile.string(mapping.filename)));
    let node = match (meta.role.as_str(), meta.node_name.as_str()) {
        (_, "") => file.to_owned(),
        (role, name) if name.starts_with(role) => name.to_owned(),
        (role, name) => format!("{role} {name}"),
    };
    let kind = meta.profile_type.as_ref().map_or_else(|| profile.sample_type(tree.sample_type).0, |kind| kind.label());
    [node.as_str(), kind].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" \u{b7} ")
}

fn facts(profile: &Profile, meta: &Meta, tree: &StackTree, amount: &Amount) -> Vec<String> {
    let mut when = Vec::new();
    if profile.time().0 != 0 {
        when.push(utc(profile.time()));
    }
    if profile.duration().0 != 0 {
        when.push(format!("{} long", Amount::nanoseconds().text(profile.duration().0)));
    }
    when.push(format!("{} in total", amount.sentence(tree.profile_total)));
    when.push(counted(tree.samples as u64, "stack"));
    let (kind, unit) = profile.sample_type(tree.sample_type);
    let mut facts = vec![when.join(" \u{b7} ")];
    let measure = if unit.is_empty() || unit == kind { kind.to_owned() } else { format!("{kind}, in {unit}") };
    facts.push(match meta.means.as_str() {
        "" => format!("Width of a box: {} ({measure})", amount.what),
        means => format!("Width of a box: {} ({measure}). {means}", amount.what),
    });
    facts
}

fn filters(tree: &StackTree, amount: &Amount, options: &Options) -> Vec<String> {
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
    let share = percent(tree.total(), tree.profile_total);
    vec![format!("Only {}: {}, {share} of the profile", asked.join(", "), amount.text(tree.total()))]
}

/// A number of things.
fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}

fn are(number: u64) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

fn were(number: u64) -> &'static str {
    if number == 1 { "was" } else { "were" }
}

/// Which frames are not shown, and how to see them.
fn left_out(view: &View<'_>) -> Option<String> {
    let has = |kind| view.profile.sample_type_index(kind).is_some();
    let what = match &view.left_out {
        LeftOut::Nothing => return None,
        LeftOut::Unreadable(why) => return Some(format!("No frames are left out: drop_frames of the profile: {why}")),
        LeftOut::Leaves if has("inuse_space") || has("alloc_space") || has("space") => "Allocator frames",
        LeftOut::Leaves if has("contentions") => "Lock frames",
        LeftOut::Leaves => "Frames of the profiler",
    };
    Some(format!("{what} at the leaf are left out; keep_allocators=true shows them"))
}

fn losses(meta: &Meta) -> Vec<String> {
    let mut losses = Vec::new();
    if let Some(lost) = meta.lost.filter(|lost| *lost > 0) {
        losses.push(format!("{} {} lost", counted(lost, "sample"), were(lost)));
    }
    if let Some(truncated) = meta.truncated.filter(|truncated| *truncated > 0) {
        losses.push(format!("{} {} cut at the depth limit", counted(truncated, "stack"), were(truncated)));
    }
    if let Some(nanos) = meta.unsampled.filter(|nanos| *nanos > 0) {
        let time = Amount::nanoseconds().text(i64::try_from(nanos).unwrap_or(i64::MAX));
        losses.push(format!("{time} of CPU time were seen by no sample"));
    }
    if losses.is_empty() { losses } else { vec![losses.join(" \u{b7} ")] }
}

fn merged(tree: &StackTree, boxes: &Boxes, amount: &Amount) -> Vec<String> {
    let mut lines = Vec::new();
    if boxes.merged_frames > 0 {
        let narrow = (boxes.fraction > 0.0).then(|| format!("narrower than {}", share(boxes.fraction)));
        let deep = boxes.last_row.map(|row| format!("above depth {}", grouped(u64::from(row))));
        let why = [narrow, deep].into_iter().flatten().collect::<Vec<_>>().join(" or ");
        let what = percent(boxes.merged_total, tree.total());
        lines.push(format!(
            "{} {why} {} merged into hatched boxes, {what} in all",
            counted(boxes.merged_frames, "frame"),
            are(boxes.merged_frames)
        ));
    }
    if boxes.negative.0 > 0 {
        let sum = amount.text(boxes.negative.1);
        lines.push(format!(
            "{} without a positive value {} no box, {sum} in all",
            counted(boxes.negative.0, "frame"),
            if boxes.negative.0 == 1 { "has" } else { "have" }
        ));
    }
    lines
}

/// A small share in percent, with as many digits as it takes.
fn share(fraction: f64) -> String {
    let percent = fraction * 100.0;
    let decimals = if percent <= 0.0 { 0 } else { (1.0 - percent.log10().floor()).clamp(0.0, 12.0) as usize };
    format!("{percent:.decimals$}%")
}
