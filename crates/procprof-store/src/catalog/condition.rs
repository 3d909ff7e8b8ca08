//! A [`Filter`] as a condition of SQL.

use rusqlite::types::Value;

use crate::{Cursor, Filter};

/// A condition with its values, in order.
pub(super) struct Condition {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

impl Condition {
    /// The condition on a row of `profiles`, and on being after a cursor and not behind another.
    pub(super) fn new(filter: &Filter, after: Option<Cursor>, until: Option<Cursor>) -> Condition {
        let mut condition = Condition::without_text(filter, after);
        condition.with(" AND instr(words, ?) > 0", filter.text.as_ref().map(|text| Value::Text(text.to_lowercase())));
        condition.place(">=", until);
        condition
    }

    /// The condition without the text.
    pub(super) fn without_text(filter: &Filter, after: Option<Cursor>) -> Condition {
        let mut condition = Condition { sql: "1".to_owned(), values: Vec::new() };
        condition.any("id", filter.ids.iter().map(|id| Value::Blob(id.0.to_be_bytes().to_vec())));
        condition.any("node", filter.nodes.iter().map(|node| Value::Integer(node.cast_signed())));
        condition.any("type", filter.types.iter().map(|kind| Value::Text(kind.name().to_owned())));
        condition.with(" AND completed >= ?", filter.from.map(|from| Value::Integer(from.0)));
        condition.with(" AND completed < ?", filter.to.map(|to| Value::Integer(to.0)));
        condition.with(" AND cluster = ?", filter.cluster.clone().map(Value::Text));
        condition.with(" AND trigger = ?", filter.trigger.clone().map(Value::Text));
        for (key, value) in &filter.labels {
            condition.with(" AND instr(labels, ?) > 0", Some(Value::Text(format!("\n{key}={value}\n"))));
        }
        condition.place("<", after);
        condition
    }

    /// One value may be looked up in an index of its own; for several, only the index by time keeps the order, hence
    /// the `+`.
    fn any(&mut self, column: &str, values: impl Iterator<Item = Value>) {
        let from = self.values.len();
        self.values.extend(values);
        match self.values.len() - from {
            0 => {}
            1 => self.sql.push_str(&format!(" AND {column} = ?")),
            count => self.sql.push_str(&format!(" AND +{column} IN ({})", vec!["?"; count].join(","))),
        }
    }

    pub(super) fn place(&mut self, comparison: &str, cursor: Option<Cursor>) {
        if let Some(Cursor { completed, id }) = cursor {
            self.sql.push_str(&format!(" AND (completed, id) {comparison} (?, ?)"));
            self.values.extend([Value::Integer(completed.0), Value::Blob(id.0.to_be_bytes().to_vec())]);
        }
    }

    pub(super) fn with(&mut self, sql: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.sql.push_str(sql);
            self.values.push(value);
        }
    }
}
