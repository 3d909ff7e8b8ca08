//! The environment variables that configure a jemalloc, as this process was started with them.
//!
//! The name is the prefix the library was built with, in capitals, and `MALLOC_CONF`; jemalloc reads its own and none
//! of the others. The usual mistake is the right setting in the wrong variable, and answers point it out.

/// The names in use: jemalloc as it comes, StarRocks' (prefix `je`), tikv-jemallocator's (prefix `_rjem_`).
const VARIABLES: [&str; 3] = ["MALLOC_CONF", "JEMALLOC_CONF", "_RJEM_MALLOC_CONF"];

/// Those that are set, with their values. What the process has set itself since its start is not in it: jemalloc did
/// not see it either.
pub(crate) fn found() -> Vec<(&'static str, String)> {
    found_in(&std::fs::read("/proc/self/environ").unwrap_or_default())
}

fn found_in(environment: &[u8]) -> Vec<(&'static str, String)> {
    let value = |name: &str| {
        environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    let text = |name: &'static str| value(name).map(|value| (name, String::from_utf8_lossy(value).into_owned()));
    VARIABLES.into_iter().filter_map(text).collect()
}

/// The current settings, in brackets, for a process whose jemalloc reads `variable`; empty when there are none.
pub(super) fn hint(variable: &str) -> String {
    hint_of(variable, &found())
}

fn hint_of(variable: &str, found: &[(&str, String)]) -> String {
    if let Some((_, value)) = found.iter().find(|(name, _)| *name == variable) {
        return format!(" (now {variable}={value})");
    }
    let others: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    match others.as_slice() {
        [] => String::new(),
        [one] => format!(" ({one} is set, but its jemalloc does not read that)"),
        several => format!(" ({} are set, but its jemalloc does not read them)", several.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_spellings_are_distinguished() {
        let found = found_in(b"A=1\0MALLOC_CONF=prof:true\0XJEMALLOC_CONF=x\0_RJEM_MALLOC_CONF=\0");
        assert_eq!(found, [("MALLOC_CONF", "prof:true".to_owned()), ("_RJEM_MALLOC_CONF", String::new())]);
        assert_eq!(hint_of("MALLOC_CONF", &found), " (now MALLOC_CONF=prof:true)");
        let hint = " (MALLOC_CONF and _RJEM_MALLOC_CONF are set, but its jemalloc does not read them)";
        assert_eq!(hint_of("JEMALLOC_CONF", &found), hint);
        assert_eq!(hint_of("MALLOC_CONF", &[]), "");
    }
}
