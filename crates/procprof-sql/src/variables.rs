//! System variables: those that clients read and set, with the values that hold here, and the values of a session.
//!
//! A variable that changes how a statement is read or its result is either obeyed or refused at `SET`; the others,
//! which have no meaning where nothing is written, are kept and shown again.

use std::collections::{BTreeMap, BTreeSet};

use crate::mysql::{SqlError, SqlErrorKind, Value};

/// The permitted changes of a variable.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Not to be set.
    Fixed,
    /// Any value is remembered.
    Free,
    /// `ON` or `OFF`; `@@name` is 1 or 0.
    Switch,
    /// A switch that is not to be set.
    FixedSwitch,
    /// A whole number.
    Number,
    /// The name of a character set, or NULL.
    Charset,
    /// The name of a collation.
    Collation,
    /// UTC by any of its names.
    TimeZone,
    /// Modes that change nothing here, and `PIPES_AS_CONCAT`.
    Mode,
    /// A level of isolation.
    Isolation,
}

use Kind::{Charset, Collation, Fixed, FixedSwitch, Free, Isolation, Mode, Number, Switch, TimeZone};

/// Names, values and kinds, sorted by name.
const VARIABLES: &[(&str, &str, Kind)] = &[
    ("auto_increment_increment", "1", Number),
    ("auto_increment_offset", "1", Number),
    ("autocommit", "ON", Switch),
    ("basedir", "", Fixed),
    ("big_tables", "OFF", Switch),
    ("bind_address", "", Fixed),
    ("binlog_format", "ROW", Free),
    ("bulk_insert_buffer_size", "8388608", Number),
    ("character_set_client", "utf8mb4", Charset),
    ("character_set_connection", "utf8mb4", Charset),
    ("character_set_database", "utf8mb4", Charset),
    ("character_set_filesystem", "binary", Charset),
    ("character_set_results", "utf8mb4", Charset),
    ("character_set_server", "utf8mb4", Charset),
    ("character_set_system", "utf8mb3", Fixed),
    ("character_sets_dir", "", Fixed),
    ("collation_connection", "utf8mb4_general_ci", Collation),
    ("collation_database", "utf8mb4_general_ci", Collation),
    ("collation_server", "utf8mb4_general_ci", Collation),
    ("completion_type", "NO_CHAIN", Free),
    ("connect_timeout", "10", Fixed),
    ("datadir", "", Fixed),
    ("default_authentication_plugin", "caching_sha2_password", Fixed),
    ("default_collation_for_utf8mb4", "utf8mb4_general_ci", Collation),
    ("default_storage_engine", "procprof", Free),
    ("default_tmp_storage_engine", "procprof", Free),
    ("default_week_format", "0", Fixed),
    ("div_precision_increment", "4", Free),
    ("error_count", "0", Fixed),
    ("event_scheduler", "DISABLED", Fixed),
    ("explicit_defaults_for_timestamp", "ON", Switch),
    ("foreign_key_checks", "ON", Switch),
    ("general_log", "OFF", FixedSwitch),
    ("group_concat_max_len", "1048576", Number),
    ("gtid_mode", "OFF", Fixed),
    ("have_compress", "YES", Fixed),
    ("have_dynamic_loading", "NO", Fixed),
    ("have_geometry", "NO", Fixed),
    ("have_openssl", "YES", Fixed),
    ("have_profiling", "NO", Fixed),
    ("have_query_cache", "NO", Fixed),
    ("have_rtree_keys", "NO", Fixed),
    ("have_ssl", "YES", Fixed),
    ("have_statement_timeout", "YES", Fixed),
    ("have_symlink", "DISABLED", Fixed),
    ("hostname", "", Fixed),
    ("identity", "0", Free),
    ("information_schema_stats_expiry", "86400", Number),
    ("init_connect", "", Fixed),
    ("innodb_lock_wait_timeout", "50", Number),
    ("innodb_read_only", "ON", FixedSwitch),
    ("insert_id", "0", Free),
    ("interactive_timeout", "28800", Number),
    ("join_buffer_size", "262144", Number),
    ("language", "", Fixed),
    ("last_insert_id", "0", Free),
    ("lc_messages", "en_US", Free),
    ("lc_time_names", "en_US", Fixed),
    ("license", "Apache-2.0", Fixed),
    ("local_infile", "OFF", FixedSwitch),
    ("lock_wait_timeout", "31536000", Number),
    ("log_bin", "OFF", FixedSwitch),
    ("log_error", "stderr", Fixed),
    ("long_query_time", "10.000000", Free),
    ("low_priority_updates", "OFF", Switch),
    ("lower_case_file_system", "OFF", FixedSwitch),
    ("lower_case_table_names", "1", Fixed),
    ("max_allowed_packet", "16777216", Free),
    ("max_connections", "256", Fixed),
    ("max_error_count", "1", Free),
    ("max_execution_time", "0", Number),
    ("max_heap_table_size", "16777216", Number),
    ("max_join_size", "18446744073709551615", Free),
    ("max_length_for_sort_data", "4096", Number),
    ("max_prepared_stmt_count", "256", Fixed),
    ("max_sort_length", "1024", Number),
    ("max_user_connections", "0", Fixed),
    ("myisam_sort_buffer_size", "8388608", Number),
    ("net_buffer_length", "16384", Free),
    ("net_read_timeout", "30", Number),
    ("net_retry_count", "10", Number),
    ("net_write_timeout", "60", Number),
    ("new", "OFF", Switch),
    ("old_alter_table", "OFF", Switch),
    ("open_files_limit", "0", Fixed),
    ("optimizer_prune_level", "1", Free),
    ("optimizer_search_depth", "62", Free),
    ("optimizer_switch", "", Free),
    ("performance_schema", "OFF", FixedSwitch),
    ("port", "0", Fixed),
    ("profiling", "OFF", FixedSwitch),
    ("profiling_history_size", "15", Number),
    ("protocol_version", "10", Fixed),
    ("proxy_user", "", Fixed),
    ("pseudo_thread_id", "0", Free),
    ("query_alloc_block_size", "8192", Number),
    ("query_cache_size", "0", Fixed),
    ("query_cache_type", "OFF", Fixed),
    ("query_prealloc_size", "8192", Number),
    ("range_alloc_block_size", "4096", Number),
    ("read_buffer_size", "131072", Number),
    ("read_only", "ON", FixedSwitch),
    ("read_rnd_buffer_size", "262144", Number),
    ("secure_file_priv", "", Fixed),
    ("server_id", "1", Fixed),
    ("server_uuid", "", Fixed),
    ("session_track_gtids", "OFF", Free),
    ("session_track_schema", "ON", Switch),
    ("session_track_state_change", "OFF", Switch),
    ("session_track_system_variables", "", Free),
    ("session_track_transaction_info", "OFF", Free),
    ("show_create_table_verbosity", "OFF", Switch),
    ("skip_networking", "OFF", FixedSwitch),
    ("slow_query_log", "OFF", FixedSwitch),
    ("socket", "", Fixed),
    ("sort_buffer_size", "262144", Number),
    ("sql_auto_is_null", "OFF", FixedSwitch),
    ("sql_big_selects", "ON", Switch),
    ("sql_buffer_result", "OFF", Switch),
    ("sql_log_bin", "OFF", Switch),
    ("sql_log_off", "OFF", Switch),
    ("sql_mode", "", Mode),
    ("sql_notes", "ON", Switch),
    ("sql_quote_show_create", "ON", Switch),
    ("sql_require_primary_key", "OFF", Switch),
    ("sql_safe_updates", "OFF", Switch),
    ("sql_select_limit", "18446744073709551615", Number),
    ("sql_warnings", "OFF", Switch),
    ("ssl_ca", "", Fixed),
    ("ssl_cert", "", Fixed),
    ("ssl_key", "", Fixed),
    ("super_read_only", "ON", FixedSwitch),
    ("system_time_zone", "UTC", Fixed),
    ("table_open_cache", "4000", Fixed),
    ("thread_cache_size", "0", Fixed),
    ("thread_handling", "one-thread-per-connection", Fixed),
    ("time_format", "%H:%i:%s", Fixed),
    ("time_zone", "UTC", TimeZone),
    ("tls_version", "TLSv1.2,TLSv1.3", Fixed),
    ("tmp_table_size", "16777216", Number),
    ("tmpdir", "", Fixed),
    ("transaction_alloc_block_size", "8192", Number),
    ("transaction_isolation", "REPEATABLE-READ", Isolation),
    ("transaction_prealloc_size", "4096", Number),
    ("transaction_read_only", "OFF", Switch),
    ("tx_isolation", "REPEATABLE-READ", Isolation),
    ("tx_read_only", "OFF", Switch),
    ("unique_checks", "ON", Switch),
    ("updatable_views_with_limit", "YES", Free),
    ("version", VERSION, Fixed),
    ("version_comment", concat!("procprof ", env!("CARGO_PKG_VERSION")), Fixed),
    ("version_compile_machine", std::env::consts::ARCH, Fixed),
    ("version_compile_os", std::env::consts::OS, Fixed),
    ("wait_timeout", "28800", Number),
    ("warning_count", "0", Fixed),
];

