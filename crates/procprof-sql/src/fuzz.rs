//! The readers of clients' bytes and statements, for the fuzz targets: nothing here may panic on any input. No part of
//! the interface.

use super::engine;
use super::like::like;
use super::script;
use super::set::assign;
use super::statement::{Statement, parse};
use super::variables::Variables;

pub use super::mysql::fuzz::{command, connection, greeting};

/// Reads a statement; one with a script reads that, and a `SELECT` becomes a tree.
pub fn statement(text: &str) {
    match parse(text) {
        Ok(Statement::AdminExecute { script, .. }) => drop(script::parse(&script)),
        Ok(Statement::Select) => {
            engine::read(text);
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
