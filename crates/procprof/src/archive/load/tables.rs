//! The tables that an archive is loaded into, made of the columns of [`Table`]: their names, types and statements.
//!
//! | table | columns |
//! |---|---|
//! | `archive_frames`, … | the archive's table, and `date`; before them `part` and `part_row` where rows have no id |
//! | `archive_parts` | the parts, each with its number of rows of each table; `loaded` is when it was whole, if it is |
//!
//! `part` is the first of a part's ids, which all ids of its rows give: `stack - stack % 16777216`.

use anyhow::{Result, bail, ensure};
use procprof_archive::{Column, ColumnType, Part, Table};

/// The table of the parts that are loaded.
pub(super) const PARTS: &str = "archive_parts";

/// What the statements are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Engines like MySQL, with a collation that compares texts byte by byte.
    MySql { collation: String },
    /// StarRocks.
    StarRocks,
}

/// A column of a loaded table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Loaded {
    /// The first id of the row's part.
    Part,
    /// The number of the row in its part's table.
    PartRow,
    /// A column of the archive.
    Archived(&'static Column),
    /// The day of the part.
    Date,
}

impl Loaded {
    pub(super) fn name(self) -> &'static str {
        match self {
            Loaded::Part => "part",
            Loaded::PartRow => "part_row",
            Loaded::Archived(column) => column.name,
            Loaded::Date => "date",
        }
    }

    fn type_name(self, dialect: &Dialect) -> &'static str {
        let is_mysql = matches!(dialect, Dialect::MySql { .. });
        match self {
            Loaded::Part | Loaded::PartRow => "bigint",
            Loaded::Date => "date",
            Loaded::Archived(column) => match column.column_type {
                ColumnType::Text if is_mysql => "mediumtext",
                ColumnType::Text => "varchar(1048576)",
                ColumnType::Integer => "bigint",
                ColumnType::Flag => "boolean",
                ColumnType::Moment if is_mysql => "datetime(6)",
                ColumnType::Moment => "datetime",
                ColumnType::Texts | ColumnType::Integers => "json",
            },
        }
    }

    fn is_nullable(self) -> bool {
        matches!(self, Loaded::Archived(column) if column.nullable)
    }
}

impl Dialect {
    /// Bytes of a text in a column, at most.
    pub(super) fn text_bytes_max(&self) -> usize {
        match self {
            Dialect::MySql { .. } => (1 << 24) - 1,
            Dialect::StarRocks => 1 << 20,
        }
    }

    /// Whether a type that the engine shows is the one that a table is made with.
    fn is_shown_as(&self, made: &str, shown: &str) -> bool {
        let shown = shown.to_ascii_lowercase();
        // MySQL shows widths of numbers or not, MariaDB has JSON as texts, and wider texts do as well.
        match made {
            "bigint" => shown == "bigint" || (shown.starts_with("bigint(") && shown.ends_with(')')),
            "boolean" => shown == "boolean" || shown.starts_with("tinyint(1"),
            "mediumtext" => shown == "mediumtext" || shown == "longtext",
            "varchar(1048576)" => shown == made || shown == "string",
            "json" => shown == "json" || (shown == "longtext" && *self != Dialect::StarRocks),
            _ => shown == made,
        }
    }
}

/// The name of the table with the rows of the archive's.
pub(super) fn name(table: Table) -> String {
    format!("archive_{}", table.name())
}

/// Whether rows have no id of their own.
pub(super) fn is_numbered(table: Table) -> bool {
    matches!(table, Table::Labels | Table::Samples)
}

/// The columns of a loaded table; its key is first.
pub(super) fn columns(table: Table) -> Vec<Loaded> {
    let numbers: &[Loaded] = if is_numbered(table) { &[Loaded::Part, Loaded::PartRow] } else { &[] };
    let archived = table.columns().iter().map(Loaded::Archived);
    numbers.iter().copied().chain(archived).chain([Loaded::Date]).collect()
}

/// The names of the columns in a statement.
pub(super) fn column_list(table: Table) -> String {
    columns(table).iter().map(|column| format!("`{}`", column.name())).collect::<Vec<_>>().join(", ")
}

fn key(table: Table) -> Vec<&'static str> {
    columns(table).iter().take(if is_numbered(table) { 2 } else { 1 }).map(|column| column.name()).collect()
}