/// The version that clients see.
pub(super) const VERSION: &str = concat!("8.0.33-procprof-", env!("CARGO_PKG_VERSION"));
/// Variables of two names.
const ALIASES: &[(&str, &str)] =
    &[("tx_isolation", "transaction_isolation"), ("tx_read_only", "transaction_read_only")];
/// The most variables of users that a session keeps, and bytes of any value.
const USERS_MAX: usize = 256;
const VALUE_MAX: usize = 16 << 10;

/// Character sets that texts may be declared to be in; they are UTF-8 all the same.
const CHARSETS: &[&str] = &["utf8mb4", "utf8mb3", "utf8", "ascii", "latin1", "binary"];
/// Modes without any meaning where nothing is written, and the one that the rewriter implements.
const MODES: &[&str] = &[
    "ALLOW_INVALID_DATES",
    "ERROR_FOR_DIVISION_BY_ZERO",
    "HIGH_NOT_PRECEDENCE",
    "NO_AUTO_CREATE_USER",
    "NO_AUTO_VALUE_ON_ZERO",
    "NO_DIR_IN_CREATE",
    "NO_ENGINE_SUBSTITUTION",
    "NO_FIELD_OPTIONS",
    "NO_KEY_OPTIONS",
    "NO_TABLE_OPTIONS",
    "NO_UNSIGNED_SUBTRACTION",
    "NO_ZERO_DATE",
    "NO_ZERO_IN_DATE",
    "ONLY_FULL_GROUP_BY",
    PIPES_AS_CONCAT,
    "REAL_AS_FLOAT",
    "STRICT_ALL_TABLES",
    "STRICT_TRANS_TABLES",
    "TIME_TRUNCATE_FRACTIONAL",
    "TRADITIONAL",
];
const PIPES_AS_CONCAT: &str = "PIPES_AS_CONCAT";
const LEVELS: &[&str] = &["READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"];
/// Names of the one time zone there is.
const UTC: &[&str] = &[
    "UTC",
    "+00:00",
    "+0:00",
    "-00:00",
    "SYSTEM",
    "GMT",
    "Z",
    "Etc/UTC",
    "Etc/GMT",
    "Etc/UCT",
    "UCT",
    "Zulu",
    "Universal",
];

