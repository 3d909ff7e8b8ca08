//! Queries to a store and their results: lists of profiles by pages, rows, and usage.

mod cursor;
mod filter;
mod functions;
mod rows;
mod usage;

pub use cursor::{Cursor, PAGE_MAX, Page, PageRequest};
pub use filter::Filter;
pub use functions::{FunctionColumn, FunctionNames, FunctionQuery, NamePredicate, Uncovered};
pub use rows::{Column, Order, RowBatch, RowQuery, Texts, Values};
pub use usage::{NodeUsage, Usage};