/// Indexes beside the key: what the statements of `docs/engines.md` look rows up by.
fn indexes(table: Table) -> &'static [&'static str] {
    match table {
        Table::Frames => &["`date`", "`function`(64)"],
        Table::Stacks => &["`date`", "`frame`"],
        Table::Labels => &["`labels`", "`date`, `key`(32)"],
        // Of a profile, the samples with a function on their stack are a range of stacks.
        Table::Samples => &["`date`, `type`(16), `kind`(16)", "`profile`, `stack`"],
        Table::Profiles => &["`date`, `type`(16)", "`id`(36)"],
        // Sums of these rows are as fast in a database.
        Table::Rollups | Table::Hours => &[],
    }
}

/// The statement that makes a table.
pub(super) fn create(table: Table, dialect: &Dialect) -> String {
    let columns = columns(table);
    let declared = columns.iter().map(|column| {
        let null = if column.is_nullable() { "" } else { " NOT NULL" };
        format!("    `{}` {}{null}", column.name(), column.type_name(dialect).to_uppercase())
    });
    let key: Vec<String> = key(table).iter().map(|name| format!("`{name}`")).collect();
    let indexes: &[&str] = if *dialect == Dialect::StarRocks { &[] } else { indexes(table) };
    created(&name(table), declared.collect(), &key.join(", "), indexes, dialect)
}

/// The statement that makes the table of parts.
pub(super) fn create_parts(dialect: &Dialect) -> String {
    let moment = if *dialect == Dialect::StarRocks { "DATETIME" } else { "DATETIME(6)" };
    let mut declared = vec![
        "    `part` BIGINT NOT NULL".to_owned(),
        "    `name` VARCHAR(255) NOT NULL".to_owned(),
        "    `date` DATE NOT NULL".to_owned(),
    ];
    declared.extend(Table::BASE.iter().map(|table| format!("    `{}` BIGINT NOT NULL", table.name())));
    declared.push(format!("    `loaded` {moment}"));
    created(PARTS, declared, "`part`", &[], dialect)
}

fn created(name: &str, mut declared: Vec<String>, key: &str, indexes: &[&str], dialect: &Dialect) -> String {
    let end = match dialect {
        Dialect::MySql { collation } => {
            declared.push(format!("    PRIMARY KEY ({key})"));
            declared.extend(indexes.iter().map(|index| format!("    KEY ({index})")));
            format!("ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation}")
        }
        Dialect::StarRocks => format!("PRIMARY KEY ({key})\nDISTRIBUTED BY HASH ({key})"),
    };
    format!("CREATE TABLE IF NOT EXISTS `{name}` (\n{}\n) {end}", declared.join(",\n"))
}

/// Compares the columns that a table has, as names and types, with those that are loaded.
///
/// # Errors
/// The first difference.
pub(super) fn check(table: Table, dialect: &Dialect, shown: &[(String, String)]) -> Result<()> {
    let (name, columns) = (name(table), columns(table));
    for column in &columns {
        let found = shown.iter().find(|(name, _)| name.eq_ignore_ascii_case(column.name()));
        let Some((_, shown)) = found else { bail!("table {name}: column {} is missing", column.name()) };
        let made = column.type_name(dialect);
        ensure!(
            dialect.is_shown_as(made, shown),
            "table {name}: column {} has the type {shown}, not {made}",
            column.name()
        );
    }
    let other = shown.iter().find(|(shown, _)| !columns.iter().any(|column| column.name().eq_ignore_ascii_case(shown)));
    if let Some((other, _)) = other {
        bail!("table {name}: column {other} is none of the archive's");
    }
    Ok(())
}

/// The statements that delete the rows of a part, those of the profiles first: samples without one do not count.
pub(super) fn delete(part: Part) -> Vec<String> {
    let (first, last) = part.ids().into_inner();
    let deleted = Table::BASE.iter().rev().map(|table| {
        let by = match key(*table).first() {
            Some(&"part") | None => format!("`part` = {first}"),
            Some(id) => format!("`{id}` >= {first} AND `{id}` <= {last}"),
        };
        format!("DELETE FROM `{}` WHERE {by}", name(*table))
    });
    deleted.collect()
}

/// The statement that has the engine count what its optimizer goes by, if one is needed: before it has counted the rows
/// of a load, MariaDB joins each sample with all stacks of the day.
pub(super) fn analyze(dialect: &Dialect) -> Option<String> {
    let names: Vec<String> = Table::BASE.iter().map(|table| format!("`{}`", name(*table))).collect();
    (*dialect != Dialect::StarRocks).then(|| format!("ANALYZE TABLE `{PARTS}`, {}", names.join(", ")))
}