/// The variables of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Variables {
    set: BTreeMap<&'static str, String>,
    /// `@name`, in lower case.
    users: BTreeMap<String, Value>,
    /// Variables whose last value only the rows of a `SELECT` had.
    lost: BTreeSet<String>,
}

type Row = (&'static str, &'static str, Kind);

fn row(name: &str) -> Option<&'static Row> {
    VARIABLES.iter().find(|(own, ..)| *own == name)
}

/// A name without its scope; whether that is the server's.
fn scoped(name: &str) -> (&str, bool) {
    let scope = |start: &str| name.strip_prefix(start);
    match scope("global.").or_else(|| scope("persist.")).or_else(|| scope("persist_only.")) {
        Some(bare) => (bare, true),
        None => (scope("session.").or_else(|| scope("local.")).unwrap_or(name), false),
    }
}

pub(super) fn unknown(name: &str) -> SqlError {
    let name: String = name.chars().take(80).collect();
    SqlError::new(SqlErrorKind::UnknownVariable, format!("unknown system variable '{name}'"))
}

impl Variables {
    /// The value of a variable, as written behind `@@`: with or without `session.` or `global.`.
    pub(super) fn value(&self, name: &str) -> Option<Value> {
        let name = name.to_ascii_lowercase();
        let (bare, is_global) = scoped(&name);
        let (own, _, kind) = row(bare)?;
        let text = self.text(own, is_global);
        Some(match kind {
            Switch | FixedSwitch => Value::Integer(i64::from(text == "ON")),
            _ if text == "NULL" => Value::Null,
            // As written: too large a number for us, but one for clients.
            _ => text.parse().map_or_else(|_| text.into(), Value::Integer),
        })
    }

