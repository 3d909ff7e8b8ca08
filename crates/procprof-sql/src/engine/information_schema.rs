//! The tables of `information_schema` and `performance_schema`, with the columns that MySQL 8.0 has.
//!
//! Most are always empty here, and tools read them all the same.

use super::information_schema_rows;
use super::tables::Declared::{Integer, LongText, Text};
use super::tables::{Source, Table, TableColumn};

/// Every table, by name. A column of whole numbers has `#` behind its name.
pub(super) const INFORMATION: &[Table] = &[
    table(
        "information_schema.schemata",
        "databases",
        Source::Computed(information_schema_rows::schemata),
        &described::<6>(
            "CATALOG_NAME SCHEMA_NAME DEFAULT_CHARACTER_SET_NAME DEFAULT_COLLATION_NAME SQL_PATH \
             DEFAULT_ENCRYPTION",
        ),
    ),
    table(
        "information_schema.tables",
        "tables",
        Source::Computed(information_schema_rows::tables),
        &described::<21>(
            "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME TABLE_TYPE ENGINE VERSION# ROW_FORMAT TABLE_ROWS# \
             AVG_ROW_LENGTH# DATA_LENGTH# MAX_DATA_LENGTH# INDEX_LENGTH# DATA_FREE# AUTO_INCREMENT# CREATE_TIME \
             UPDATE_TIME CHECK_TIME TABLE_COLLATION CHECKSUM# CREATE_OPTIONS TABLE_COMMENT",
        ),
    ),
    table(
        "information_schema.columns",
        "columns of tables",
        Source::Computed(information_schema_rows::columns),
        &described::<22>(
            "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME ORDINAL_POSITION# COLUMN_DEFAULT IS_NULLABLE \
             DATA_TYPE CHARACTER_MAXIMUM_LENGTH# CHARACTER_OCTET_LENGTH# NUMERIC_PRECISION# NUMERIC_SCALE# \
             DATETIME_PRECISION# CHARACTER_SET_NAME COLLATION_NAME COLUMN_TYPE COLUMN_KEY EXTRA PRIVILEGES \
             COLUMN_COMMENT GENERATION_EXPRESSION SRS_ID#",
        ),
    ),
    table(
        "information_schema.character_sets",
        "character sets",
        Source::Computed(information_schema_rows::character_sets),
        &described::<4>("CHARACTER_SET_NAME DEFAULT_COLLATE_NAME DESCRIPTION MAXLEN#"),
    ),
    empty(
        "information_schema.check_constraints",
        &described::<4>("CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME CHECK_CLAUSE"),
    ),
    table(
        "information_schema.collation_character_set_applicability",
        "the character set of each collation",
        Source::Computed(information_schema_rows::collation_character_set_applicability),
        &described::<2>("COLLATION_NAME CHARACTER_SET_NAME"),
    ),
    table(
        "information_schema.collations",
        "collations",
        Source::Computed(information_schema_rows::collations),
        &described::<7>("COLLATION_NAME CHARACTER_SET_NAME ID# IS_DEFAULT IS_COMPILED SORTLEN# PAD_ATTRIBUTE"),
    ),
    empty(
        "information_schema.column_privileges",
        &described::<7>("GRANTEE TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME PRIVILEGE_TYPE IS_GRANTABLE"),
    ),
    table(
        "information_schema.engines",
        "storage engines",
        Source::Computed(information_schema_rows::engines),
        &described::<6>("ENGINE SUPPORT COMMENT TRANSACTIONS XA SAVEPOINTS"),
    ),
    empty(
        "information_schema.events",
        &described::<24>(
            "EVENT_CATALOG EVENT_SCHEMA EVENT_NAME DEFINER TIME_ZONE EVENT_BODY EVENT_DEFINITION EVENT_TYPE \
             EXECUTE_AT INTERVAL_VALUE INTERVAL_FIELD SQL_MODE STARTS ENDS STATUS ON_COMPLETION CREATED \
             LAST_ALTERED LAST_EXECUTED EVENT_COMMENT ORIGINATOR# CHARACTER_SET_CLIENT COLLATION_CONNECTION \
             DATABASE_COLLATION",
        ),
    ),
    empty(
        "information_schema.files",
        &described::<38>(
            "FILE_ID# FILE_NAME FILE_TYPE TABLESPACE_NAME TABLE_CATALOG TABLE_SCHEMA TABLE_NAME \
             LOGFILE_GROUP_NAME LOGFILE_GROUP_NUMBER# ENGINE FULLTEXT_KEYS DELETED_ROWS# UPDATE_COUNT# \
             FREE_EXTENTS# TOTAL_EXTENTS# EXTENT_SIZE# INITIAL_SIZE# MAXIMUM_SIZE# AUTOEXTEND_SIZE# CREATION_TIME \
             LAST_UPDATE_TIME LAST_ACCESS_TIME RECOVER_TIME# TRANSACTION_COUNTER# VERSION# ROW_FORMAT TABLE_ROWS# \
             AVG_ROW_LENGTH# DATA_LENGTH# MAX_DATA_LENGTH# INDEX_LENGTH# DATA_FREE# CREATE_TIME UPDATE_TIME \
             CHECK_TIME CHECKSUM# STATUS EXTRA",
        ),
    ),
    empty(
        "information_schema.key_column_usage",
        &described::<12>(
            "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_CATALOG TABLE_SCHEMA TABLE_NAME \
             COLUMN_NAME ORDINAL_POSITION# POSITION_IN_UNIQUE_CONSTRAINT# REFERENCED_TABLE_SCHEMA \
             REFERENCED_TABLE_NAME REFERENCED_COLUMN_NAME",
        ),
    ),
    table(
        "information_schema.keywords",
        "words of statements; RESERVED is 1 for those that need backquotes as names",
        Source::Computed(information_schema_rows::keywords),
        &described::<2>("WORD RESERVED#"),
    ),
    empty(
        "information_schema.parameters",
        &described::<16>(
            "SPECIFIC_CATALOG SPECIFIC_SCHEMA SPECIFIC_NAME ORDINAL_POSITION# PARAMETER_MODE PARAMETER_NAME \
             DATA_TYPE CHARACTER_MAXIMUM_LENGTH# CHARACTER_OCTET_LENGTH# NUMERIC_PRECISION# NUMERIC_SCALE# \
             DATETIME_PRECISION# CHARACTER_SET_NAME COLLATION_NAME DTD_IDENTIFIER ROUTINE_TYPE",
        ),
    ),
    empty(
        "information_schema.partitions",
        &described::<25>(
            "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME PARTITION_NAME SUBPARTITION_NAME PARTITION_ORDINAL_POSITION# \
             SUBPARTITION_ORDINAL_POSITION# PARTITION_METHOD SUBPARTITION_METHOD PARTITION_EXPRESSION \
             SUBPARTITION_EXPRESSION PARTITION_DESCRIPTION TABLE_ROWS# AVG_ROW_LENGTH# DATA_LENGTH# \
             MAX_DATA_LENGTH# INDEX_LENGTH# DATA_FREE# CREATE_TIME UPDATE_TIME CHECK_TIME CHECKSUM# \
             PARTITION_COMMENT NODEGROUP TABLESPACE_NAME",
        ),
    ),
    empty(
        "information_schema.plugins",
        &described::<11>(
            "PLUGIN_NAME PLUGIN_VERSION PLUGIN_STATUS PLUGIN_TYPE PLUGIN_TYPE_VERSION PLUGIN_LIBRARY \
             PLUGIN_LIBRARY_VERSION PLUGIN_AUTHOR PLUGIN_DESCRIPTION PLUGIN_LICENSE LOAD_OPTION",
        ),
    ),
    empty(
        "information_schema.referential_constraints",
        &described::<11>(
            "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME UNIQUE_CONSTRAINT_CATALOG \
             UNIQUE_CONSTRAINT_SCHEMA UNIQUE_CONSTRAINT_NAME MATCH_OPTION UPDATE_RULE DELETE_RULE TABLE_NAME \
             REFERENCED_TABLE_NAME",
        ),
    ),
    empty(
        "information_schema.routines",
        &described::<31>(
            "SPECIFIC_NAME ROUTINE_CATALOG ROUTINE_SCHEMA ROUTINE_NAME ROUTINE_TYPE DATA_TYPE \
             CHARACTER_MAXIMUM_LENGTH# CHARACTER_OCTET_LENGTH# NUMERIC_PRECISION# NUMERIC_SCALE# \
             DATETIME_PRECISION# CHARACTER_SET_NAME COLLATION_NAME DTD_IDENTIFIER ROUTINE_BODY ROUTINE_DEFINITION \
             EXTERNAL_NAME EXTERNAL_LANGUAGE PARAMETER_STYLE IS_DETERMINISTIC SQL_DATA_ACCESS SQL_PATH \
             SECURITY_TYPE CREATED LAST_ALTERED SQL_MODE ROUTINE_COMMENT DEFINER CHARACTER_SET_CLIENT \
             COLLATION_CONNECTION DATABASE_COLLATION",
        ),
    ),
    empty(
        "information_schema.schema_privileges",
        &described::<5>("GRANTEE TABLE_CATALOG TABLE_SCHEMA PRIVILEGE_TYPE IS_GRANTABLE"),
    ),
    empty(
        "information_schema.statistics",
        &described::<18>(
            "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME NON_UNIQUE# INDEX_SCHEMA INDEX_NAME SEQ_IN_INDEX# COLUMN_NAME \
             COLLATION CARDINALITY# SUB_PART# PACKED NULLABLE INDEX_TYPE COMMENT INDEX_COMMENT IS_VISIBLE \
             EXPRESSION",
        ),
    ),
    empty(
        "information_schema.table_constraints",
        &described::<7>(
            "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_SCHEMA TABLE_NAME CONSTRAINT_TYPE \
             ENFORCED",
        ),
    ),
    empty(
        "information_schema.table_privileges",
        &described::<6>("GRANTEE TABLE_CATALOG TABLE_SCHEMA TABLE_NAME PRIVILEGE_TYPE IS_GRANTABLE"),
    ),
    empty(
        "information_schema.triggers",
        &described::<22>(
            "TRIGGER_CATALOG TRIGGER_SCHEMA TRIGGER_NAME EVENT_MANIPULATION EVENT_OBJECT_CATALOG \
             EVENT_OBJECT_SCHEMA EVENT_OBJECT_TABLE ACTION_ORDER# ACTION_CONDITION ACTION_STATEMENT \
             ACTION_ORIENTATION ACTION_TIMING ACTION_REFERENCE_OLD_TABLE ACTION_REFERENCE_NEW_TABLE \
             ACTION_REFERENCE_OLD_ROW ACTION_REFERENCE_NEW_ROW CREATED SQL_MODE DEFINER CHARACTER_SET_CLIENT \
             COLLATION_CONNECTION DATABASE_COLLATION",
        ),
    ),
    table(
        "information_schema.user_privileges",
        "what the user may do",
        Source::Computed(information_schema_rows::user_privileges),
        &described::<4>("GRANTEE TABLE_CATALOG PRIVILEGE_TYPE IS_GRANTABLE"),
    ),
    empty(
        "information_schema.views",
        &described::<10>(
            "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME VIEW_DEFINITION CHECK_OPTION IS_UPDATABLE DEFINER \
             SECURITY_TYPE CHARACTER_SET_CLIENT COLLATION_CONNECTION",
        ),
    ),
    empty("performance_schema.global_status", &described::<2>("VARIABLE_NAME VARIABLE_VALUE")),
    empty("performance_schema.session_status", &described::<2>("VARIABLE_NAME VARIABLE_VALUE")),
];

