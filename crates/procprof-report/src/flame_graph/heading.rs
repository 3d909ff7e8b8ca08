//! The heading of the picture: process, measure, time, total, and what the picture does not show.

use procprof_profile::Meta;

use super::boxes::Boxes;
use crate::Options;
use crate::display::amount::{Amount, grouped, percent};
use crate::display::text::one_line;
use crate::selection::view::View;
use crate::stacks::stack_tree::StackTree;
use crate::viewer::Note;
use crate::viewer::about::{Shares, counted, facts, filters, left_out, left_out_waits, losses, title, unrecorded};

/// Lines of text above the picture.
#[derive(Clone, Debug)]
pub(super) struct Heading {
    pub(super) title: String,
    /// Time, duration, total.
    pub(super) facts: Vec<String>,
    /// Missing, merged or filtered parts.
    pub(super) remarks: Vec<String>,
}

impl Heading {
    pub(super) fn new(view: &View<'_>, tree: &StackTree, boxes: &Boxes, amount: &Amount, options: &Options) -> Heading {
        let profile = view.profile.as_ref();
        let meta = Meta::from_comments(profile.comments());
        let shares = Shares {
            sample_type: tree.sample_type,
            profile_total: tree.profile_total,
            total: tree.total(),
            samples: tree.samples,
        };
        let title = options.title.clone().unwrap_or_else(|| title(profile, &meta, tree.sample_type));
        let waits = left_out_waits(view, tree.sample_type, amount, options);
        let notes = filters(&shares, amount, options)
            .into_iter()
            .chain(waits)
            .chain(left_out(view))
            .chain(unrecorded(&meta, &shares));
        let mut remarks: Vec<String> = notes.map(|note| note.text()).collect();
        let losses: Vec<String> = losses(&meta).iter().map(Note::text).collect();
        remarks.extend((!losses.is_empty()).then(|| losses.join(" \u{b7} ")));
        remarks.extend(merged(tree, boxes, amount));
        let lines = |lines: Vec<String>| lines.iter().map(|line| one_line(line).into_owned()).collect();
        Heading {
            title: one_line(&title).into_owned(),
            facts: lines(facts(profile, &meta, &shares, amount)),
            remarks: lines(remarks),
        }
    }

    /// Lines below the title.
    pub(super) fn lines(&self) -> usize {
        self.facts.len() + self.remarks.len()
    }
}

fn are(number: u64) -> &'static str {
    if number == 1 { "is" } else { "are" }
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
