//! What reads bytes from SQL clients, for the fuzz targets; no part of the interface.

pub use crate::mysql::fuzz::{command, connection, greeting};
pub use crate::sql::fuzz::{script, statement};
