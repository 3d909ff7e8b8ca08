//! What reads a statement, by itself, for the fuzzer: nothing here may panic, whatever it is.

use super::script;
use super::select::{Asker, rewritten};
use super::statement::{Statement, parse};
use super::variables::like;

/// Reads a statement; one with a script reads that, and a `SELECT` is put into SQLite's words.
pub fn statement(text: &str) {
    match parse(text) {
        Ok(Statement::AdminExecute { script, .. }) => drop(script::parse(&script)),
        Ok(Statement::Select) => {
            let asker = Asker { user: "ann@127.0.0.1".to_owned(), connection: 1, database: "procprof", now: jiff::Timestamp::UNIX_EPOCH };
            drop(rewritten(text, &asker));
        }
        Ok(Statement::Show(show)) => drop(show.like.map(|pattern| like("character_set_client", &pattern))),
        _ => {}
    }
}

/// Reads a script as `ADMIN EXECUTE` has it.
pub fn script(text: &str) {
    // Refused or not, it has been read.
    let _ = script::parse(text);
}
