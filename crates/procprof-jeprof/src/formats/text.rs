//! `--text`: one line per row.

use std::fmt::Write;

use crate::view::View;
use crate::view::number::{descending, percent};

impl View<'_> {
    /// The total and a line for each row, by own or by cumulative value, then by name.
    pub fn text(&self) -> String {
        let rows = self.rows_text(usize::MAX);
        if self.total == 0.0 {
            return rows;
        }
        let thread = self.settings.thread.map(|thread| format!(" (t{thread})")).unwrap_or_default();
        format!("Total{thread}: {}\n{rows}", self.total_text())
    }

    /// The sum before anything was cut, with its unit: `16.2 MB`.
    pub fn total_text(&self) -> String {
        format!("{} {}", self.unit.print(self.total), self.unit.name())
    }

    /// The remaining sum, and its share: `8.1 MB of 16.2 (50.0%)`.
    pub fn left_text(&self) -> String {
        let left = self.total_left();
        let share = if self.total == 0.0 { 0.0 } else { left * 100.0 / self.total };
        format!("{} {} of {} ({share:.1}%)", self.unit.print(left), self.unit.name(), self.unit.print(self.total))
    }

    /// The first `limit` rows, a line each.
    pub fn rows_text(&self, limit: usize) -> String {
        let mut text = String::new();
        let (mut rows, total) = self.rows();
        let by_cumulative = self.settings.cumulative;
        rows.sort_by(|a, b| {
            let (a_value, b_value) = if by_cumulative { (a.cumulative, b.cumulative) } else { (a.flat, b.flat) };
            descending(a_value, b_value).then_with(|| self.name(a.name).cmp(self.name(b.name)))
        });
        let mut running = 0.0;
        for row in rows.into_iter().take(limit) {
            running += row.flat;
            if row.flat == 0.0 && row.cumulative == 0.0 {
                continue;
            }
            // Writing to a string cannot fail.
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
