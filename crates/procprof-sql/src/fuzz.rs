//! The readers of clients' bytes and statements, for the fuzz targets: nothing here may panic on any input. No part of
//! the interface.

use super::like::like;
use super::script;
use super::select::{SessionInfo, rewritten};
use super::set::assign;
use super::statement::{Statement, parse};
use super::variables::Variables;

pub use super::mysql::fuzz::{command, connection, greeting};

/// Reads a statement; one with a script reads that, and a `SELECT` is put into SQLite's words.
pub fn statement(text: &str) {
    match parse(text) {
        Ok(Statement::AdminExecute { script, .. }) => drop(script::parse(&script)),
        Ok(Statement::Select) => {
            let variables = Variables::default();
            let user = "ann@127.0.0.1".to_owned();
            let session = SessionInfo {
                user,
                connection: 1,
                database: "procprof",
                variables: &variables,
                now: jiff::Timestamp::UNIX_EPOCH,
            };
            drop(rewritten(text, &session));
        }
        Ok(Statement::Set(assignments)) => {
            let mut variables = Variables::default();
            // Refused or not, they have been read.
            assignments.into_iter().for_each(|assignment| drop(assign(&mut variables, assignment)));
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
