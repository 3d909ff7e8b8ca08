//! The words of the command line, parsed like Perl's `Getopt::Long`.
//!
//! One or two dashes, `--opt=x` or `--opt x`, names in any case, abbreviated as long as they are unique, `--noopt` and
//! `--no-opt` for switches, options anywhere up to `--`.

use std::collections::BTreeSet;

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// None, and it can be negated.
    Switch,
    /// Nothing.
    Flag,
    Text,
    Integer,
    Number,
}

/// Every option.
const OPTIONS: &[(&str, Takes)] = &[
    ("help", Takes::Switch),
    ("version", Takes::Switch),
    ("cum", Takes::Switch),
    ("base", Takes::Text),
    ("seconds", Takes::Integer),
    ("add_lib", Takes::Text),
    ("lib_prefix", Takes::Text),
    ("functions", Takes::Switch),
    ("lines", Takes::Switch),
    ("addresses", Takes::Switch),
    ("files", Takes::Switch),
    ("text", Takes::Switch),
    ("callgrind", Takes::Switch),
    ("list", Takes::Text),
    ("disasm", Takes::Text),
    ("symbols", Takes::Switch),
    ("gv", Takes::Switch),
    ("evince", Takes::Switch),
    ("web", Takes::Switch),
    ("dot", Takes::Switch),
    ("ps", Takes::Switch),
    ("pdf", Takes::Switch),
    ("svg", Takes::Switch),
    ("gif", Takes::Switch),
    ("raw", Takes::Switch),
    ("collapsed", Takes::Switch),
    ("interactive", Takes::Switch),
    ("nodecount", Takes::Integer),
    ("nodefraction", Takes::Number),
    ("edgefraction", Takes::Number),
    ("maxdegree", Takes::Integer),
    ("focus", Takes::Text),
    ("thread", Takes::Text),
    ("ignore", Takes::Text),
    ("scale", Takes::Integer),
    ("heapcheck", Takes::Flag),
    ("retain", Takes::Text),
    ("exclude", Takes::Text),
    ("inuse_space", Takes::Switch),
    ("inuse_objects", Takes::Switch),
    ("alloc_space", Takes::Switch),
    ("alloc_objects", Takes::Switch),
    ("show_bytes", Takes::Switch),
    ("drop_negative", Takes::Switch),
    ("total_delay", Takes::Switch),
    ("contentions", Takes::Switch),
    ("mean_delay", Takes::Switch),
    ("tools", Takes::Text),
    ("test", Takes::Switch),
    ("debug", Takes::Switch),
    ("debug-syms-by-id", Takes::Switch),
    ("test_stride", Takes::Integer),
];

/// The command line by options and other words.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// Options with their values, in order; a switch is `1` or `0`.
    values: Vec<(&'static str, String)>,
    /// Everything else, in order.
    pub words: Vec<String>,
}

impl Typed {
    /// Reads the words.
    ///
    /// # Errors
    /// A line for each word that cannot be read.
    pub fn parse(words: Vec<String>) -> Result<Typed, Vec<String>> {
        let (mut typed, mut wrong) = (Typed::default(), Vec::new());
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            if word == "--" {
                typed.words.extend(words.by_ref());
                break;
            }
            let option = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).filter(|option| !option.is_empty());
            let Some(option) = option else {
                typed.words.push(word);
                continue;
            };
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (option, None),
            };
            match find(name).and_then(|found| typed.take(found, name, value, &mut words)) {
                Ok(()) => {}
                Err(message) => wrong.push(message),
            }
        }
        if wrong.is_empty() { Ok(typed) } else { Err(wrong) }
    }

    /// The last value of an option.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().rev().find(|(own, _)| *own == name).map(|(_, value)| value.as_str())
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value != "0")
    }
}

/// An option, and whether it is negated.
type Found = (&'static str, Takes, bool);

fn find(typed: &str) -> Result<Found, String> {
    let typed_lower = typed.to_ascii_lowercase();
    let mut begun: Vec<Found> = Vec::new();
    for (name, takes) in OPTIONS {
        let mut spellings = vec![((*name).to_owned(), false)];
        if *takes == Takes::Switch {
            spellings.extend([(format!("no{name}"), true), (format!("no-{name}"), true)]);
        }
        for (spelling, is_negated) in spellings {
            if spelling == typed_lower {
                return Ok((name, *takes, is_negated));
            }
            if spelling.starts_with(&typed_lower) {
                begun.push((name, *takes, is_negated));
            }
        }
    }
    let meant: BTreeSet<String> = begun
        .iter()
        .map(|(name, _, is_negated)| if *is_negated { format!("no{name}") } else { (*name).to_owned() })
        .collect();
    match begun.first() {
        None => Err(format!("Unknown option: {typed}")),
        Some(only) if meant.len() == 1 => Ok(*only),
        Some(_) => Err(format!("Option {typed} is ambiguous ({})", meant.into_iter().collect::<Vec<_>>().join(", "))),
    }
}

impl Typed {
    fn take(
        &mut self,
        (name, takes, is_negated): Found,
        typed: &str,
        value: Option<String>,
        words: &mut std::iter::Peekable<std::vec::IntoIter<String>>,
    ) -> Result<(), String> {
        if matches!(takes, Takes::Switch | Takes::Flag) {
            if value.is_some() {
                return Err(format!("Option {typed} does not take an argument"));
            }
            self.values.push((name, if is_negated { "0" } else { "1" }.into()));
            return Ok(());
        }
        let fits = |value: &String| match takes {
            Takes::Integer => value.parse::<i64>().is_ok(),
            Takes::Number => is_number(value),
            _ => true,
        };
        let missing = || format!("Option {typed} requires an argument");
        let given = match value {
            Some(value) if value.is_empty() => return Err(missing()),
            Some(value) => value,
            None => words.next().ok_or_else(missing)?,
        };
        if !fits(&given) {
            let expected = if takes == Takes::Integer { "number" } else { "real number" };
            return Err(format!("Value \"{given}\" invalid for option {typed} ({expected} expected)"));
        }
        self.values.push((name, given));
        Ok(())
    }
}

/// Digits with a point and an exponent at most; no `inf`, no `nan`.
fn is_number(value: &str) -> bool {
    value.bytes().all(|letter| letter.is_ascii_digit() || b"+-.eE".contains(&letter)) && value.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Result<Typed, Vec<String>> {
        Typed::parse(line.split_whitespace().map(str::to_owned).collect())
    }

    #[test]
    fn options_in_all_their_forms() {
        let typed = typed("-text --Nodecount=5 prog --foc main -nodef .5 heap --nocum --no-text -- --dot").unwrap();
        assert_eq!(typed.words, ["prog", "heap", "--dot"]);
        assert_eq!(typed.value("nodecount"), Some("5"));
        assert_eq!(typed.value("focus"), Some("main"));
        assert_eq!(typed.value("nodefraction"), Some(".5"));
        assert!(!typed.is_on("cum") && !typed.is_on("text"));
    }

    #[test]
    fn mistakes_are_reported() {
        for (line, expected) in [
            ("--bogus", "Unknown option: bogus"),
            ("--in", "Option in is ambiguous (interactive, inuse_objects, inuse_space)"),
            ("--focus=", "Option focus requires an argument"),
            ("--base", "Option base requires an argument"),
            ("--text=1", "Option text does not take an argument"),
            ("--nodecount=x", "Value \"x\" invalid for option nodecount (number expected)"),
            ("--nodefraction nan", "Value \"nan\" invalid for option nodefraction (real number expected)"),
        ] {
            assert_eq!(typed(line).unwrap_err(), [expected], "{line}");
        }
    }
}