    fn text(&self, name: &'static str, is_global: bool) -> &str {
        let own = row(name).map_or("", |(_, value, _)| value);
        if is_global { own } else { self.set.get(name).map_or(own, String::as_str) }
    }

    /// Names and values as `SHOW VARIABLES` has them: the session's, or the server's.
    pub(super) fn list(&self, is_global: bool) -> impl Iterator<Item = (&'static str, &str)> {
        VARIABLES.iter().map(move |(name, ..)| (*name, self.text(name, is_global)))
    }

    /// Sets a variable; `None` is its default.
    ///
    /// # Errors
    /// There is no such variable, it is not to be set, or the value would have an effect in MySQL that it has not here.
    pub(super) fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), SqlError> {
        let lower = name.to_ascii_lowercase();
        let (bare, is_global) = scoped(&lower);
        let (own, default, kind) = row(bare).ok_or_else(|| unknown(bare))?;
        if is_global {
            return Err(SqlError::new(
                SqlErrorKind::Denied,
                format!("Access denied; {bare} is set in the server's configuration, not by SET GLOBAL"),
            ));
        }
        let Some(value) = value else {
            self.set.remove(own);
            return Ok(());
        };
        if matches!(kind, Fixed | FixedSwitch) && is_own(default, *kind, value) {
            return Ok(());
        }
        let value = checked(own, *kind, value).ok_or_else(|| refused(own, default, *kind, value))?;
        for name in [*own].into_iter().chain(twin(own)) {
            self.set.insert(name, value.clone());
        }
        Ok(())
    }

    /// `SET NAMES`.
    ///
    /// # Errors
    /// No such character set or collation.
    pub(super) fn set_names(&mut self, charset: Option<&str>, collation: Option<&str>) -> Result<(), SqlError> {
        for name in ["character_set_client", "character_set_connection", "character_set_results"] {
            self.set(name, charset)?;
        }
        self.set("collation_connection", collation)
    }

    pub(super) fn set_user(&mut self, name: &str, value: Value) -> Result<(), SqlError> {
        let name = name.to_lowercase();
        self.check_room(&name, value.weight())?;
        self.lost.remove(&name);
        self.users.insert(name, value);
        Ok(())
    }

    /// Forgets the value of a variable that the rows of a `SELECT` assigned: it cannot be read before it is set again.
    ///
    /// # Errors
    /// Too many variables.
    pub(super) fn lose_user(&mut self, name: &str) -> Result<(), SqlError> {
        self.check_room(name, 0)?;
        self.users.remove(name);
        self.lost.insert(name.to_owned());
        Ok(())
    }

    fn check_room(&self, name: &str, bytes: usize) -> Result<(), SqlError> {
        let is_new = !self.users.contains_key(name) && !self.lost.contains(name);
        if (is_new && self.users.len() + self.lost.len() == USERS_MAX) || name.len() + bytes > VALUE_MAX {
            let text = format!("a session keeps at most {USERS_MAX} variables of at most {VALUE_MAX} bytes");
            return Err(SqlError::new(SqlErrorKind::Limit, text));
        }
        Ok(())
    }

    /// `@name`; NULL while it is not set.
    ///
    /// # Errors
    /// The rows of a `SELECT` assigned it.
    pub(super) fn user(&self, name: &str) -> Result<Value, SqlError> {
        let name = name.to_lowercase();
        if self.lost.contains(&name) {
            let text = format!("@{name}, which a SELECT assigned, is not kept: use SET @{name} = (SELECT …)");
            return Err(SqlError::new(SqlErrorKind::NotSupported, text));
        }
        Ok(self.users.get(&name).cloned().unwrap_or(Value::Null))
    }

    pub(super) fn autocommit(&self) -> bool {
        self.text("autocommit", false) == "ON"
    }

    /// Whether `||` joins texts.
    pub(super) fn pipes_concat(&self) -> bool {
        self.text("sql_mode", false).split(',').any(|mode| mode == PIPES_AS_CONCAT)
    }

    /// Rows that a `SELECT` without `LIMIT` gives at most.
    pub(super) fn select_limit(&self) -> u64 {
        self.text("sql_select_limit", false).parse().unwrap_or(u64::MAX)
    }

    /// Milliseconds that a `SELECT` may take; 0 for as long as the server lets it.
    pub(super) fn execution_time(&self) -> u64 {
        self.text("max_execution_time", false).parse().unwrap_or(0)
    }
}

