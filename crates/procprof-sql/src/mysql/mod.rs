//! The MySQL protocol, server side: packets, handshake, authentication, result sets. Statements are opaque text.
//!
//! Supported: protocol 4.1, text and prepared statements, TLS by `SSLRequest`, compression by zlib,
//! `mysql_native_password` and `caching_sha2_password`. Not supported: cursors, `LOCAL INFILE`, several statements in
//! one packet. Facts: MySQL's "Client/Server Protocol" reference
//! (<https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html>).
//!
//! [`Service`] is the interface to the rest: its implementation executes statements and never sees a packet. [`serve`]
//! runs the accept loop and enforces [`Limits`].
//!
//! | file | what |
//! |---|---|
//! | `packet` | bytes in a packet: integers, strings, their bounded reader |
//! | `wire` | packets on a stream: framing, sequence numbers, limits |
//! | `compress` | the stream of packets, deflated |
//! | `greeting` | the first two packets and their capabilities |
//! | `scramble` | the arithmetic of both authentication methods |
//! | `login` | logins |
//! | `command` | the commands of clients |
//! | `column`, `response` | result sets, OK and error packets |
//! | `prepared` | placeholders and their binary values |
//! | `connection`, `listen` | one client; all of them |

mod column;
mod command;
mod compress;
mod connection;
mod error;
pub(crate) mod fuzz;
mod greeting;
mod listen;
mod login;
mod packet;
mod prepared;
mod response;
mod scramble;
mod service;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use column::{Column, ColumnType, Value};
pub(crate) use connection::Limits;
pub(crate) use error::{SqlError, SqlErrorKind};
pub(crate) use listen::serve;
pub(crate) use service::{Accounts, Caller, Prepared, Rows, Service, Session, StatementResult, Transaction};
