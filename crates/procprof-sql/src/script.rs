//! The scripts of `ADMIN EXECUTE`: a closed set of calls, parsed and never interpreted.
//!
//! ```text
//! script = print (";"? print)* ";"?
//! print  = System.print( HeapProf.getInstance().NAME( [text (, text)*] ) )        blanks anywhere between the words; text in " or '
//! ```

use crate::mysql::{SqlError, SqlErrorKind};

/// The output of a call about a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drawing {
    Dot,
    Svg,
    Flamegraph,
    Collapsed,
    Text,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Switches the heap profiler.
    Enable(bool),
    HasEnable,
    /// Dumps the heap, and returns the name of the dump.
    Snapshot,
    /// Draws a dump by its name.
    ToDot(String),
    /// Dumps and draws.
    Dump(Drawing),
    /// Draws what a second dump has more than a first.
    DiffDot(String, String),
}

/// Makes a call, with the texts it takes.
enum Make {
    Nothing(fn() -> Call),
    Dump(fn(String) -> Call),
    Dumps(fn(String, String) -> Call),
}

/// The methods of `HeapProf`.
const METHODS: &[(&str, Make)] = &[
    ("enable_prof", Make::Nothing(|| Call::Enable(true))),
    ("disable_prof", Make::Nothing(|| Call::Enable(false))),
    ("has_enable", Make::Nothing(|| Call::HasEnable)),
    ("snapshot", Make::Nothing(|| Call::Snapshot)),
    ("to_dot_format", Make::Dump(Call::ToDot)),
    ("dump_dot_snapshot", Make::Nothing(|| Call::Dump(Drawing::Dot))),
    ("dump_svg_snapshot", Make::Nothing(|| Call::Dump(Drawing::Svg))),
    ("dump_flamegraph_snapshot", Make::Nothing(|| Call::Dump(Drawing::Flamegraph))),
    ("dump_collapsed_snapshot", Make::Nothing(|| Call::Dump(Drawing::Collapsed))),
    ("dump_text_snapshot", Make::Nothing(|| Call::Dump(Drawing::Text))),
    ("diff_dot", Make::Dumps(Call::DiffDot)),
];

/// Longest script, in bytes.
const SCRIPT_MAX: usize = 64 << 10;
/// Calls of one script.
const CALLS_MAX: usize = 16;

/// Parses a script.
///
/// # Errors
/// [`SqlErrorKind::Syntax`] with the byte where something else was expected.
pub(super) fn parse(script: &str) -> Result<Vec<Call>, SqlError> {
    if script.len() > SCRIPT_MAX {
        return Err(SqlError::new(
            SqlErrorKind::Limit,
            format!("a script of {} bytes: at most {SCRIPT_MAX} are taken", script.len()),
        ));
    }
    let mut parser = Parser { script, at: 0 };
    let mut calls = Vec::new();
    loop {
        while parser.takes(";") {}
        if parser.is_done() {
            break;
        }
        if calls.len() == CALLS_MAX {
            return Err(SqlError::new(SqlErrorKind::Limit, format!("a script has at most {CALLS_MAX} calls")));
        }
        calls.push(parser.print()?);
    }
    match calls.is_empty() {
        true => Err(parser.expected("System.print(HeapProf.getInstance().METHOD())")),
        false => Ok(calls),
    }
}

struct Parser<'a> {
    script: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn skip(&mut self) {
        let rest = &self.script[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn is_done(&mut self) -> bool {
        self.skip();
        self.at == self.script.len()
    }

    fn expected(&self, what: &str) -> SqlError {
        let rest: String = self.script[self.at..].chars().take(30).collect();
        let near =
            if rest.is_empty() { "at its end".to_owned() } else { format!("near '{rest}' (byte {})", self.at + 1) };
        SqlError::new(
            SqlErrorKind::Syntax,
            format!("script: expected {what} {near}; scripts are calls of HeapProf only"),
        )
    }

    fn takes(&mut self, word: &str) -> bool {
        self.skip();
        let here = self.script[self.at..].starts_with(word);
        self.at += if here { word.len() } else { 0 };
        here
    }

    fn expect(&mut self, words: &[&str]) -> Result<(), SqlError> {
        words.iter().try_for_each(|word| if self.takes(word) { Ok(()) } else { Err(self.expected(word)) })
    }

    fn name(&mut self) -> &'a str {
        self.skip();
        let rest = &self.script[self.at..];
        let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        self.at += length;
        &rest[..length]
    }

    fn print(&mut self) -> Result<Call, SqlError> {
        self.expect(&["System", ".", "print", "(", "HeapProf", ".", "getInstance", "(", ")", "."])?;
        self.skip();
        let start = self.at;
        let name = self.name();
        let Some((_, make)) = METHODS.iter().find(|(method, _)| *method == name) else {
            self.at = start;
            let methods: Vec<&str> = METHODS.iter().map(|(method, _)| *method).collect();
            return Err(self.expected(&format!("one of {}", methods.join(", "))));
        };
        self.expect(&["("])?;
        let call = match make {
            Make::Nothing(call) => call(),
            Make::Dump(call) => call(self.text()?),
            Make::Dumps(call) => {
                let first = self.text()?;
                self.expect(&[","])?;
                call(first, self.text()?)
            }
        };
        self.expect(&[")", ")"])?;
        Ok(call)
    }

    /// A text in quotes, without escapes: names of dumps need none.
    fn text(&mut self) -> Result<String, SqlError> {
        self.skip();
        let rest = &self.script[self.at..];
        let quote = rest.chars().next().filter(|quote| ['"', '\''].contains(quote));
        let inner = quote.and_then(|quote| rest[1..].split_once(quote)).map(|(inner, _)| inner);
        let inner = inner.ok_or_else(|| self.expected("the name of a dump in quotes"))?;
        self.at += inner.len() + 2;
        Ok(inner.to_owned())
    }
}
