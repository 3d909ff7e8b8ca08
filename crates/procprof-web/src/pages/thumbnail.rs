//! The thumbnail of a flame graph as a small picture: one path for each of [`TONES`] tones, root at the bottom.
//! A cell is a piece of a line as wide as a row is high, which takes half the text of a rectangle.

use std::fmt::Write;

use maud::{Markup, html};
use procprof_core::ingest::{COLUMNS, ROWS};

const TONES: usize = 7;

/// The picture; nothing for a profile without one.
pub(super) fn picture(thumbnail: &[u8]) -> Markup {
    if thumbnail.len() != COLUMNS * ROWS {
        return html! {};
    }
    let mut paths: [String; TONES] = Default::default();
    for (row, cells) in thumbnail.chunks(COLUMNS).enumerate() {
        let y = ROWS - 1 - row;
        let mut from = 0;
        for run in cells.chunk_by(|a, b| a == b) {
            if run[0] != 0 {
                // Writing to a string cannot fail.
                let _ = write!(paths[usize::from(run[0]) % TONES], "M{from} {y}h{}", run.len());
            }
            from += run.len();
        }
    }
    html! {
        svg class="strip" viewBox=(format!("0 -.5 {COLUMNS} {ROWS}")) preserveAspectRatio="none" aria-hidden="true" {
            @for (tone, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
                path class=(format!("t{tone}")) d=(path) {}
            }
        }
    }
}
