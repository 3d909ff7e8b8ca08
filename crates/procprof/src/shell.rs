//! Reads the lines of an interactive session: with history and completion where a person types, as they come elsewhere.

mod words;

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustyline::config::{BellStyle, CompletionType};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

pub(crate) use words::Words;

/// Lines that the arrow keys bring back.
const HISTORY_MAX: usize = 1000;
/// Longest line, in bytes.
const LINE_MAX: usize = 64 << 10;

/// The next line of a session.
pub(crate) struct Lines {
    prompt: String,
    input: Input,
}

enum Input {
    Terminal { editor: Box<Editor<Words, FileHistory>>, history: Option<PathBuf> },
    Pipe,
}

impl Lines {
    /// Reads standard input. On a terminal the prompt is printed there, and the lines are kept as `history-NAME` with
    /// what else is kept between runs; else the prompt goes to standard error.
    pub(crate) fn new(name: &str, words: Words) -> Result<Lines> {
        let prompt = format!("({name}) ");
        if !std::io::stdin().is_terminal() {
            return Ok(Lines { prompt, input: Input::Pipe });
        }
        let config = Config::builder().max_history_size(HISTORY_MAX).context("set up the history")?;
        let config =
            config.completion_type(CompletionType::List).bell_style(BellStyle::None).auto_add_history(true).build();
        let history = FileHistory::with_config(&config);
        let mut editor = Editor::with_history(config, history).context("set up the terminal")?;
        editor.set_helper(Some(words));
        let history = history_file(name).filter(|path| is_usable(editor.load_history(path), path));
        Ok(Lines { prompt, input: Input::Terminal { editor: Box::new(editor), history } })
    }

    /// The next line without its end; `None` at the end of input. A line that is given up by ^C is empty.
    pub(crate) fn next(&mut self) -> Result<Option<String>> {
        match &mut self.input {
            Input::Terminal { editor, history } => match editor.readline(&self.prompt) {
                Ok(line) => {
                    // At once, as a session may end in any way. A failure is reported once.
                    *history = history.take().filter(|path| is_usable(editor.append_history(path), path));
                    Ok(Some(line))
                }
                Err(ReadlineError::Interrupted) => Ok(Some(String::new())),
                Err(ReadlineError::Eof) => Ok(None),
                Err(error) => Err(error).context("read a line"),
            },
            Input::Pipe => {
                eprint!("{}", self.prompt);
                let _ = std::io::stderr().flush();
                piped_line()
            }
        }
    }
}

/// The file that keeps lines from one session to the next; `None` if there is no place for it.
fn history_file(name: &str) -> Option<PathBuf> {
    let folder = crate::debuginfod::cache_dir()?;
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join(format!("history-{name}")))
}

/// Whether the history could be read or written; a file that is not there yet is made later.
fn is_usable(done: rustyline::Result<()>, path: &Path) -> bool {
    match done {
        Err(ReadlineError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => {
            eprintln!("procprof: {}: {error}: this session's lines are not kept", path.display());
            false
        }
        Ok(()) => true,
    }
}

fn piped_line() -> Result<Option<String>> {
    use std::io::Read;
    let mut line = Vec::new();
    let input = std::io::stdin().lock();
    if input.take(LINE_MAX as u64).read_until(b'\n', &mut line).context("read a line")? == 0 {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned()))
}

/// The destination of a command's output.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Sink {
    /// To standard output.
    #[default]
    Screen,
    /// Into a file: `>FILE`.
    File(String),
    /// To the standard input of a command of the shell: `| COMMAND`.
    Command(String),
}

impl Sink {
    /// Takes `>FILE` or `| COMMAND` off the end of a line.
    pub(crate) fn split(line: &str) -> Result<(&str, Sink), &'static str> {
        if let Some((before, command)) = line.split_once(" |") {
            let command = command.trim();
            return if command.is_empty() {
                Err("a command is missing after |")
            } else {
                Ok((before, Sink::Command(command.to_owned())))
            };
        }
        if let Some(at) = line.find(" >") {
            let file = line[at + 2..].trim();
            return if file.is_empty() {
                Err("unexpected end of line after >")
            } else {
                Ok((&line[..at], Sink::File(file.to_owned())))
            };
        }
        Ok((line, Sink::Screen))
    }

    /// Hands the bytes over.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<()> {
        match self {
            Sink::Screen => {
                let mut out = std::io::stdout();
                out.write_all(bytes).and_then(|()| out.flush()).context("write to standard output")
            }
            Sink::File(path) => {
                eprintln!("Generating report in {path}");
                procprof_files::write_over(std::path::Path::new(path), bytes).with_context(|| format!("write {path}"))
            }
            Sink::Command(command) => pipe(command, bytes),
        }
    }
}

fn pipe(command: &str, bytes: &[u8]) -> Result<()> {
    let mut shell = std::process::Command::new("/bin/sh");
    let mut child = shell.args(["-c", command]).stdin(std::process::Stdio::piped()).spawn().context("start /bin/sh")?;
    if let Some(mut input) = child.stdin.take() {
        // A reader that has seen enough closes its end; that is no failure.
        let _ = input.write_all(bytes);
    }
    child.wait().with_context(|| format!("wait for {command}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_goes_to_the_sink_of_the_line() {
        assert_eq!(Sink::split("top 5"), Ok(("top 5", Sink::Screen)));
        assert_eq!(Sink::split("dot main >a b.dot"), Ok(("dot main", Sink::File("a b.dot".to_owned()))));
        assert_eq!(Sink::split("dot > x.dot"), Ok(("dot", Sink::File("x.dot".to_owned()))));
        assert_eq!(Sink::split("top | head -3 >y"), Ok(("top", Sink::Command("head -3 >y".to_owned()))));
        assert_eq!(Sink::split("peek a|b"), Ok(("peek a|b", Sink::Screen)));
        assert!(Sink::split("dot >").is_err() && Sink::split("dot |").is_err());
    }
}
