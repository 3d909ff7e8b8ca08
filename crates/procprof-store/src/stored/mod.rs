//! A stored file: its name, its metadata, and its entry in lists.

mod comments;
mod entry;
mod facts;
mod file_name;
mod foreign_page;
mod functions;
mod gzip_extra;
mod recording;

pub(crate) use comments::read as read_comments;
pub use entry::{Encoded, Entry, NewProfile, Summary, TopFunction, Total};
pub use facts::content_id;
pub(crate) use facts::{ContentHash, Facts};
pub use file_name::Format;
pub(crate) use file_name::{FileName, second_of};
pub use foreign_page::page;
pub(crate) use foreign_page::{check_archive, check_gzip, gunzip};
pub use functions::{FunctionTable, FunctionValues};
pub(crate) use gzip_extra::{body, compose, needed, read as read_extra};
pub(crate) use recording::check as check_recording;
