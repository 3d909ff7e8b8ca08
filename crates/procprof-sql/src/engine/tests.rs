//! Statements as trees and plans, the values that expressions have, and the limits of both.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::collect;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::collation::key;
use super::computed::StatementContext;
use super::decimal::{Decimal, quotient_scale};
use super::moment::{DAY, SECOND, civil, date_text, day, moment_text, parse_moment, parse_time, time_text, week};
use super::run::{Watch, from_datafusion, shown};
use super::tables::{self, Source};
use super::types::{Collation, SqlType};
use super::{SessionInfo, Statement, bound, planner, read_as};
use crate::mysql::{SqlError, SqlErrorKind, Value};
use crate::variables::Variables;

/// The rows of a statement that reads no table, with `|` between values.
fn rows(text: &str, parameters: &[Value]) -> Result<Vec<String>, SqlError> {
    let state = planner().unwrap();
    rows_within(&state, text, parameters)
}

/// Runs something with the stack that a server's threads have.
fn with_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(8 << 20).spawn(work).unwrap().join().unwrap()
}

/// The numbers of rows of the batches of a statement's answer.
fn batch_sizes(text: &str) -> Vec<usize> {
    let statement = read_as(text, "procprof").unwrap();
    let state = planner().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let batches = runtime.block_on(async {
        let plan = state.create_physical_plan(&statement.plan).await?;
        collect(plan, state.task_ctx()).await
    });
    batches.unwrap().iter().map(datafusion::arrow::array::RecordBatch::num_rows).collect()
}

fn rows_within(state: &SessionState, text: &str, parameters: &[Value]) -> Result<Vec<String>, SqlError> {
    let mut variables = Variables::default();
    variables.set_user("seven", Value::Integer(7)).unwrap();
    let now = "2026-11-21T07:30:00.123456Z".parse::<Timestamp>().unwrap();
    let session = SessionInfo {
        user: "ann@127.0.0.1".to_owned(),
        connection: 9,
        database: "procprof",
        variables: &variables,
        now,
    };
    let pool = &state.runtime_env().memory_pool;
    let watch = Arc::new(Watch::new(Duration::from_secs(600), CancellationToken::new(), None, pool));
    let context = Arc::new(StatementContext::new(None, &watch));
    let statement = bound(&session, text, Some(parameters), &watch, context)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let batches = runtime.block_on(async {
        let plan = state.create_physical_plan(&statement.plan).await?;
        collect(plan, state.task_ctx()).await
    });
    let mut rows = Vec::new();
    for batch in batches.map_err(|error| from_datafusion(&error, &watch))? {
        for row in 0..batch.num_rows() {
            let value = |(column, output): (_, &super::Output)| match shown(column, row, output.kind) {
                Value::Null => "NULL".to_owned(),
                Value::Integer(value) => value.to_string(),
                Value::Real(value) => value.to_string(),
                Value::Text(text) => text,
                Value::Blob(bytes) => format!("{bytes:?}"),
            };
            rows.push(batch.columns().iter().zip(&statement.outputs).map(value).collect::<Vec<_>>().join("|"));
        }
    }
    Ok(rows)
}

#[test]
fn constants_are_limited_before_the_statement_runs() {
    let state = planner().unwrap();
    let pool = Arc::clone(&state.runtime_env().memory_pool);
    let texts = |count: usize| vec!["REPEAT('a', 1000000)"; count].join(", ");
    let length = |text: String| format!("SELECT LENGTH({text})");
    let failed = |text: &str| rows_within(&state, text, &[]).unwrap_err();
    assert_eq!(rows_within(&state, &length(format!("CONCAT_WS('', {})", texts(1))), &[]).unwrap(), ["1000000"]);
    assert_eq!(rows_within(&state, &length(format!("COALESCE({})", texts(10))), &[]).unwrap(), ["1000000"]);
    for text in [length(format!("COALESCE({})", texts(200))), format!("SELECT {}", texts(200)), length(texts(499))] {
        let failure = failed(&text);
        assert!(
            failure.to_string().contains("the constants of the statement take more than 32 MiB"),
            "{failure} {}",
            pool.reserved()
        );
        assert_eq!(pool.reserved(), 0, "{}", &text[..40]);
    }
    // Other statements have the memory.
    let others = MemoryConsumer::new("others").register(&pool);
    others.grow(super::MEMORY_MAX - (1 << 20));
    let failure = failed("SELECT REPEAT('a', 1000000)");
    assert!(failure.to_string().contains("other statements have the memory"), "{failure}");
    drop(others);
    assert_eq!(pool.reserved(), 0, "all is given back");
}

