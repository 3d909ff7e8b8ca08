//! The limits that keep a hostile name from taking time or memory; a name beyond one of them stays mangled.

/// Longest mangled name that is tried, bytes.
pub const MANGLED_BYTES_MAX: usize = 64 << 10;

/// Longest text of a name, bytes; substitutions make a short mangled name a very long one.
pub const DEMANGLED_BYTES_MAX: usize = 256 << 10;

/// Deepest nesting of productions while parsing. Of 1.4 million names of Debian's libraries 35 need more than 60, none
/// more than 100.
pub const DEPTH_MAX: u32 = 256;

/// Deepest nesting of nodes while printing, which substitutions make deeper than the text.
pub const PRINT_DEPTH_MAX: u32 = 1024;

/// Most nodes that are visited while printing: parts without text, such as empty packs, count here.
pub const STEPS_MAX: u32 = 1 << 18;

/// Most functions whose template arguments are kept while printing as binutils do.
pub const SCOPES_MAX: usize = 4096;