/// The statement that takes a part out of the table of parts.
pub(super) fn forget(part: Part) -> String {
    format!("DELETE FROM `{PARTS}` WHERE `part` = {}", part.ids().start())
}

/// The statement that enters a part into the table of parts, or enters it anew: with the moment from which it is whole
/// and its rows in the order of [`Table::BASE`], or as one that is being loaded.
pub(super) fn remember(part: Part, whole: Option<(&[u64; 5], &str)>, dialect: &Dialect) -> String {
    let verb = if *dialect == Dialect::StarRocks { "INSERT" } else { "REPLACE" };
    let names: String = Table::BASE.iter().map(|table| format!("`{}`, ", table.name())).collect();
    let (rows, loaded) = match whole {
        Some((rows, now)) => (*rows, format!("'{now}'")),
        None => ([0; 5], "NULL".to_owned()),
    };
    let counts: String = rows.iter().map(|rows| format!("{rows}, ")).collect();
    let (first, name, date) = (*part.ids().start(), part.name(), part.date());
    format!(
        "{verb} INTO `{PARTS}` (`part`, `name`, `date`, {names}`loaded`) \
         VALUES ({first}, '{name}', '{date}', {counts}{loaded})"
    )
}

/// The query for the names of the parts that are whole.
pub(super) fn whole_parts() -> String {
    format!("SELECT `name` FROM `{PARTS}` WHERE `loaded` IS NOT NULL")
}

/// The query for the names of the parts whose load was interrupted.
pub(super) fn begun_parts() -> String {
    format!("SELECT `name` FROM `{PARTS}` WHERE `loaded` IS NULL")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mysql() -> Dialect {
        Dialect::MySql { collation: "utf8mb4_nopad_bin".to_owned() }
    }

    #[test]
    fn tables_are_made_of_the_columns_of_the_archive() {
        for dialect in [mysql(), Dialect::StarRocks] {
            for table in Table::BASE {
                let made = create(table, &dialect);
                for column in table.columns() {
                    assert!(made.contains(&format!("    `{}` ", column.name)), "{}: {made}", column.name);
                }
            }
        }
        let labels = create(Table::Labels, &Dialect::StarRocks);
        let expected = "CREATE TABLE IF NOT EXISTS `archive_labels` (\n    `part` BIGINT NOT NULL,\n    \
                        `part_row` BIGINT NOT NULL,\n    `labels` BIGINT NOT NULL,\n    \
                        `key` VARCHAR(1048576) NOT NULL,\n    `text` VARCHAR(1048576),\n    `number` BIGINT,\n    \
                        `unit` VARCHAR(1048576) NOT NULL,\n    `date` DATE NOT NULL\n) PRIMARY KEY (`part`, \
                        `part_row`)\nDISTRIBUTED BY HASH (`part`, `part_row`)";
        assert_eq!(labels, expected);
    }

    /// The columns that an engine shows.
    type Shown = Vec<(String, String)>;
    type Change = fn(&mut Shown);

    #[test]
    fn another_table_of_the_name_is_refused() {
        let shown = |change: Change| {
            let columns = columns(Table::Stacks);
            let type_name = |column: &Loaded| column.type_name(&mysql()).replace("boolean", "tinyint(1)");
            let mut shown: Shown = columns.iter().map(|column| (column.name().to_owned(), type_name(column))).collect();
            change(&mut shown);
            check(Table::Stacks, &mysql(), &shown).map_err(|error| error.to_string())
        };
        assert_eq!(shown(|_| ()), Ok(()));
        assert_eq!(shown(|shown| shown[0].1 = "bigint(20)".to_owned()), Ok(()));
        let cases: [(Change, &str); 4] = [
            (|shown| drop(shown.remove(1)), "column up is missing"),
            (|shown| shown[2].1 = "int(11)".to_owned(), "column last has the type int(11), not bigint"),
            (
                |shown| shown[2].1 = "bigint(20) unsigned".to_owned(),
                "column last has the type bigint(20) unsigned, not bigint",
            ),
            (|shown| shown.push(("mine".to_owned(), "int".to_owned())), "column mine is none of the archive's"),
        ];
        for (change, expected) in cases {
            assert_eq!(shown(change), Err(format!("table archive_stacks: {expected}")));
        }
    }
}