#[test]
fn large_constants_are_copied_for_few_rows_at_a_time() {
    let numbers = "WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 300)";
    let distinct = "FROM (SELECT DISTINCT i FROM n) t";
    for (values, most) in [
        ("REPEAT('a', 300000) x", 13),
        ("CASE WHEN i > 7 THEN REPEAT('a', 100000) ELSE REPEAT('b', 100000) END x", 20),
        ("LENGTH(CONCAT(REPEAT('a', 100000), i)) x", 1024),
        ("i x", 1024),
    ] {
        let sizes = batch_sizes(&format!("{numbers} SELECT {values} {distinct}"));
        assert_eq!(sizes.iter().sum::<usize>(), 300, "{values}");
        let largest = sizes.iter().copied().max().unwrap();
        assert!(largest <= most && (largest == 300 || most < 1024), "{values}: {sizes:?}");
    }
    let text = format!("{numbers} SELECT COUNT(*), MAX(LENGTH(REPEAT('a', 1000000))) FROM n");
    assert_eq!(rows(&text, &[]).unwrap(), ["300|1000000"]);
    assert_eq!(rows("SELECT LENGTH(x) FROM (SELECT REPEAT('a', 1000000) x) t", &[]).unwrap(), ["1000000"]);
}

#[test]
fn texts_of_functions_are_reserved_while_they_are_held() {
    let state = planner().unwrap();
    let pool = Arc::clone(&state.runtime_env().memory_pool);
    let numbers = "WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 1000)";
    // Each column has 60 MB in a batch of 1,000 rows.
    let columns =
        |count: usize| (0..count).map(|at| format!("REPEAT(CHAR(64 + {at} + i % 8), 60000)")).collect::<Vec<_>>();
    let text = |count| {
        format!(
            "{numbers} SELECT MAX(LENGTH(GREATEST({}))) FROM (SELECT DISTINCT i FROM n) t",
            columns(count).join(", ")
        )
    };
    assert_eq!(rows_within(&state, &text(2), &[]).unwrap(), ["60000"]);
    let failure = rows_within(&state, &text(6), &[]).map(drop).unwrap_err();
    assert!(failure.to_string().contains("more than its share of 256 MiB of memory"), "{failure}");
    assert_eq!(pool.reserved(), 0, "all is given back");
}

#[test]
fn expressions_are_limited_in_depth_and_parts() {
    let repeated = |part: &str, count: usize| part.repeat(count);
    let deep = |text: String| with_stack(move || rows(&text, &[]));
    for (text, expected) in [
        (format!("SELECT 1{}", repeated(" OR @a", 900)), "1"),
        (format!("SELECT @a IS NULL{}", repeated(" AND @a IS NULL", 900)), "1"),
        (format!("SELECT 1{}", repeated(" + 1", 900)), "901"),
    ] {
        assert_eq!(deep(text).unwrap(), [expected]);
    }
    assert_eq!(deep(format!("SELECT 1{}", repeated(" UNION ALL SELECT 1", 400))).unwrap().len(), 401);
    assert_eq!(deep(format!("SELECT 1{}", repeated(" UNION SELECT 1", 400))).unwrap().len(), 1);
    let of = "FROM (SELECT 1 x UNION ALL SELECT 2) t";
    for (text, expected) in [
        (format!("SELECT x{} {of}", repeated(" + x", 900)), "more than 200 levels"),
        (format!("SELECT x{} {of}", repeated(" XOR x", 900)), "more than 200 levels"),
        (format!("SELECT {}x{} {of}", repeated("(", 25), repeated(" BETWEEN 0 AND 9)", 25)), "more than 20000 names"),
        (format!("SELECT {}x{} {of}", repeated("(", 40), repeated(" IN (0, 1))", 40)), "more than 10 levels of IN"),
        (format!("SELECT {}x{} {of}", repeated("(", 8), repeated(" IN (0, 1))", 8)), ""),
        (
            format!("SELECT 1{}", repeated(" UNION ALL SELECT 1 EXCEPT ALL SELECT 2", 60)),
            "set operations nest more than 40",
        ),
    ] {
        match deep(text.clone()) {
            Ok(_) => assert_eq!(expected, "", "{text}"),
            Err(failure) => assert!(failure.to_string().contains(expected), "{failure}"),
        }
    }
}