/// Columns without comments, from their names with a space between.
///
/// # Panics
/// While this is compiled, where there are not as many.
const fn described<const COUNT: usize>(names: &'static str) -> [TableColumn; COUNT] {
    let mut made = [TableColumn { name: "", declared: Text, comment: "" }; COUNT];
    let mut rest = names;
    let mut index = 0;
    while index < COUNT {
        let (word, after) = first_word(rest);
        let (name, declared) = match word.as_bytes() {
            [.., b'#'] => (word.split_at(word.len() - 1).0, Integer),
            _ => (word, LongText),
        };
        assert!(!name.is_empty(), "fewer names than columns");
        made[index] = TableColumn { name, declared, comment: "" };
        rest = after;
        index += 1;
    }
    assert!(rest.is_empty(), "more names than columns");
    made
}

/// The text before the first space, and the text behind it.
const fn first_word(text: &'static str) -> (&'static str, &'static str) {
    let bytes = text.as_bytes();
    let mut end = 0;
    while end < bytes.len() && bytes[end] != b' ' {
        end += 1;
    }
    let (word, rest) = text.split_at(end);
    (word, if rest.is_empty() { rest } else { rest.split_at(1).1 })
}

/// A table without parameters.
const fn table(name: &'static str, comment: &'static str, source: Source, columns: &'static [TableColumn]) -> Table {
    Table { name, parameters: &[], columns, comment, source }
}

/// A table that has no rows here, as there is nothing of its kind.
const fn empty(name: &'static str, columns: &'static [TableColumn]) -> Table {
    table(name, "always empty here", Source::Computed(information_schema_rows::none), columns)
}
