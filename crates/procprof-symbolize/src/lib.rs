//! Addresses to functions, files, lines and inlined frames.
