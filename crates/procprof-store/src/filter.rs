//! Which profiles a list shows, as SQL conditions.

use procprof_profile::{Nanos, ProfileType};
use rusqlite::types::Value;

use crate::{Cursor, Error, Result};

/// Which profiles to list. Empty lists and `None` let everything through; conditions of different fields must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of any of these nodes.
    pub nodes: Vec<u64>,
    /// Of any of these types.
    pub types: Vec<ProfileType>,
    /// Completed at this moment or later.
    pub from: Option<Nanos>,
    /// Completed before this moment.
    pub to: Option<Nanos>,
    /// In this cluster.
    pub cluster: Option<String>,
    /// With all these labels of the node.
    pub labels: Vec<(String, String)>,
    /// Captured for this reason: `schedule`, `manual`, `import`, …
    pub trigger: Option<String>,
    /// With this text, in any case, in its file name, type, node name, cluster, labels, engine or top functions. One page searches
    /// [`Filter::SEARCHED_MAX`] profiles.
    pub text: Option<String>,
}

/// A condition with its values, in order.
pub(crate) struct Condition {
    pub(crate) sql: String,
    pub(crate) values: Vec<Value>,
}

impl Filter {
    /// Largest number of nodes, types and labels together.
    pub const VALUES_MAX: usize = 1000;
    /// Largest number of profiles one page searches for [`Filter::text`]; the next page goes on behind them.
    pub const SEARCHED_MAX: usize = 5000;

    pub(crate) fn check(&self) -> Result<()> {
        let count = self.nodes.len() + self.types.len() + self.labels.len();
        if count > Self::VALUES_MAX {
            return Err(Error::Argument { what: "filter", text: format!("{count} values"), why: "more than 1000 nodes, types and labels" });
        }
        Ok(())
    }

    /// The condition on a row of `profiles`, and on being after a cursor and not behind another.
    pub(crate) fn condition(&self, after: Option<Cursor>, until: Option<Cursor>) -> Condition {
        let mut condition = self.condition_without_text(after);
        condition.with(" AND instr(words, ?) > 0", self.text.as_ref().map(|text| Value::Text(text.to_lowercase())));
        condition.place(">=", until);
        condition
    }

    /// The condition but for the text.
    pub(crate) fn condition_without_text(&self, after: Option<Cursor>) -> Condition {
        let mut condition = Condition { sql: "1".to_owned(), values: Vec::new() };
        condition.any("node", self.nodes.iter().map(|node| Value::Integer(node.cast_signed())));
        condition.any("type", self.types.iter().map(|kind| Value::Text(kind.name().to_owned())));
        condition.with(" AND completed >= ?", self.from.map(|from| Value::Integer(from.0)));
        condition.with(" AND completed < ?", self.to.map(|to| Value::Integer(to.0)));
        condition.with(" AND cluster = ?", self.cluster.clone().map(Value::Text));
        condition.with(" AND trigger = ?", self.trigger.clone().map(Value::Text));
        for (key, value) in &self.labels {
            condition.with(" AND instr(labels, ?) > 0", Some(Value::Text(format!("\n{key}={value}\n"))));
        }
        condition.place("<", after);
        condition
    }
}

impl Condition {
    /// One value may be looked up in an index of its own; of several, only the index by time keeps the order, hence the `+`.
    fn any(&mut self, column: &str, values: impl Iterator<Item = Value>) {
        let from = self.values.len();
        self.values.extend(values);
        match self.values.len() - from {
            0 => {}
            1 => self.sql.push_str(&format!(" AND {column} = ?")),
            count => self.sql.push_str(&format!(" AND +{column} IN ({})", vec!["?"; count].join(","))),
        }
    }

    fn place(&mut self, comparison: &str, cursor: Option<Cursor>) {
        if let Some(Cursor { completed, id }) = cursor {
            self.sql.push_str(&format!(" AND (completed, id) {comparison} (?, ?)"));
            self.values.extend([Value::Integer(completed.0), Value::Blob(id.0.to_be_bytes().to_vec())]);
        }
    }

    fn with(&mut self, sql: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.sql.push_str(sql);
            self.values.push(value);
        }
    }
}
