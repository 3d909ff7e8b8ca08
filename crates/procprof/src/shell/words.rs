//! Completion by the tabulator: commands and options at the start of a line, functions after it.

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

/// Most functions that are listed at once.
const FUNCTIONS_MAX: usize = 200;

/// The words of a session.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// The words at the start of a line.
    pub(crate) commands: Vec<String>,
    /// The words after it; any part of a name is enough.
    pub(crate) functions: Vec<String>,
}

impl Words {
    /// The start of the word at the end of `line`, and its completions.
    fn candidates(&self, line: &str) -> (usize, Vec<String>) {
        let start = line.rfind(' ').map_or(0, |space| space + 1);
        let is_first = line[..start].trim().is_empty() || line[..start].trim() == "help";
        if is_first {
            let begun = self.commands.iter().filter(|command| command.starts_with(&line[start..]));
            return (start, begun.cloned().collect());
        }
        // `-name` ignores, so the dash stays.
        let start = if line[start..].starts_with('-') { start + 1 } else { start };
        let part = &line[start..];
        if part.is_empty() {
            return (start, Vec::new());
        }
        let found = self.functions.iter().filter(|function| function.contains(part)).take(FUNCTIONS_MAX);
        (start, found.map(|function| pattern(function)).collect())
    }
}

/// A regular expression for a name: what would end the word or mean something else is any character.
fn pattern(function: &str) -> String {
    function.chars().map(|c| if c.is_whitespace() || "()[]{}*+?|^$\\><".contains(c) { '.' } else { c }).collect()
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.candidates(line.get(..position).unwrap_or(line)))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}
impl Validator for Words {}
impl Helper for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_first_then_functions() {
        let words = Words {
            commands: vec!["top".to_owned(), "topproto".to_owned(), "tree".to_owned()],
            functions: vec!["main.spin".to_owned(), "Vec<T>::push (x)".to_owned()],
        };
        assert_eq!(words.candidates("to"), (0, vec!["top".to_owned(), "topproto".to_owned()]));
        assert_eq!(words.candidates("help tr"), (5, vec!["tree".to_owned()]));
        assert_eq!(words.candidates("peek spi"), (5, vec!["main.spin".to_owned()]));
        assert_eq!(words.candidates("top -push"), (5, vec!["Vec.T.::push..x.".to_owned()]));
        assert_eq!(words.candidates("peek ").1.len(), 0);
    }
}
