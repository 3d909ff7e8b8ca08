//! The thumbnail of a flame graph as a small picture: one path for each of [`TONES`] tones, root at the bottom.

use std::fmt::Write;

use maud::{Markup, html};

use crate::ingest::{COLUMNS, ROWS};

const TONES: usize = 7;

/// The picture; nothing for a profile without one.
pub(super) fn picture(strip: &[u8]) -> Markup {
    if strip.len() != COLUMNS * ROWS {
        return html! {};
    }
    let mut paths: [String; TONES] = Default::default();
    for (row, cells) in strip.chunks(COLUMNS).enumerate() {
        let y = ROWS - 1 - row;
        let mut from = 0;
        for run in cells.chunk_by(|a, b| a == b) {
            if run[0] != 0 {
                // Writing to a string cannot fail.
                let _ = write!(paths[usize::from(run[0]) % TONES], "M{from} {y}h{length}v1h-{length}z", length = run.len());
            }
            from += run.len();
        }
    }
    html! {
        svg class="strip" viewBox=(format!("0 0 {COLUMNS} {ROWS}")) preserveAspectRatio="none" aria-hidden="true" {
            @for (tone, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
                path class=(format!("t{tone}")) d=(path) {}
            }
        }
    }
}