#[test]
fn columns_assign_variables_for_those_to_their_right() {
    check(&[
        ("@x := 5, @x + 1, @X := @x * 2, @x", "5|6|10|10"),
        ("@a := @b := 3 OR 0, @a + @b", "1|2"),
        ("@a := 1, IF(@seven = 7, @a := 'yes', @b := 2), @a", "1|yes|yes"),
        ("CAST(CASE @seven WHEN 1 THEN @n := 1 ELSE @n := 2 END AS CHAR), CASE @n WHEN 2 THEN 'b' END", "2|b"),
        ("CASE WHEN @seven > 1 THEN IF(0, @n := 1, @n := 2) ELSE @n := 3 END, (@n), @n IN (2, 3)", "2|2|1"),
    ]);
    let refused = |text: &str| rows(text, &[]).expect_err(text).kind;
    for text in [
        "SELECT @x, @x := 5",
        "SELECT IF(@seven = 7, @x := 1, 2), @x",
        "SELECT IF(@seven = 7, @x := 1, @x)",
        "SELECT IFNULL(@x := 1, 2)",
        "SELECT 1 WHERE @x := 1",
        "SELECT @x := 1 AS one WHERE @x = 1",
        "SELECT @x := 1 AS one ORDER BY @x",
        "SELECT @x := 1, (SELECT @x)",
        "SELECT (SELECT @x := 1)",
        "SELECT * FROM (SELECT @x := 1) t",
        "WITH t AS (SELECT @x := 1) SELECT * FROM t",
        "SELECT @x := 1 UNION SELECT 2",
        "SELECT DISTINCT @x := 1",
        "SELECT @x := COUNT(*)",
        "SELECT MAX(@x := 1)",
        "SELECT @x := ROW_NUMBER() OVER ()",
        "SELECT @x := RAND(), @x",
        "SELECT @x := (SELECT 1), @x",
    ] {
        assert_eq!(refused(text), SqlErrorKind::NotSupported, "{text}");
    }
    assert_eq!(refused("SELECT @@autocommit := 1"), SqlErrorKind::Syntax);
    let doubled = |count: usize| "SELECT @x := @seven + 1".to_owned() + &", @x := @x + @x".repeat(count);
    assert_eq!(rows(&doubled(8), &[]).unwrap()[0].rsplit('|').next(), Some("2048"));
    // Constants are one part whatever they were computed from.
    assert_eq!(
        refused(&("SELECT @x := id".to_owned() + &", @x := @x + @x".repeat(40) + " FROM nodes")),
        SqlErrorKind::Limit
    );
    let deep = "SELECT @x := id".to_owned() + &", @x := @x + 1".repeat(100) + " FROM nodes";
    assert_eq!(refused(&deep), SqlErrorKind::Limit);
    let listed = format!("SELECT @x := id + 1 + 1, @x IN ({}) FROM nodes", vec!["id"; 6000].join(", "));
    assert_eq!(refused(&listed), SqlErrorKind::Limit);
}

