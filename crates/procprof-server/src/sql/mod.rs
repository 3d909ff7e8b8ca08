//! Statements: what a SQL client may ask of the server, and who answers it. Knows no packets.
//!
//! | file | what |
//! |---|---|
//! | `token` | a statement's words, numbers, strings and variables |
//! | `statement` | the statements there are, parsed |
//! | `session` | one client: its database, warnings, and the audit line of each statement |
//! | `running` | connections and their statements, for `SHOW PROCESSLIST` and `KILL` |
//! | `variables` | `@@…` and `SHOW VARIABLES` |
//! | `collect` | `COLLECT` |
//! | `show` | the `SHOW` statements |

mod collect;
mod running;
mod session;
mod show;
mod statement;
#[cfg(test)]
mod tests;
mod token;
mod variables;

pub(crate) use session::SqlService;

/// The one database there is.
pub(crate) const DATABASE: &str = "procprof";
