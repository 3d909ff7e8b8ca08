//! Periods of nodes, as `top()`, `diff()` and `timeline()` take them: arguments, and sums of all profiles in one, from
//! the store and the archive.

use procprof_core::render::{Coverage, ProfileRange, RenderError, SummedRange};
use procprof_profile::{Nanos, ProfileType};

use super::computed::StatementContext;
use super::moment::parse_moment;
use crate::mysql::{SqlError, SqlErrorKind, Value};

/// Most nodes and labels that an argument names.
const NAMES_MAX: usize = 500;
/// Selects everything.
pub(super) const ALL: &str = "*";

/// A function that is called for a period.
#[derive(Clone, Copy)]
pub(super) struct PeriodCall<'a> {
    pub(super) statement: &'a StatementContext,
    pub(super) name: &'static str,
}

/// Nodes and labels of an argument: ids or names of nodes, and `key=value`, with commas between; `*` or nothing for
/// all.
#[derive(Default)]
struct Chosen {
    /// Of which a profile has one; none for all.
    nodes: Vec<u64>,
    /// Of which a profile's node has all.
    labels: Vec<(String, String)>,
}

impl PeriodCall<'_> {
    /// An error in its arguments.
    pub(super) fn wrong(&self, text: impl std::fmt::Display) -> SqlError {
        SqlError::new(SqlErrorKind::WrongArguments, format!("{}: {text}", self.name))
    }

    /// More than it works on.
    pub(super) fn limit(&self, text: impl std::fmt::Display) -> SqlError {
        SqlError::new(SqlErrorKind::Limit, format!("{}: {text}", self.name))
    }

    /// Notes what its answer lacks.
    pub(super) fn warn(&self, text: impl std::fmt::Display) {
        self.statement.warn(format!("{}: {text}", self.name));
    }

    /// The period of these arguments; one without a moment is open at that end.
    ///
    /// # Errors
    /// An argument is wrong.
    pub(super) fn range(
        &self,
        nodes: &Value,
        profile_type: &Value,
        [from, to]: [&Value; 2],
    ) -> Result<ProfileRange, SqlError> {
        let profile_type = match profile_type {
            Value::Null => ProfileType::Cpu,
            other => text(other).to_ascii_lowercase().parse().map_err(|error| self.wrong(error))?,
        };
        let from = self.moment(from)?.unwrap_or(Nanos(i64::MIN));
        let to = self.moment(to)?.unwrap_or(Nanos(i64::MAX));
        if from >= to {
            return Err(self.wrong("the period ends before it begins"));
        }
        let mut range = ProfileRange { nodes: Vec::new(), labels: Vec::new(), profile_type, from, to };
        Chosen { nodes: range.nodes, labels: range.labels } = self.chosen(&text(nodes), &range)?;
        Ok(range)
    }

    fn chosen(&self, names: &str, range: &ProfileRange) -> Result<Chosen, SqlError> {
        let sql = self.statement.server()?;
        let mut chosen = Chosen::default();
        if let Some(node) = sql.registry.find(names.trim()) {
            chosen.nodes.push(node.id);
            return Ok(chosen);
        }
        if names.trim().is_empty() {
            return Ok(chosen);
        }
        let mut is_any = false;
        for name in names.split(',').map(str::trim) {
            // The archive knows nodes that nothing else knows any more.
            let gone = || name.parse().ok().filter(|_| sql.renderer.has_archive());
            if let Some(id) = sql.registry.find(name).map(|node| node.id).or_else(gone) {
                chosen.nodes.push(id);
            } else if let Some((key, value)) = name.split_once('=') {
                chosen.labels.push((key.trim().to_owned(), value.trim().to_owned()));
            } else if name == ALL {
                is_any = true;
            } else {
                let found = sql.renderer.nodes_named(name, range).map_err(|error| self.failed(&error))?;
                if found.ids.is_empty() {
                    return Err(self.wrong(found.not_found(format!("node not found: {}", cut(name)))));
                }
                chosen.nodes.extend(found.ids);
            }
        }
        if chosen.nodes.len() + chosen.labels.len() > NAMES_MAX {
            return Err(self.limit(format!("more than {NAMES_MAX} nodes and labels")));
        }
        if is_any {
            chosen.nodes.clear();
        }
        Ok(chosen)
    }

    /// A bound of a period: a date, a date and time, or seconds since 1970.
    pub(super) fn moment(&self, value: &Value) -> Result<Option<Nanos>, SqlError> {
        let nanos = match value {
            Value::Null => return Ok(None),
            Value::Integer(seconds) => seconds.checked_mul(1_000_000_000),
            Value::Real(seconds) => Some((seconds * 1e9) as i64),
            other => moment_of(&text(other)),
        };
        let wrong =
            || self.wrong(format!("'{}' is no date, and no date and time, from 1677 to 2262", cut(&text(value))));
        nanos.map(|nanos| Some(Nanos(nanos))).ok_or_else(wrong)
    }

    /// An error of reports as one of the statement.
    pub(super) fn failed(&self, error: &RenderError) -> SqlError {
        if let Err(ended) = self.statement.go_on() {
            return ended;
        }
        match error {
            RenderError::Question(why) => self.wrong(why),
            RenderError::TooLarge { .. } | RenderError::Busy(_) => self.limit(error),
            _ => SqlError::new(SqlErrorKind::Other, format!("{}: {error}", self.name)),
        }
    }

    /// Goes on unless the statement must end.
    pub(super) fn go_on(&self) -> Result<(), RenderError> {
        self.statement.go_on().map_err(|_| RenderError::Stopping)
    }

    /// The sum of all profiles of a period. What it lacks is a warning.
    ///
    /// # Errors
    /// It can't be summed.
    pub(super) fn summed(&self, range: &ProfileRange) -> Result<SummedRange, SqlError> {
        let renderer = &self.statement.server()?.renderer;
        let summed = renderer.sum_range(range, &|| self.go_on()).map_err(|error| self.failed(&error))?;
        self.covered(range, &summed.coverage);
        Ok(summed)
    }

    /// Notes that a range has no profiles, and which nodes of it nothing knows.
    pub(super) fn nothing_found(&self, range: &ProfileRange) {
        let registry = self.statement.server().map(|sql| &sql.registry);
        let is_unknown = |id: &&u64| registry.as_ref().is_ok_and(|registry| registry.by_id(**id).is_none());
        let unknown: Vec<String> = range.nodes.iter().filter(is_unknown).map(u64::to_string).collect();
        let nodes = if unknown.is_empty() { String::new() } else { format!("; unknown nodes: {}", unknown.join(", ")) };
        self.warn(format!("no profiles of type {} were found{nodes}", range.profile_type.name()));
    }

    fn covered(&self, range: &ProfileRange, coverage: &Coverage) {
        self.unreadable(&coverage.unreadable);
        self.silent(&coverage.silent);
        if coverage.profiles() == 0 {
            return self.nothing_found(range);
        }
        let has_start = range.from > Nanos(i64::MIN);
        if has_start && coverage.empty_hours > 0 {
            let Coverage { empty_hours, hours, .. } = coverage;
            let which = if range.to < Nanos(i64::MAX) { "the period" } else { "the time since then" };
            self.warn(format!("{empty_hours} of {hours} hours of {which} have no profiles"));
        }
    }

    /// Notes other servers that did not tell what they have.
    pub(super) fn silent(&self, servers: &[String]) {
        for why in servers {
            self.warn(format!("profiles that are not archived may be missing: {why}"));
        }
    }

    /// Notes files that cannot be read.
    pub(super) fn unreadable(&self, files: &[String]) {
        for why in files {
            self.warn(format!("profiles are missing: a file cannot be read: {why}"));
        }
    }
}

/// A value as text, as it would be printed.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// The beginning of a text, for errors.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Nanoseconds since 1970 of a moment, with a zone or in UTC.
fn moment_of(text: &str) -> Option<i64> {
    if let Ok(moment) = text.trim().parse::<jiff::Timestamp>() {
        return i64::try_from(moment.as_nanosecond()).ok();
    }
    parse_moment(text).and_then(|(micros, _)| micros.checked_mul(1000))
}