/// Compares values, all of them before it fails.
fn check(cases: &[(&str, &str)]) {
    let mut wrong = String::new();
    for (expression, expected) in cases {
        let text = format!("SELECT {expression}");
        let is = rows(&text, &[]).map_or_else(|failure| failure.to_string(), |rows| rows.join(" / "));
        if is != *expected {
            wrong += &format!("{expression}\n  wanted {expected}\n  is     {is}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn percentiles_of_groups_are_exact_or_approximate() {
    let numbers = "(WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1001) \
                   SELECT i % 2 AS k, CASE WHEN i % 10 = 0 THEN NULL ELSE i * i END AS x FROM n) t";
    let groups: Vec<Vec<f64>> =
        (0..2).map(|k| (1..=1001).filter(|i| i % 2 == k && i % 10 != 0).map(|i| f64::from(i * i)).collect()).collect();
    let interpolated = |group: &[f64], share: f64| {
        let place = share * (group.len() - 1) as f64;
        let (low, high) = (group[place.floor() as usize], group[place.ceil() as usize]);
        low + (high - low) * place.fract()
    };
    for share in [0.0, 0.05, 0.5, 0.9, 0.999, 1.0] {
        let of_share = |call: &str| {
            let text =
                format!("SELECT k, {} FROM {numbers} GROUP BY k ORDER BY k", call.replace("SHARE", &share.to_string()));
            rows(&text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"))
        };
        for (call, share) in [
            ("PERCENTILE_CONT(SHARE) WITHIN GROUP (ORDER BY x)", share),
            ("PERCENTILE_CONT(SHARE) WITHIN GROUP (ORDER BY x DESC)", 1.0 - share),
            ("PERCENTILE_CONT(x, SHARE)", share),
        ] {
            let expected = [0, 1].map(|k| format!("{k}|{:.10}", interpolated(&groups[k], share)));
            let close = |found: &str, wanted: &str| {
                let number = |text: &str| text.split('|').nth(1).and_then(|text| text.parse::<f64>().ok()).unwrap();
                (number(found) - number(wanted)).abs() < 1e-6
            };
            let found = of_share(call);
            assert!(found.iter().zip(&expected).all(|(found, wanted)| close(found, wanted)), "{call}: {found:?}");
        }
        let chosen = [0, 1].map(|k| {
            let group = &groups[k];
            let place = (1..=group.len()).find(|place| *place as f64 / group.len() as f64 >= share).unwrap();
            format!("{k}|{}", group[place - 1])
        });
        assert_eq!(of_share("PERCENTILE_DISC(SHARE) WITHIN GROUP (ORDER BY x)"), chosen);
        assert_eq!(of_share("PERCENTILE_DISC(x, SHARE)"), chosen);
        for call in ["PERCENTILE_APPROX(x, SHARE)", "APPROX_PERCENTILE(x, SHARE)", "PERCENTILE_APPROX(x, SHARE, 2048)"]
        {
            for (k, line) in of_share(call).iter().enumerate() {
                let found: f64 = line.split('|').nth(1).unwrap().parse().unwrap();
                // The rank of what is found is within a hundredth of what was asked for.
                let rank = |value: f64| groups[k].iter().filter(|own| **own <= value).count() as f64;
                let off = (rank(found) / groups[k].len() as f64 - share).abs();
                assert!(off < 0.01, "{call} at {share}: {line}");
            }
        }
    }
    check(&[
        (
            "k, MEDIAN(x) FROM (SELECT 1 k, 3 x UNION ALL SELECT 1, NULL UNION ALL SELECT 1, 8) t GROUP BY k",
            "1|5.5000000000",
        ),
        ("MEDIAN(x), PERCENTILE_DISC(x, 0.5), PERCENTILE_APPROX(x, 0.5) FROM (SELECT NULL x) t", "NULL|NULL|NULL"),
        (
            "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x) FROM (SELECT 'b' x UNION ALL SELECT 'a' UNION ALL SELECT 'c') t",
            "b",
        ),
        ("PERCENTILE_DISC(x, 1) FROM (SELECT DATE '2026-01-02' x UNION ALL SELECT '2026-01-01') t", "2026-01-02"),
    ]);
    for (call, why) in [
        ("PERCENTILE_CONT(2) WITHIN GROUP (ORDER BY x)", "Argument to the percentile_cont function does not belong"),
        ("PERCENTILE_CONT(x) WITHIN GROUP (ORDER BY x)", "percentile_cont with a share that varies is not supported"),
        ("PERCENTILE_CONT(0.5)", "Incorrect parameter count"),
        ("PERCENTILE_CONT(x, 0.5, 1)", "Incorrect parameter count"),
        ("PERCENTILE_CONT(x, 0.5) WITHIN GROUP (ORDER BY x)", "Incorrect parameter count"),
        ("PERCENTILE_APPROX(x, 0.5, 10)", "percentile_approx: the compression is a whole number from 2048 to 10000"),
        ("PERCENTILE_APPROX(x, 0.5, x)", "percentile_approx: the compression is a whole number"),
        ("PERCENTILE_APPROX('a', 0.5)", "Numeric datatype is required for percentile_approx function"),
        ("MEDIAN(DISTINCT x)", "syntax error: DISTINCT in median"),
        ("MEDIAN(DATE '2026-01-01')", "median of dates and times is not supported"),
        ("MEDIAN(x) OVER (ORDER BY x)", "median in a window with an order or a frame is not supported"),
        ("SUM(x) WITHIN GROUP (ORDER BY x)", "is not supported"),
    ] {
        let refused = rows(&format!("SELECT {call} FROM (SELECT 1 AS x) t"), &[]).err().unwrap().to_string();
        assert!(refused.contains(why), "{call}: {refused}");
    }
}

#[test]
fn operators_bind_as_in_mysql() {
    check(&[
        ("2 + 3 * 4, (2 + 3) * 4, 7 DIV 2 * 2, 7 MOD 4 + 1", "14|20|6|4"),
        ("-2 ^ 2, ~1 & 3, !1 + 1, NOT 1 + 1", "18446744073709551612|2|1|0"),
        ("1 | 2 ^ 3, 1 << 2 + 1, 6 & 3 | 8", "1|8|10"),
        ("1 OR 1 XOR 1, 0 OR 1 AND 0, NOT 0 AND 0", "1|0|0"),
        ("1 || 0, 1 && 0, 2 BETWEEN 1 AND 3 AND 0, 1 = 1 IN (0)", "1|0|0|0"),
        ("BINARY 'A' = 'a', 'A' = 'a' COLLATE utf8mb4_bin, 'a' 'b'", "0|0|ab"),
        (
            "INTERVAL(5, 1, 4, 9), '2026-01-31' + INTERVAL 1 MONTH, INTERVAL 1 + 1 DAY + '2026-01-01'",
            "2|2026-02-28|2026-01-03",
        ),
        ("CHAR(65, 66 USING utf8mb4), EXTRACT(YEAR_MONTH FROM '2026-03-04')", "AB|202603"),
        ("0x41, 0x41 + 0, x'4142', b'1000001' = 65, CAST(0x41 AS UNSIGNED)", "[65]|65|[65, 66]|1|65"),
    ]);
}

#[test]
fn expressions_have_types_before_there_are_rows() {
    let kinds = |text: &str| -> Result<Vec<SqlType>, SqlError> {
        Ok(read_as(text, "procprof")?.outputs.into_iter().map(|output| output.kind).collect())
    };
    use SqlType::{Bytes, Date, DateTime, Double, Integer, Logical, Null, Time, Unsigned};
    let decimal = SqlType::decimal;
    for (expression, expected) in [
        ("1", Integer),
        ("18446744073709551615", Unsigned),
        ("1.50", decimal(2)),
        ("1e0", SqlType::FLOAT),
        ("'x'", SqlType::LITERAL),
        ("x'41'", Bytes),
        ("NULL", Null),
        ("1 = 2", Logical),
        ("~0", Unsigned),
        ("1 + 1.5", decimal(1)),
        ("1 + '1'", SqlType::FLOAT),
        ("DATE '2026-01-01'", Date),
        ("NOW(3)", DateTime { digits: 3 }),
        ("CURTIME()", Time { digits: 0 }),
        ("ROUND(1.256e0, 2)", Double { decimals: 2 }),
        ("COUNT(*)", Integer),
        ("SUM(1)", decimal(0)),
        ("COALESCE(1, 1.5)", decimal(1)),
        ("COALESCE(DATE '2026-01-01', NOW())", DateTime { digits: 0 }),
        ("IF(1, 2, 'x')", SqlType::LITERAL),
        ("CAST(1 AS DECIMAL(10,3))", decimal(3)),
    ] {
        assert_eq!(kinds(&format!("SELECT {expression}")), Ok(vec![expected]), "{expression}");
    }
    let declared = kinds("SELECT node, completed, seconds FROM profiles").unwrap();
    assert_eq!(declared, [Integer, DateTime { digits: 3 }, SqlType::FLOAT]);
    let union = kinds("SELECT 1 UNION SELECT 2.25 UNION SELECT NULL").unwrap();
    assert_eq!(union, [decimal(2)]);
}

#[test]
fn names_are_those_of_the_statement() {
    let names = |text: &str| -> Vec<String> {
        read_as(text, "procprof").unwrap().outputs.into_iter().map(|output| output.name).collect()
    };
    assert_eq!(
        names("SELECT 1+1, 'it''s', count( * ) AS n, ID, p.type FROM profiles p GROUP BY p.id, p.type"),
        ["1+1", "it's", "n", "id", "type"]
    );
    assert_eq!(names("SELECT * FROM (SELECT 1 AS a, 2) t"), ["a", "2"]);
    assert_eq!(names("WITH x(y) AS (SELECT 1) SELECT y, y + 1 FROM x"), ["y", "y + 1"]);
    for (text, kind) in [
        ("SELECT nonsense FROM nodes", SqlErrorKind::UnknownColumn),
        ("SELECT * FROM nowhere", SqlErrorKind::UnknownTable),
        ("SELECT * FROM main.profiles", SqlErrorKind::UnknownDatabase),
        ("SELECT id FROM nodes a, nodes b", SqlErrorKind::Ambiguous),
        ("SELECT type, COUNT(*), node FROM profiles GROUP BY type", SqlErrorKind::NotGrouped),
        ("SELECT 1 FROM nodes WHERE COUNT(*) > 1", SqlErrorKind::WrongGroup),
        ("SELECT * FROM (SELECT 1)", SqlErrorKind::NeedsAlias),
        ("SELECT 1 UNION SELECT 1, 2", SqlErrorKind::WrongColumnCount),
        ("SELECT (SELECT 1, 2)", SqlErrorKind::OperandColumns),
        ("SELECT nonsense(1)", SqlErrorKind::UnknownFunction),
        ("SELECT ABS()", SqlErrorKind::WrongCount),
        ("SELECT @@nonsense", SqlErrorKind::UnknownVariable),
        ("SELECT 'a' COLLATE utf8mb4_bin = 'b' COLLATE utf8mb4_general_ci", SqlErrorKind::WrongArguments),
        ("SELECT 1 WHERE NOW() > 'yesterday'", SqlErrorKind::WrongMoment),
        ("SELECT id FROM nodes FORCE INDEX (x)", SqlErrorKind::UnknownKey),
        ("SELECT 1; SELECT 2", SqlErrorKind::NotSupported),
        ("WITH x AS (SELECT 1) DELETE FROM nodes", SqlErrorKind::NotSupported),
        ("SELECT 1 FROM", SqlErrorKind::Syntax),
        ("SELECT (1", SqlErrorKind::Syntax),
        ("SELECT 1)", SqlErrorKind::Syntax),
        ("SELECT [a] FROM nodes", SqlErrorKind::NotSupported),
        ("SELECT 'a\0b'", SqlErrorKind::Syntax),
    ] {
        assert_eq!(read_as(text, "procprof").err().map(|failure| failure.kind), Some(kind), "{text}");
    }
    assert!(read_as("SELECT COUNT(*) FROM columns", "information_schema").is_ok());
    assert_eq!(read_as("SELECT ?, '?', `?` - ? FROM (SELECT 1 `?`) t", "").unwrap().parameters, 2);
}

#[test]
fn parameters_and_the_session_are_constants() {
    let given = [Value::Integer(2), Value::Text("a%".to_owned()), Value::Null, Value::Real(0.5)];
    let values = rows("SELECT ? + 1, 'Abc' LIKE ?, ? IS NULL, ? * 2, @seven, @other", &given);
    assert_eq!(values, Ok(vec!["3|1|1|1|7|NULL".to_owned()]));
    check(&[
        ("DATABASE(), USER(), CONNECTION_ID()", "procprof|ann@127.0.0.1|9"),
        ("NOW(), NOW(3), CURDATE(), UTC_TIME()", "2026-11-21 07:30:00|2026-11-21 07:30:00.123|2026-11-21|07:30:00"),
    ]);
}

#[test]
fn queries_combine_and_keep_the_order_of_their_text() {
    for (text, expected) in [
        ("SELECT 3 UNION ALL SELECT 1 UNION ALL SELECT 2", "3 1 2"),
        ("SELECT 'a' UNION SELECT 'A' UNION SELECT 'b '", "a b "),
        ("SELECT x FROM (SELECT 'b' x UNION SELECT 'A') t ORDER BY x DESC LIMIT 1", "b"),
        ("SELECT COUNT(DISTINCT x) FROM (SELECT 'a' x UNION ALL SELECT 'À') t", "1"),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4) SELECT SUM(i) FROM n", "10"),
        (
            "SELECT a.x FROM (SELECT 1 x UNION ALL SELECT 2) a WHERE EXISTS (SELECT 1 FROM (SELECT 2 y) b WHERE b.y = a.x)",
            "2",
        ),
        (
            "SELECT (SELECT SUM(y) FROM (SELECT 'A' k, 2 y UNION ALL SELECT 'a', 3) b WHERE b.k = a.x) FROM (SELECT 'a' x) a",
            "5",
        ),
        (
            "SELECT (SELECT y FROM (SELECT 'A' k, 2 y UNION ALL SELECT 'a', 2) b WHERE b.k = a.x LIMIT 1) FROM (SELECT 'a' x) a",
            "2",
        ),
        ("SELECT EXISTS (SELECT 1 WHERE 1 = 0), NOT EXISTS (SELECT 1 WHERE 1 = 0)", "0|1"),
        ("SELECT x, SUM(y) FROM (SELECT 1 x, 2 y UNION ALL SELECT 1, 3) t GROUP BY x WITH ROLLUP", "1|5 NULL|5"),
        (
            "SELECT x, SUM(y) FROM (SELECT 'a' x, 2 y UNION ALL SELECT 'A', 3 UNION ALL SELECT 'b', 4) t GROUP BY x WITH ROLLUP",
            "a|5 b|4 NULL|9",
        ),
    ] {
        assert_eq!(rows(text, &[]).map(|rows| rows.join(" ")), Ok(expected.to_owned()), "{text}");
    }
}

#[test]
fn what_is_too_large_is_refused_before_it_runs() {
    let nested = format!("SELECT {}1{}", "(".repeat(101), ")".repeat(101));
    let queries = format!("SELECT {}1{}", "(SELECT ".repeat(60), ")".repeat(60));
    let wide = format!("SELECT {}1", "1+".repeat(5000));
    let long = format!("SELECT '{}'", "x".repeat(1 << 20));
    let calls = format!("SELECT {}", ["ABS(1)"; 501].join(", "));
    let level = |level: usize| format!("t{level} AS (SELECT a.x FROM t{0} a, t{0} b)", level - 1);
    let doubling = (1..=24).map(level).collect::<Vec<_>>().join(", ");
    let doubling = format!("WITH t0 AS (SELECT id x FROM nodes), {doubling} SELECT COUNT(*) FROM t24");
    for text in [&nested, &queries, &wide, &long, &calls, &doubling] {
        let shown: String = text.chars().take(60).collect();
        assert_eq!(read_as(text, "procprof").err().map(|failure| failure.kind), Some(SqlErrorKind::Limit), "{shown}");
    }
    let grown = rows("SELECT REPEAT('x', 2000000)", &[]).unwrap_err();
    assert_eq!(grown.kind, SqlErrorKind::Limit, "{grown}");
}

/// Pieces that statements are made of, thrown together: nothing panics, and what becomes a plan reads no table but those
/// there are.
#[test]
fn any_order_of_pieces_is_read_or_refused() {
    let pieces = [
        "SELECT",
        "'",
        "\"",
        "`",
        "(",
        ")",
        "-- ",
        "/*",
        "*/",
        "/*!",
        "#",
        "\\",
        ";",
        "?",
        "@@version",
        "@",
        "INTERVAL",
        "1",
        "1.5",
        "DAY",
        "CAST(",
        "AS",
        "CONVERT(",
        "USING",
        "GROUP_CONCAT(",
        "SEPARATOR",
        "'x'",
        "procprof",
        ".",
        "information_schema",
        "/",
        "-",
        "+",
        "|",
        "&",
        "<",
        "=",
        ">",
        "!",
        "NOW()",
        "user",
        ",",
        "FROM",
        " ",
        "\n",
        "é",
        "$",
        "\0",
        "LIKE",
        "DIV",
        "x",
        "nodes",
        "id",
        "WHERE",
        "GROUP BY",
        "ORDER BY",
        "LIMIT",
        "COUNT(*)",
        "OVER (",
        "IN (",
        "UNION",
        "NOT",
        "BINARY",
        "COLLATE utf8mb4_bin",
        "CASE WHEN",
        "THEN",
        "END",
        "EXISTS (",
        "0x4",
        "1e",
        "*",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut planned = 0;
    for _ in 0..20_000 {
        let mut text = "SELECT ".to_owned();
        for _ in 0..state % 12 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text += pieces[(state >> 33) as usize % pieces.len()];
            if state >> 60 & 1 == 1 {
                text.push(' ');
            }
        }
        state = state.wrapping_add(1);
        let Ok(Statement { plan, .. }) = read_as(&text, "procprof") else { continue };
        planned += 1;
        assert!(!matches!(plan, LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_)), "{text}");
    }
    assert!(planned > 100, "{planned}");
}

#[test]
fn decimals_are_exact() {
    let read = |text: &str| Decimal::parse(text).map(|(decimal, _)| decimal);
    for text in ["0", "-1.50", "99999999999999999999999999999999999999", "0.000000000000000000000000000001"] {
        assert_eq!(read(text).map(|decimal| decimal.to_string()).as_deref(), Some(text));
    }
    assert_eq!(read("12.5abc").map(|decimal| decimal.to_string()).as_deref(), Some("12.5"));
    assert_eq!((read("abc"), read("."), read("")), (None, None, None));
    let decimal = |text: &str| read(text).unwrap();
    for (text, scale, expected) in [("2.5", 0, "3"), ("-2.5", 0, "-3"), ("2.449", 1, "2.4"), ("1", 3, "1.000")] {
        assert_eq!(decimal(text).rescaled(scale).unwrap().to_string(), expected, "{text}");
    }
    let most = decimal("99999999999999999999999999999999999999");
    assert_eq!((most.rescaled(1), most.multiply(decimal("100"))), (None, None));
    assert_eq!(decimal("1").divide(decimal("3"), quotient_scale(0, 0)).unwrap().to_string(), "0.333333333");
    assert_eq!(decimal("1").divide(decimal("0.0"), 4), None);
    assert_eq!(decimal("-7.5").remainder(decimal("2")).unwrap().to_string(), "-1.5");
    assert!(decimal("1.10").compare(decimal("1.1")).is_eq() && decimal("-1").compare(decimal("0.5")).is_lt());
    check(&[
        ("7 / 2, 1 / 3 * 3, 100 * 1 / 3, 10.0 / 4", "3.5000|1.0000|33.3333|2.50000"),
        ("0.1 + 0.2 = 0.3, 1.1 * 1.1, -0.5 DIV 1, 7.5 % 2", "1|1.21|0|1.5"),
        ("SUM(x), AVG(x) FROM (SELECT 1.10 x UNION ALL SELECT 2.25) t", "3.35|1.675000"),
        ("9223372036854775807 + 1", "1690 (22003): BIGINT value is out of range in '+'"),
    ]);
}

#[test]
fn days_moments_and_times_are_those_of_the_calendar() {
    for (days, text) in [(0, "1970-01-01"), (11_016, "2000-02-29"), (-719_528, "0000-01-01"), (2_932_896, "9999-12-31")]
    {
        assert_eq!(date_text(days), text);
        let (year, month, date) = civil(days);
        assert_eq!(day(year, month, date), Some(days), "{text}");
    }
    assert_eq!((day(2023, 2, 29), day(2026, 13, 1), day(2026, 4, 31)), (None, None, None));
    for (text, micros, digits) in [
        ("2000-02-29", 11_016 * DAY, 0),
        ("2000-02-29 01:02:03.25", 11_016 * DAY + 3723 * SECOND + 250_000, 2),
        ("20000229010203", 11_016 * DAY + 3723 * SECOND, 0),
        ("00-2-29T1:2:3", 11_016 * DAY + 3723 * SECOND, 0),
    ] {
        assert_eq!(parse_moment(text), Some((micros, digits)), "{text}");
    }
    for text in ["", "yesterday", "2026-02-30", "2026-01-01 24:00:00", "2026"] {
        assert_eq!(parse_moment(text), None, "{text}");
    }
    assert_eq!(moment_text(11_016 * DAY - 1, 3), "2000-02-28 23:59:59.999");
    assert_eq!(moment_text(-1, 6), "1969-12-31 23:59:59.999999");
    for (text, shown) in
        [("-25:00:01", "-25:00:01"), ("1 02:00", "26:00:00"), ("10203", "01:02:03"), ("900:00:00", "838:59:59")]
    {
        assert_eq!(
            parse_time(text).map(|(micros, digits)| time_text(micros, digits)).as_deref(),
            Some(shown),
            "{text}"
        );
    }
    // The first days of 2016, a year that began on a Friday.
    let modes = (0..8).map(|mode| week(day(2016, 1, 3).unwrap(), mode)).collect::<Vec<_>>();
    assert_eq!(modes, [(2016, 1), (2016, 0), (2016, 1), (2015, 53), (2016, 1), (2016, 0), (2016, 1), (2015, 52)]);
    check(&[
        ("CAST(0 AS DATE)", "1235 (42000): dates with a year, month or day of 0 are not supported"),
        ("YEAR('2026-00-01')", "1235 (42000): dates with a year, month or day of 0 are not supported"),
    ]);
}

#[test]
fn texts_compare_by_weight() {
    let same = |left: &str, right: &str| key(left, Collation::General) == key(right, Collation::General);
    assert!(same("abc", "ÀBC  ") && same("", " ") && same("ß", "s"), "cases, accents and blanks at the end");
    assert!(!same("a", " a") && !same("a", "b") && !same("ae", "æ"));
    let less = |left: &str, right: &str| key(left, Collation::General) < key(right, Collation::General);
    assert!(less("a", "B") && less("a", "ab") && less("a\u{1}", "a") && less("Z", "_"));
    assert!(key("a", Collation::Binary) > key("B", Collation::Binary));
    assert!(key("a ", Collation::Binary) != key("a", Collation::Binary));
}

#[test]
fn tables_are_distinguished() {
    for table in tables::all() {
        assert!(!table.columns.is_empty() && !table.comment.is_empty(), "{}", table.name);
        assert!(tables::all().filter(|other| other.name == table.name).count() == 1, "{}", table.name);
        assert!(table.parameters.is_empty() || matches!(table.source, Source::Computed(_)), "{}", table.name);
        let names = table
            .columns
            .iter()
            .map(|column| column.name)
            .chain(table.parameters.iter().map(|parameter| parameter.name));
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{}: a name stands twice", table.name);
    }
    // The catalog's columns are those of the declared table, in its order.
    let profiles = tables::Table::named("profiles").unwrap();
    let of_catalog: Vec<&str> = super::profiles::COLUMNS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(profiles.columns.iter().map(|column| column.name).collect::<Vec<_>>(), of_catalog);
}
