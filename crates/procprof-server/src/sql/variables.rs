//! System variables: what clients ask for at connect, with values that hold here.

use super::DATABASE;

/// `sql_mode`: double quotes make strings, as in MySQL by default.
const MODE: &str = "";

/// Names and values, sorted by name; what a session sets stays without effect.
pub(super) const VARIABLES: &[(&str, &str)] = &[
    ("auto_increment_increment", "1"),
    ("autocommit", "1"),
    ("character_set_client", "utf8mb4"),
    ("character_set_connection", "utf8mb4"),
    ("character_set_database", "utf8mb4"),
    ("character_set_results", "utf8mb4"),
    ("character_set_server", "utf8mb4"),
    ("collation_connection", "utf8mb4_general_ci"),
    ("collation_database", "utf8mb4_general_ci"),
    ("collation_server", "utf8mb4_general_ci"),
    ("default_storage_engine", "procprof"),
    ("have_ssl", "YES"),
    ("init_connect", ""),
    ("interactive_timeout", "28800"),
    ("license", "Apache-2.0"),
    ("lower_case_table_names", "0"),
    ("max_allowed_packet", "16777216"),
    ("net_buffer_length", "16384"),
    ("net_read_timeout", "30"),
    ("net_write_timeout", "60"),
    ("performance_schema", "0"),
    ("protocol_version", "10"),
    ("query_cache_size", "0"),
    ("query_cache_type", "OFF"),
    ("session_track_schema", "1"),
    ("session_track_system_variables", ""),
    ("sql_auto_is_null", "0"),
    ("sql_mode", MODE),
    ("sql_select_limit", "18446744073709551615"),
    ("system_time_zone", "UTC"),
    ("time_zone", "UTC"),
    ("transaction_isolation", "REPEATABLE-READ"),
    ("transaction_read_only", "1"),
    ("tx_isolation", "REPEATABLE-READ"),
    ("tx_read_only", "1"),
    ("version", concat!("8.0.33-procprof-", env!("CARGO_PKG_VERSION"))),
    ("version_comment", concat!("procprof ", env!("CARGO_PKG_VERSION"))),
    ("version_compile_machine", std::env::consts::ARCH),
    ("version_compile_os", std::env::consts::OS),
    ("wait_timeout", "28800"),
];

/// The value of a variable, as written behind `@@`: with or without `session.` or `global.`.
pub(super) fn value(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let bare = ["session.", "global.", "local."].iter().find_map(|scope| name.strip_prefix(scope)).unwrap_or(&name);
    VARIABLES.iter().find(|(own, _)| *own == bare).map(|(_, value)| *value)
}

/// Whether a name is that of our database; clients may spell it in any case.
pub(super) fn is_database(name: &str) -> bool {
    name.eq_ignore_ascii_case(DATABASE) || name.eq_ignore_ascii_case("information_schema")
}

/// Whether a text matches a `LIKE` pattern: `%` any text, `_` any character, `\` takes the next as it is; letters in any case.
pub(super) fn like(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) = (text.to_lowercase().chars().collect(), pattern.to_lowercase().chars().collect());
    // The places in the pattern that the text so far may have reached: linear in both, whatever the pattern.
    let mut places = vec![false; pattern.len() + 1];
    places[0] = true;
    let skip = |places: &mut Vec<bool>| {
        for index in 0..pattern.len() {
            if places[index] && pattern[index] == '%' {
                places[index + 1] = true;
            }
        }
    };
    skip(&mut places);
    for character in text {
        let mut next = vec![false; pattern.len() + 1];
        for index in 0..pattern.len() {
            if !places[index] {
                continue;
            }
            match pattern[index] {
                '%' => next[index] = true,
                '_' => next[index + 1] = true,
                '\\' if pattern.get(index + 1).is_some() => {
                    if pattern[index + 1] == character {
                        next[index + 2] = true;
                    }
                }
                own => next[index + 1] |= own == character,
            }
        }
        places = next;
        skip(&mut places);
    }
    places[pattern.len()]
}