/// The other name of a variable.
fn twin(name: &str) -> Option<&'static str> {
    ALIASES.iter().find_map(|(old, new)| match name {
        name if name == *old => Some(*new),
        name if name == *new => Some(*old),
        _ => None,
    })
}

/// A value as it is kept; `None` if it is not taken.
/// Whether a value is the one that a variable has for ever.
fn is_own(own: &str, kind: Kind, value: &str) -> bool {
    match kind {
        FixedSwitch => switched(value) == switched(own),
        _ => value == own,
    }
}

fn switched(value: &str) -> Option<&'static str> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "on" | "true" | "yes" => Some("ON"),
        "0" | "off" | "false" | "no" => Some("OFF"),
        _ => None,
    }
}

fn checked(name: &str, kind: Kind, value: &str) -> Option<String> {
    let among = |known: &[&str], value: &str| {
        known.iter().find(|own| own.eq_ignore_ascii_case(value)).map(|own| (*own).to_owned())
    };
    if value.len() > VALUE_MAX {
        return None;
    }
    match kind {
        Fixed | FixedSwitch => None,
        Free => Some(value.to_owned()),
        Switch => switched(value).map(str::to_owned),
        // MySQL takes negative ones for 0, and some are above what 64 bits with a sign hold.
        Number => value
            .parse::<u64>()
            .map(|number| number.to_string())
            .ok()
            .or_else(|| value.parse::<i64>().ok().map(|_| "0".to_owned())),
        Charset if value.eq_ignore_ascii_case("null") && name == "character_set_results" => Some("NULL".to_owned()),
        Charset => among(CHARSETS, value),
        Collation => CHARSETS.iter().any(|charset| is_of(value, charset)).then(|| value.to_ascii_lowercase()),
        TimeZone => among(UTC, value),
        Mode => modes(value),
        Isolation => among(LEVELS, value),
    }
}

fn is_of(collation: &str, charset: &str) -> bool {
    let collation = collation.to_ascii_lowercase();
    collation == "binary" || collation.strip_prefix(charset).is_some_and(|rest| rest.starts_with('_'))
}

fn modes(value: &str) -> Option<String> {
    let known = |mode: &str| MODES.iter().find(|own| own.eq_ignore_ascii_case(mode)).copied();
    let modes: Option<Vec<&str>> = match value {
        "0" => Some(Vec::new()),
        value => value.split(',').map(str::trim).filter(|mode| !mode.is_empty()).map(known).collect(),
    };
    modes.map(|modes| modes.join(","))
}

fn refused(name: &str, default: &str, kind: Kind, value: &str) -> SqlError {
    let value: String = value.chars().take(80).collect();
    match kind {
        Fixed | FixedSwitch => SqlError::new(
            SqlErrorKind::ReadOnlyVariable,
            format!("Variable '{name}' is a read only variable; it is '{default}' here"),
        ),
        TimeZone => {
            let text = format!(
                "Unknown or incorrect time zone: '{value}'; the time zone here is UTC, CONVERT_TZ shows another"
            );
            SqlError::new(SqlErrorKind::UnknownTimeZone, text)
        }
        Charset => SqlError::new(
            SqlErrorKind::UnknownCharset,
            format!("Unknown character set: '{value}'; there are {}", CHARSETS.join(", ")),
        ),
        Collation => SqlError::new(SqlErrorKind::UnknownCollation, format!("Unknown collation: '{value}'")),
        Mode => {
            let text =
                format!("Variable 'sql_mode' can't be set to the value of '{value}': there are {}", MODES.join(", "));
            SqlError::new(SqlErrorKind::WrongValue, text)
        }
        _ => {
            SqlError::new(SqlErrorKind::WrongValue, format!("Variable '{name}' can't be set to the value of '{value}'"))
        }
    }
}
