//! Rules that choose how processes are profiled.

use procprof_host::Membership;
use procprof_server::config::value::{Value, text};

use super::dumps::DumpFolder;

/// A text with `*` for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(Vec<String>);

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self(text.split('*').map(str::to_owned).collect())
    }

    pub(super) fn from_value(value: &Value) -> Result<Self, String> {
        text(value).map(|text| Self::new(&text))
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = &*self.0 else { return self.0.iter().all(|only| only == text) };
        let Some(mut rest) = text.strip_prefix(&**first) else { return false };
        for part in middle {
            match rest.find(&**part) {
                Some(place) => rest = &rest[place + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(&**last)
    }
}

/// How a process is profiled; a service whose processes differ, by the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Treatment {
    /// Not at all.
    Exclude,
    /// As part of the host.
    Host,
    /// As its own service above the least CPU time.
    #[default]
    Profile,
    /// As its own service.
    Always,
}

/// What records CPU time of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Engine {
    /// Perf events.
    #[default]
    Perf,
    /// The Flight Recorder of a JVM, which records allocations and lock waits, too; perf events for all else.
    Jvm,
}

/// Conditions, all of which must hold, and the treatment.
#[derive(Clone, Debug, Default)]
pub(super) struct Rule {
    pub(super) service: Option<Pattern>,
    pub(super) process: Option<Pattern>,
    pub(super) unit: Option<Pattern>,
    pub(super) cgroup: Option<Pattern>,
    pub(super) container: Option<Pattern>,
    pub(super) labels: Vec<(String, Pattern)>,
    pub(super) treatment: Treatment,
    pub(super) off_cpu: bool,
    pub(super) engine: Engine,
    /// Whether a JVM is asked for the names of its compiled methods.
    pub(super) jvm_names: bool,
    /// Folders of files that the process writes by itself.
    pub(super) dumps: Vec<DumpFolder>,
}

impl Rule {
    /// Whether it has no conditions.
    pub(super) fn matches_all(&self) -> bool {
        let Self { service, process, unit, cgroup, container, labels, .. } = self;
        [service, process, unit, cgroup, container].into_iter().all(Option::is_none) && labels.is_empty()
    }

    /// Whether it applies to a process of that name.
    pub(super) fn matches(&self, process: &str, membership: &Membership) -> bool {
        let labels = membership.labels();
        let has = |pattern: &Option<Pattern>, text: Option<&str>| {
            pattern.as_ref().is_none_or(|pattern| text.is_some_and(|text| pattern.matches(text)))
        };
        let label = |key: &str| labels.get(key).map(String::as_str);
        has(&self.service, Some(&membership.service(process)))
            && has(&self.process, Some(process))
            && has(&self.unit, label("unit"))
            && has(&self.cgroup, Some(&membership.cgroup))
            && has(&self.container, label("container"))
            && self.labels.iter().all(|(key, pattern)| label(key).is_some_and(|text| pattern.matches(text)))
    }
}

#[cfg(test)]
mod tests {
    use procprof_process::Workload;

    use super::*;

    #[test]
    fn patterns_match_as_those_of_shells() {
        for (pattern, text, expected) in [
            ("mysqld", "mysqld", true),
            ("mysqld", "mysqld2", false),
            ("mysql*", "mysqld", true),
            ("*", "", true),
            ("*.service", "a.service", true),
            ("*a*b*", "xaxbx", true),
            ("*a*b", "xbxa", false),
            ("ab*ba", "aba", false),
            ("a*a", "a", false),
            ("", "a", false),
        ] {
            assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn all_conditions_of_a_rule_must_hold() {
        let workload = Workload::from_path("/system.slice/mysql.service");
        let cgroup = "/system.slice/mysql.service".to_owned();
        let membership = Membership { cgroup, workload, ..Membership::default() };
        let pattern = |text: &str| Some(Pattern::new(text));
        for (rule, expected) in [
            (Rule::default(), true),
            (Rule { unit: pattern("mysql*"), ..Rule::default() }, true),
            (Rule { unit: pattern("mysql*"), process: pattern("x"), ..Rule::default() }, false),
            (Rule { container: pattern("*"), ..Rule::default() }, false),
            (Rule { cgroup: pattern("/system.slice/*"), service: pattern("mysql.service"), ..Rule::default() }, true),
            (Rule { labels: vec![("unit".into(), Pattern::new("mysql.service"))], ..Rule::default() }, true),
            (Rule { labels: vec![("pod".into(), Pattern::new("*"))], ..Rule::default() }, false),
        ] {
            assert_eq!(rule.matches("mysqld", &membership), expected, "{rule:?}");
        }
    }
}
