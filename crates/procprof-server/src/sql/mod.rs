//! Statements: what a SQL client may ask of the server, and who answers it. Knows no packets.
//!
//! | file | what |
//! |---|---|
//! | `token` | a statement's words, numbers, strings and variables |
//! | `statement` | the statements there are, parsed |
//! | `session` | one client: its database, warnings, and the audit line of each statement |
//! | `running` | connections and their statements, for `SHOW PROCESSLIST` and `KILL` |
//! | `variables` | `@@…` and `SHOW VARIABLES` |
//! | `admin`, `script` | `ADMIN EXECUTE`: its nodes and rows, its script |
//! | `heap`, `drawing` | what scripts do with the heap of a node, and its dumps as graphs |
//! | `fe` | frontends of StarRocks clusters, asked in turn |
//! | `discover` | the nodes those frontends name |
//! | `collect` | `COLLECT` |
//! | `show`, `describe` | the `SHOW` statements, `DESCRIBE` |
//! | `select` | `SELECT`, and the tables there are |

mod admin;
mod collect;
mod describe;
pub(crate) mod discover;
mod drawing;
pub(crate) mod fe;
pub(crate) mod fuzz;
mod heap;
mod running;
mod script;
mod select;
mod session;
mod show;
mod statement;
#[cfg(test)]
mod tests;
mod token;
mod variables;

pub use drawing::JeprofTask;
pub(crate) use session::SqlService;

/// The one database there is.
pub(crate) const DATABASE: &str = "procprof";
