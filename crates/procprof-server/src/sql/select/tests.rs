//! Statements as clients write them.
