//! Names that clients ask for: character sets, collations, the storage engine.

/// Character sets: name, default collation, description, bytes of a character at most.
pub(crate) const CHARSETS: &[(&str, &str, &str, i64)] = &[
    ("ascii", "ascii_general_ci", "US ASCII", 1),
    ("binary", "binary", "Binary pseudo charset", 1),
    ("latin1", "latin1_swedish_ci", "cp1252 West European", 1),
    ("utf8mb3", "utf8mb3_general_ci", "UTF-8 Unicode", 3),
    ("utf8mb4", "utf8mb4_general_ci", "UTF-8 Unicode", 4),
];

/// Collations: name, character set, number.
pub(crate) const COLLATIONS: &[(&str, &str, i64)] = &[
    ("ascii_general_ci", "ascii", 11),
    ("binary", "binary", 63),
    ("latin1_swedish_ci", "latin1", 8),
    ("utf8mb3_bin", "utf8mb3", 83),
    ("utf8mb3_general_ci", "utf8mb3", 33),
    ("utf8mb3_unicode_ci", "utf8mb3", 192),
    ("utf8mb4_0900_ai_ci", "utf8mb4", 255),
    ("utf8mb4_0900_bin", "utf8mb4", 309),
    ("utf8mb4_bin", "utf8mb4", 46),
    ("utf8mb4_general_ci", "utf8mb4", 45),
    ("utf8mb4_unicode_ci", "utf8mb4", 224),
];

/// Whether a collation is its character set's default.
pub(crate) fn is_default(collation: &str) -> bool {
    CHARSETS.iter().any(|(_, default, ..)| *default == collation)
}

/// The one engine there is: name, support, comment, transactions, XA, savepoints.
pub(crate) const ENGINE: [&str; 6] = ["procprof", "DEFAULT", "stored profiles, read-only", "NO", "NO", "NO"];
