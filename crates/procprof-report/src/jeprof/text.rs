//! `--text`: one line a row.

use std::fmt::Write;

use super::number::{descending, percent};
use super::view::View;

impl View<'_> {
    /// The total and a line for each row, by own or by cumulative value, then by name.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.total != 0.0 {
            let thread = self.settings.thread.map(|thread| format!(" (t{thread})")).unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "Total{thread}: {} {}", self.unit.print(self.total), self.unit.name());
        }
        let (mut rows, total) = self.rows();
        let by_cumulative = self.settings.cumulative;
        rows.sort_by(|a, b| {
            let (a_value, b_value) = if by_cumulative { (a.cumulative, b.cumulative) } else { (a.flat, b.flat) };
            descending(a_value, b_value).then_with(|| self.name(a.name).cmp(self.name(b.name)))
        });
        let mut running = 0.0;
        for row in rows {
            running += row.flat;
            if row.flat == 0.0 && row.cumulative == 0.0 {
                continue;
            }
            let _ = writeln!(
                text,
                "{:>8} {:>6} {:>6} {:>8} {:>6} {}",
                self.unit.print(row.flat),
                percent(row.flat, total),
                percent(running, total),
                self.unit.print(row.cumulative),
                percent(row.cumulative, total),
                self.name(row.name)
            );
        }
        text
    }
}
