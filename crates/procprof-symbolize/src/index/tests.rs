//! Laws of the index.
