//! Functions in rows: the top table, and each between its callers and callees.

pub(crate) mod top;
pub(crate) mod tree;
