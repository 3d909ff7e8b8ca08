//! `SELECT` by the real `mariadb` client: tables, functions, limits, and what people with bad intent type.

use std::process::Stdio;

use mysql_async::prelude::Queryable;
use procprof_profile::format::pprof::encode_gzip;
use procprof_profile::{Nanos, ProfileBuilder};
use procprof_server::{Config, Server, ServerOptions, SqlAddress, SqlLogin};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::harness::{PATIENCE, TestServer, cpu_profile, options, parsed, quiet, until};

/// A server without SQL logins for clients on this machine.
pub(crate) async fn start(config: Config) -> TestServer {
    start_in(config, tempfile::tempdir().unwrap()).await
}

async fn start_in(config: Config, data: tempfile::TempDir) -> TestServer {
    let mysql = SqlAddress { address: "127.0.0.1:0".parse().unwrap(), explicit: true, login: SqlLogin::Everyone };
    let handle =
        Server::start(ServerOptions { mysql: Some(mysql), ..options(config, data.path().to_owned()) }).await.unwrap();
    TestServer::around(handle, data)
}

fn client(server: &TestServer) -> Command {
    let address = server.handle.as_ref().unwrap().mysql().unwrap();
    let mut command = Command::new("mariadb");
    command.env_clear().env("HOME", "/nonexistent").kill_on_drop(true);
    command.args(["--no-defaults", "--protocol=tcp", "--skip-ssl", "--batch", "--host=127.0.0.1", "--user=somebody"]);
    command.arg(format!("--port={}", address.port()));
    command
}

/// The output of a statement: its rows with their header, or the error.
async fn ask(server: &TestServer, statement: &str) -> Result<String, String> {
    let mut child = client(server)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mariadb: install it");
    child.stdin.take().unwrap().write_all(statement.as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

pub(crate) async fn rows(server: &TestServer, statement: &str) -> String {
    ask(server, statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"))
}

/// Compares answers, all of them before it fails; each has to begin with the given text.
async fn check(server: &TestServer, cases: &[(&str, &str)]) {
    let mut wrong = String::new();
    for (statement, begins) in cases {
        let answer = ask(server, statement).await.unwrap_or_else(|error| error);
        if !answer.starts_with(begins) {
            wrong += &format!("{statement}\n  wanted {begins:?}\n  is     {answer:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

pub(crate) async fn refusal(server: &TestServer, statement: &str) -> String {
    let shown: String = statement.chars().take(80).collect();
    ask(server, statement).await.err().unwrap_or_else(|| panic!("{shown}: no error"))
}

/// A server with two CPU profiles; their ids.
async fn with_profiles(config: Config) -> (TestServer, [String; 2]) {
    let server = start(config).await;
    let first = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let second = server.push("cpu", cpu_profile(1_700_000_060)).await;
    let ids = [&first, &second].map(|profile| profile["id"].as_str().unwrap().to_owned());
    (server, ids)
}

#[tokio::test]
async fn profiles_nodes_and_errors_are_tables() {
    let (server, [first, second]) = with_profiles(quiet()).await;
    let listed =
        rows(&server, "SELECT id, node, type, started, completed, seconds FROM profiles ORDER BY completed_ns").await;
    let line =
        |id: &str, at: &str, end: &str| format!("{id}\t1\tcpu\t2023-11-14 22:{at}.000\t2023-11-14 22:{end}.000\t1");
    let header = "id\tnode\ttype\tstarted\tcompleted\tseconds";
    assert_eq!(listed, [header, &line(&first, "13:20", "13:21"), &line(&second, "14:20", "14:21")].join("\n"));
    let cases = [
        ("select count(*), sum(bytes) > 0 from procprof.profiles where type = 'cpu'", "count(*)\tsum(bytes) > 0\n2\t1"),
        (
            "SELECT n.name, COUNT(*) AS profiles FROM `procprof`.`profiles` p JOIN nodes n ON n.id = p.node GROUP BY n.name",
            "name\tprofiles\nprocprof\t2",
        ),
        (
            "SELECT retry_at, pid, engine, runtime, limits FROM nodes",
            "retry_at\tpid\tengine\truntime\tlimits\nNULL\tNULL\tNULL\tNULL\tNULL",
        ),
        ("SELECT id, name, role, kind, past FROM nodes", "id\tname\trole\tkind\tpast\n1\tprocprof\tself\tself\t0"),
        ("SELECT COUNT(*) FROM errors", "COUNT(*)\n0"),
        (
            "SELECT top_function, totals->>'$[1].unit' AS unit FROM profiles LIMIT 1,1",
            "top_function\tunit\nhot_70\tnanoseconds",
        ),
        (
            "SELECT started FROM profiles WHERE completed > '2023-11-14 22:14' LIMIT 10",
            "started\n2023-11-14 22:14:20.000",
        ),
        ("SELECT 1 FROM DUAL", "1\n1"),
        ("WITH recent AS (SELECT * FROM profiles) SELECT COUNT(*) AS n FROM recent", "n\n2"),
    ];
    check(&server, &cases).await;
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    let frames = ["nanosleep", "poll_loop", "main"].map(|name| builder.frame(name));
    builder.sample(&frames, &[9], &[]);
    builder.time(Nanos(1_700_000_120_000_000_000), Nanos(1_000_000_000));
    server.push("cpu", encode_gzip(&builder.finish().unwrap()).unwrap()).await;
    let tops = rows(&server, "SELECT top_function, top_leaf FROM profiles ORDER BY completed_ns").await;
    assert_eq!(tops, "top_function\ttop_leaf\nhot_70\tNULL\nhot_70\tNULL\npoll_loop\tnanosleep");
    let filtered = "SELECT COUNT(*) AS n FROM profiles WHERE top_leaf = 'nanosleep' AND facts IS NOT NULL";
    assert_eq!(rows(&server, filtered).await, "n\n1");
    server.stop().await;
}

#[tokio::test]
async fn profiles_are_read_as_tables() {
    let (server, [first, second]) = with_profiles(quiet()).await;
    let samples = format!("SELECT function, flat, cum, unit FROM samples('{first}') ORDER BY flat DESC");
    assert_eq!(
        rows(&server, &samples).await,
        "function\tflat\tcum\tunit\nhot_70\t700000000\t700000000\tnanoseconds\nhot_30\t300000000\t300000000\tnanoseconds\nmain\t0\t1000000000\tnanoseconds"
    );
    let all =
        format!("SELECT sample_type, SUM(flat) AS flat FROM samples('{first}', '*') GROUP BY sample_type ORDER BY 1");
    assert_eq!(rows(&server, &all).await, "sample_type\tflat\ncpu\t1000000000\nsamples\t100");
    let stacks = format!("SELECT stack, value FROM stacks('{first}', 'samples') ORDER BY value");
    assert_eq!(rows(&server, &stacks).await, "stack\tvalue\nmain;hot_30\t30\nmain;hot_70\t70");
    let joined = "SELECT p.type, s.function, SUM(s.flat) AS flat FROM profiles p, samples(p.id) s GROUP BY 1, 2 ORDER BY flat DESC LIMIT 1";
    assert_eq!(rows(&server, joined).await, "type\tfunction\tflat\ncpu\thot_70\t1400000000");
    for (call, flat, count) in [
        ("top('procprof')", 1_400_000_000_i64, 2),
        ("top(1, 'cpu', '2023-11-14 22:14:00')", 700_000_000, 1),
        ("top(1, 'cpu', 1700000000, '2023-11-14 22:13:30')", 700_000_000, 1),
    ] {
        let top =
            rows(&server, &format!("SELECT function, flat, profiles FROM {call} ORDER BY flat DESC LIMIT 1")).await;
        assert_eq!(top, format!("function\tflat\tprofiles\nhot_70\t{flat}\t{count}"), "{call}");
    }
    assert_eq!(rows(&server, "SELECT COUNT(*) AS n FROM top(1, 'heap')").await, "n\n0");
    let diff = format!(
        "SELECT SUM(ABS(flat)) AS changed, SUM(flat_a) AS a, SUM(flat_b) AS b FROM diff('{first}', '{second}')"
    );
    assert_eq!(rows(&server, &diff).await, "changed\ta\tb\n0\t1000000000\t1000000000");
    for (statement, expected) in [
        ("SELECT * FROM samples('nonsense')", "ERROR 1210 (HY000) at line 1: samples: profile id \"nonsense\""),
        ("SELECT * FROM samples", "call it as samples(profile_id"),
        ("SELECT * FROM samples('01930c5e-7d1a-7000-8000-0123456789ab')", "not in the store"),
        (
            &format!("SELECT * FROM samples('{first}', 'wall')"),
            "no sample type 'wall'; there are samples, cpu and '*' for all",
        ),
        ("SELECT * FROM top('nowhere')", "node not found: nowhere"),
        ("SELECT * FROM top(1, 'cpu', 'yesterday')", "is no date"),
    ] {
        let refused = refusal(&server, statement).await;
        assert!(refused.contains(expected), "{statement}: {refused}");
    }
    server.stop().await;
}

#[tokio::test]
async fn functions_are_known_of_all_profiles_or_reported_as_missing() {
    let (server, [first, second]) = with_profiles(quiet()).await;
    let statement = "SELECT profile_id, function, self, total, self_percent AS own, total_percent AS cum \
                     FROM functions WHERE self_percent > 5 ORDER BY completed, self DESC";
    let row = |id: &str, name: &str, percent: i64| {
        format!("{id}\t{name}\t{0}\t{0}\t{percent}\t{percent}", percent * 10_000_000)
    };
    let header = "profile_id\tfunction\tself\ttotal\town\tcum";
    let known = [row(&first, "hot_70", 70), row(&first, "hot_30", 30)].join("\n");
    let all = [header, &known, &row(&second, "hot_70", 70), &row(&second, "hot_30", 30)].join("\n");
    assert_eq!(rows(&server, &format!("{statement}; SHOW WARNINGS")).await, all);

    // As from an earlier version, and with a file that broke.
    let data = server.stop().await;
    std::fs::remove_file(data.path().join("catalog.sqlite")).unwrap();
    let mut files: Vec<_> =
        std::fs::read_dir(data.path().join("profiles/1")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let whole = std::fs::read(&files[1]).unwrap();
    std::fs::write(&files[1], &whole[..whole.len() - 30]).unwrap();
    let server = start_in(quiet(), data).await;
    let warned = format!(
        "{header}\n{known}\nLevel\tCode\tMessage\nWarning\t1105\tfunctions: 1 profile is missing, whose functions cannot be read"
    );
    until(&warned, async || {
        let answer = rows(&server, &format!("{statement}; SHOW WARNINGS")).await;
        assert!(answer.contains("\nWarning\t1105\tfunctions: "), "{answer}");
        (answer == warned).then_some(())
    })
    .await;
    let states = "SELECT id, functions FROM profiles ORDER BY completed";
    assert_eq!(rows(&server, states).await, format!("id\tfunctions\n{first}\t3\n{second}\tNULL"));
    let page = server.text("/search?function=hot_70").await;
    assert!(
        page.contains("1 profile</strong> of 2 searched") && page.contains("or have too many functions: 1 profile."),
        "{page}"
    );
    server.stop().await;
}

/// Rust's client, as it begins by itself; the database in use.
async fn rusts_client(server: &TestServer) -> mysql_async::Conn {
    let port = server.handle.as_ref().unwrap().mysql().unwrap().port();
    let options = mysql_async::OptsBuilder::default().ip_or_hostname("127.0.0.1").tcp_port(port).user(Some("somebody"));
    mysql_async::Conn::new(options.db_name(Some("procprof"))).await.unwrap()
}

#[tokio::test]
async fn what_tools_ask_is_answered() {
    let (server, _) = with_profiles(quiet()).await;
    let mut client = rusts_client(&server).await;
    let mut wrong = String::new();
    for line in include_str!("tools.sql").lines().filter(|line| !line.starts_with("--")) {
        let (code, statement) = match line.split_once(": ").map(|(code, rest)| (code.parse::<u16>(), rest)) {
            Some((Ok(code), statement)) => (Some(code), statement),
            _ => (None, line),
        };
        let answered = match client.query_iter(statement).await {
            Ok(mut result) => result.collect::<mysql_async::Row>().await.map(drop),
            Err(error) => Err(error),
        };
        let refused = match &answered {
            Err(mysql_async::Error::Server(error)) => Some(error.code),
            answered => answered.as_ref().err().map(|_| 0),
        };
        if refused != code {
            wrong += &format!("{statement}\n  {answered:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    server.stop().await;
}

#[tokio::test]
async fn a_session_keeps_what_it_sets_until_it_is_reset() {
    let (server, _) = with_profiles(quiet()).await;
    let mut client = rusts_client(&server).await;
    client
        .query_drop(
            "SET @seven = 3 + 4, SESSION wait_timeout = 2000, sql_select_limit = 1, @@sql_mode = CONCAT(@@sql_mode, ',PIPES_AS_CONCAT')",
        )
        .await
        .unwrap();
    let set: Option<(i64, i64, String)> =
        client.query_first("SELECT @SEVEN, @@wait_timeout, 'a' || 'b'").await.unwrap();
    assert_eq!(set, Some((7, 2000, "ab".to_owned())));
    let ids: Vec<String> = client.query("SELECT id FROM profiles").await.unwrap();
    let limited: Vec<String> = client.query("SELECT id FROM profiles LIMIT 2").await.unwrap();
    assert_eq!((ids.len(), limited.len()), (1, 2));
    let shown: Vec<(String, String)> =
        client.query("SHOW VARIABLES WHERE variable_name IN ('WAIT_TIMEOUT', 'socket')").await.unwrap();
    assert_eq!(shown, [("socket".to_owned(), String::new()), ("wait_timeout".to_owned(), "2000".to_owned())]);
    let shown: Option<(String, String)> = client.query_first("SHOW GLOBAL VARIABLES LIKE 'wait\\_%'").await.unwrap();
    assert_eq!(shown, Some(("wait_timeout".to_owned(), "28800".to_owned())));
    let refused = client.query_drop("SET @other = 1, time_zone = 'Europe/Berlin'").await.unwrap_err();
    assert!(refused.to_string().contains("CONVERT_TZ"), "{refused}");
    let other: Option<Option<i64>> = client.query_first("SELECT @other").await.unwrap();
    assert_eq!(other, Some(None), "all of it or nothing");
    assert!(client.reset().await.unwrap(), "by its command, not by a new connection");
    let reset: Option<(String, i64, Option<i64>)> =
        client.query_first("SELECT DATABASE(), @@wait_timeout, @seven").await.unwrap();
    assert_eq!(reset, Some(("procprof".to_owned(), 28_800, None)));
    client.query_drop("SET max_execution_time = 50").await.unwrap();
    let late = client.query_drop(format!("{ENDLESS} COUNT(*) FROM n")).await.unwrap_err();
    assert!(late.to_string().contains("max_execution_time"), "{late}");
    client.disconnect().await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn results_without_values_have_types_and_dates_their_functions() {
    let server = start(quiet()).await;
    let mut client = rusts_client(&server).await;
    let empty = client
        .query_iter(
            "SELECT COUNT(*) + 1, AVG(seconds), CONCAT(id, 1), MAX(bytes) > 1, id FROM profiles WHERE 1 = 0 GROUP BY id",
        )
        .await;
    let types: Vec<_> = empty.unwrap().columns_ref().iter().map(mysql_async::Column::column_type).collect();
    use mysql_async::consts::ColumnType::{MYSQL_TYPE_DOUBLE, MYSQL_TYPE_LONGLONG, MYSQL_TYPE_VAR_STRING};
    let [whole, double, text] = [MYSQL_TYPE_LONGLONG, MYSQL_TYPE_DOUBLE, MYSQL_TYPE_VAR_STRING];
    assert_eq!(types, [whole, double, text, whole, text]);
    let cases = [
        ("SELECT CONVERT_TZ('2026-03-04 05:06:07', '+00:00', '-02:30') x", "x\n2026-03-04 02:36:07"),
        ("SELECT CONVERT_TZ('2001-01-01 01:00:00', 'UTC', 'UTC') IS NOT NULL x", "x\n1"),
        ("SELECT CONVERT_TZ('2001-01-01 01:00:00', 'UTC', 'Mars/Olympus') x", "x\nNULL"),
        ("SELECT CONVERT_TZ('2001-01-01', 'UTC', '+24:00') x", "x\nNULL"),
        ("SELECT STR_TO_DATE('04/03/2026','%d/%m/%Y') x", "x\n2026-03-04"),
        ("SELECT STR_TO_DATE('2026-03-04 05:06', '%Y-%m-%d %H:%i') x", "x\n2026-03-04 05:06:00"),
        ("SELECT STR_TO_DATE('202647 Sunday', '%X%V %W') x", "x\n2026-11-22"),
        // Only MySQL has a default there.
        (
            "SELECT i, LEAD(i, 1, 0) OVER (ORDER BY i) x FROM (SELECT 1 i UNION ALL SELECT 2) t ORDER BY i",
            "i\tx\n1\t2\n2\t0",
        ),
        ("SELECT TIMEDIFF('2026-03-04 05:00:00', '2026-03-04 03:30:00') x", "x\n01:30:00"),
        ("SELECT TIMEDIFF('01:00:00', '03:00:00.5') x", "x\n-02:00:00.5"),
        ("SELECT TIME_FORMAT('05:06:07', '%H-%i') x", "x\n05-06"),
        (
            "SELECT QUARTER('2026-03-31') a, DAYOFWEEK('2026-03-04') b, WEEKDAY('2026-03-04') c, DAYOFYEAR('2026-03-04') d",
            "a\tb\tc\td\n1\t4\t2\t63",
        ),
        ("SELECT MAKEDATE(2026, 60) x", "x\n2026-03-01"),
        ("SELECT DATE_ADD('2026-03-31', INTERVAL -30 DAY) x", "x\n2026-03-01"),
        (
            "SELECT 'it' LIKE '_t' a, 'it' LIKE 'I%' b, 'i%t' LIKE 'i|%_' ESCAPE '|' c, NULL LIKE 'x' d",
            "a\tb\tc\td\n1\t1\t1\tNULL",
        ),
        (
            "SELECT TRIM('  x ') a, TRIM(LEADING 'x' FROM 'xxa') b, TRIM(TRAILING 'x' FROM 'axx') c, REPLACE('aXa', 'a', 'bc') d",
            "a\tb\tc\td\nx\ta\ta\tbcXbc",
        ),
        (
            "SELECT INSTR('größe', 'ß') a, INSTR('abc', '') b, INSTR('abc', 'd') c, REPLACE('abc', '', 'x') d",
            "a\tb\tc\td\n4\t1\t0\tabc",
        ),
        ("SHOW DATABASES WHERE `Database` NOT LIKE '%schema%'", "Database\nprocprof"),
        (
            "SHOW COLUMNS FROM nodes WHERE Type = 'bigint' AND Field LIKE 'p%'",
            "Field\tType\tNull\tKey\tDefault\tExtra\npast\tbigint\tYES\t\tNULL\t\npid\tbigint",
        ),
        ("SHOW COLLATION WHERE Id > 200 AND Charset = 'UTF8MB4' AND `Default` = ''", "Collation\tCharset\tId"),
        ("SHOW GRANTS", "Grants for somebody@%\nGRANT SELECT ON *.* TO `somebody`@`%`\nGRANT OPERATE ON SYSTEM"),
        ("SHOW VARIABLES WHERE nonsense = 1", "--------------"),
    ];
    check(&server, &cases).await;
    let refused = refusal(&server, "SHOW VARIABLES WHERE nonsense = 1").await;
    assert!(refused.contains("ERROR 1054"), "{refused}");
    client.disconnect().await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn what_clients_say_at_connect_is_answered() {
    let server = start(quiet()).await;
    let cases = [
        ("SELECT @@version_comment LIMIT 1", "@@version_comment\nprocprof "),
        ("SELECT @@session.autocommit, @@max_allowed_packet AS packet", "@@session.autocommit\tpacket\n1\t16777216"),
        ("SELECT VERSION()", "VERSION()\n8.0.33-procprof-"),
        (
            "SELECT DATABASE(), USER(), CONNECTION_ID() > 0",
            "DATABASE()\tUSER()\tCONNECTION_ID() > 0\nNULL\tsomebody@127.0.0.1\t1",
        ),
        ("USE procprof; SELECT DATABASE()", "DATABASE()\nprocprof"),
        ("SELECT 'it''s', \"a \\\"b\\\"\" AS b, `id` FROM nodes", "it's\tb\tid\nit's\ta \"b\"\t1"),
        (
            "SELECT 7/2, 7 DIV 2, 7 MOD 2, 1 || 0, 1 <=> NULL, !0",
            "7/2\t7 DIV 2\t7 MOD 2\t1 || 0\t1 <=> NULL\t!0\n3.5000\t3\t1\t1\t0\t1",
        ),
        (
            "SELECT CONCAT('a', NULL), CONCAT('a', 1), IF(1, 'x', 'y'), LEFT('abc', 2), IFNULL(NULL, 2)",
            "CONCAT('a', NULL)\tCONCAT('a', 1)\tIF(1, 'x', 'y')\tLEFT('abc', 2)\tIFNULL(NULL, 2)\nNULL\ta1\tx\tab\t2",
        ),
        (
            "SELECT CAST('7' AS SIGNED) + 1 AS a, CONVERT(5, CHAR) AS b, CONVERT('x' USING utf8mb4) AS c",
            "a\tb\tc\n8\t5\tx",
        ),
        (
            "SELECT FROM_UNIXTIME(0) AS a, UNIX_TIMESTAMP('1970-01-02') AS b, '2024-02-28' + INTERVAL 2 DAY AS c, DATE_SUB('2024-01-01 00:00:00', INTERVAL 1 HOUR) AS d",
            "a\tb\tc\td\n1970-01-01 00:00:00\t86400\t2024-03-01\t2023-12-31 23:00:00",
        ),
        (
            "SELECT DATE_FORMAT('2024-02-03 04:05:06', '%Y/%c/%e %H:%i') AS f, 'abc' REGEXP '^A' AS r, 'a_c' LIKE 'a\\_c' AS l",
            "f\tr\tl\n2024/2/3 04:05\t1\t1",
        ),
        ("SELECT GROUP_CONCAT(name ORDER BY name SEPARATOR ';') AS names FROM nodes", "names\nprocprof"),
        (
            "SHOW TABLES",
            "Tables_in_procprof\nprofiles\nfunctions\nnodes\nerrors\ncaptures\nsamples\nstacks\ntop\ndiff\ntimeline",
        ),
        ("SHOW FULL TABLES LIKE 'node%'", "Tables_in_procprof\tTable_type\nnodes\tBASE TABLE"),
        (
            "DESCRIBE procprof.stacks",
            "Field\tType\tNull\tKey\tDefault\tExtra\nsample_type\tvarchar(255)\tYES\t\tNULL\t",
        ),
        ("DESCRIBE nodes 'i_'", "Field\tType\tNull\tKey\tDefault\tExtra\nid\tbigint\tYES\t\tNULL"),
        ("DESC nodes id", "Field\tType\tNull\tKey\tDefault\tExtra\nid\tbigint\tYES\t\tNULL"),
        ("SELECT WORD FROM INFORMATION_SCHEMA.KEYWORDS WHERE WORD IN ('SELECT', 'ABSENT')", "WORD\nABSENT"),
        ("SELECT RESERVED FROM INFORMATION_SCHEMA.KEYWORDS WHERE WORD = 'WHERE'", "RESERVED\n1"),
        ("SHOW COLUMNS FROM nodes LIKE 'id'", "Field\tType\tNull\tKey\tDefault\tExtra\nid\tbigint\tYES\t\tNULL"),
        ("SHOW CREATE TABLE errors", "Table\tCreate Table\nerrors\tCREATE TABLE `errors`"),
        (
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'procprof' LIMIT 1",
            "TABLE_NAME\nprofiles",
        ),
        ("USE information_schema; SELECT COUNT(*) AS n FROM columns WHERE TABLE_NAME = 'stacks'", "n\n4"),
        ("SHOW COUNT(*) WARNINGS", "@@session.warning_count\n0"),
        ("EXPLAIN SELECT * FROM nodes", "EXPLAIN\n"),
    ];
    check(&server, &cases).await;
    server.stop().await;
}

#[tokio::test]
async fn nothing_but_the_tables_is_reached() {
    let (server, _) = with_profiles(quiet()).await;
    let long = format!("SELECT '{}'", "x".repeat(1 << 20));
    let deep = format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000));
    let nested = format!("SELECT {}1{}", "(".repeat(101), ")".repeat(101));
    let wide = format!("SELECT {}1", "1+".repeat(5000));
    let mut wrong = String::new();
    for (statement, code, expected) in [
        ("ATTACH DATABASE '/etc/passwd' AS x", 1235, "read-only"),
        ("SELECT * FROM (ATTACH DATABASE 'x' AS y)", 1064, "syntax error"),
        ("PRAGMA database_list", 1235, "not offered"),
        ("SELECT * FROM sqlite_master", 1146, "there is no table"),
        ("SELECT * FROM read_csv('/etc/passwd')", 1146, "there is no table function"),
        ("SELECT * FROM generate_series(1, 10)", 1146, "there is no table function"),
        ("SELECT * FROM datafusion.public.profiles", 1064, "at most one database"),
        ("SELECT sql FROM temp.sqlite_temp_master", 1049, "unknown database"),
        ("SELECT facts FROM main.profiles", 1049, "unknown database"),
        ("SELECT COUNT(*) FROM main.profiles", 1049, "unknown database"),
        ("WITH profiles AS (SELECT facts FROM `main`.profiles) SELECT * FROM profiles", 1049, "unknown database"),
        ("SELECT rowid FROM profiles", 1054, "no such column: rowid"),
        ("SELECT arrow_typeof(1)", 1305, "no such function: arrow_typeof"),
        ("COPY nodes TO '/tmp/x'", 1064, ""),
        ("CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'", 1235, "read-only"),
        ("SELECT readfile('/etc/passwd')", 1305, "no such function: readfile"),
        ("SELECT writefile('/tmp/x', 'y')", 1305, "no such function"),
        ("SELECT LOAD_FILE('../../etc/passwd')", 1305, "no such function"),
        ("SELECT * FROM '../../etc/passwd'", 1146, "there is no table"),
        ("SELECT * FROM `/etc/passwd`", 1146, "there is no table"),
        ("SELECT * INTO OUTFILE '/tmp/x' FROM nodes", 1064, "syntax error"),
        ("SELECT * FROM samples('../../../etc/passwd')", 1210, "expected a UUID"),
        ("SELECT * FROM nodes WHERE id = $x", 1054, "no such column"),
        ("SELECT [id] FROM nodes", 1235, "not supported"),
        ("SELECT :id FROM nodes", 1064, "syntax error"),
        ("SELECT * FROM nowhere", 1146, "there are profiles, functions, nodes, errors"),
        ("SELECT nonsense FROM nodes", 1054, "no such column: nonsense"),
        ("SELECT \"x\" FROM `nodes", 1064, "does not end"),
        ("SELECT @@nonsense", 1193, "unknown system variable"),
        ("SELECT 1 FROM nodes WHERE", 1064, "incomplete input"),
        ("INSERT INTO nodes VALUES (1)", 1235, "read-only"),
        ("WITH x AS (SELECT 1) DELETE FROM profiles", 1235, "read-only"),
        ("WITH x AS (SELECT 1) INSERT INTO main.profiles SELECT 1", 1235, "read-only"),
        (&long, 1226, "bytes is not taken"),
        (&deep, 1226, "is not taken"),
        (&nested, 1226, "nest more than"),
        (&wide, 1226, "Expression tree is too large"),
        ("SELECT LENGTH(REPEAT(REPEAT('x', 1000000), 100)), REPEAT('x', 100000000)", 1226, "too big"),
    ] {
        let refused = ask(&server, statement).await.err().unwrap_or_default();
        if !refused.contains(&format!("ERROR {code} ")) || !refused.contains(expected) {
            let [shown, refused] = [statement, &refused].map(|text| text.chars().take(300).collect::<String>());
            wrong += &format!("{shown}: {code} {expected}: {refused}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(refusal(&server, "delimiter //\nSELECT 1; SELECT 2//").await.contains("one statement at a time"));
    assert_eq!(rows(&server, "SELECT COUNT(*) AS n FROM profiles").await, "n\n2");
    server.stop().await;
}

/// All statements of a server share its memory, and long ones the machine: those that take much or long come one after
/// the other.
static GREEDY: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Endless, in constant memory.
const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT";
/// A million rows.
const LONG: &str = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99), m AS (SELECT DISTINCT i FROM n) SELECT a.i * 100 + b.i + 1 AS i";
const OF_LONG: &str = "FROM m a, m b, m c";

/// A server that takes no profiles by itself, with keys.
async fn start_with(keys: &str) -> TestServer {
    let mut config = parsed(keys);
    (config.proc_profile_cpu_enable, config.proc_profile_mem_enable) = (false, false);
    start(config).await
}

#[tokio::test]
async fn time_is_bounded() {
    let _alone = GREEDY.lock().await;
    let server = start_with("sql_seconds_max = 1\n").await;
    for statement in [&format!("{ENDLESS} COUNT(*) FROM n"), "SELECT SLEEP(3600)"] {
        let ended = tokio::time::timeout(PATIENCE, refusal(&server, statement)).await;
        let refused = ended.unwrap_or_else(|_| panic!("{statement}: it is not ended"));
        assert!(refused.contains("ERROR 3024 (HY000)") && refused.contains("sql_seconds_max"), "{refused}");
    }
    server.stop().await;
}

#[tokio::test]
async fn rows_are_bounded() {
    let _alone = GREEDY.lock().await;
    let server = start_with("sql_rows_max = 5000\n").await;
    let refused = refusal(&server, &format!("{LONG} {OF_LONG}")).await;
    assert!(
        refused.contains("ERROR 1226 (42000)") && refused.contains("more than 5000 rows (sql_rows_max)"),
        "{refused}"
    );
    let answer = rows(&server, &format!("{LONG} {OF_LONG} LIMIT 5000")).await;
    assert_eq!(answer.lines().count(), 5001);
    server.stop().await;
}

#[tokio::test]
async fn memory_is_bounded() {
    let _alone = GREEDY.lock().await;
    let server = start(quiet()).await;
    let statement = format!("{LONG}, CONCAT(REPEAT('x', 50000), c.i) AS x {OF_LONG} ORDER BY x");
    let refused = refusal(&server, &statement).await;
    assert!(refused.contains("ERROR 1226 (42000)") && refused.contains("MiB of memory"), "{refused}");
    server.stop().await;
}

/// Functions of texts that took time in proportion to the product of their arguments, far beyond any limit: each ends
/// with its answer.
#[tokio::test]
async fn functions_of_long_texts_end() {
    let _alone = GREEDY.lock().await;
    let server = start_with("sql_seconds_max = 3600\n").await;
    let (long, half) = ("REPEAT('a', 1000000)", "REPEAT('a', 500000)");
    for (statement, answer) in [
        (format!("SELECT INSTR({long}, CONCAT({half}, 'b')) AS x"), "0"),
        (format!("SELECT INSTR(CONCAT({half}, 'b'), 'ab') AS x"), "500000"),
        (format!("SELECT LENGTH(REPLACE({long}, CONCAT({half}, 'b'), '')) AS x"), "1000000"),
        ("SELECT LENGTH(TRIM(REPEAT('ab', 200000) FROM CONCAT(REPEAT('ab', 400000), 'x'))) AS x".to_owned(), "1"),
        (format!("SELECT {long} LIKE '{}b' AS x", "%a_".repeat(300)), "0"),
        (format!("SELECT LOCATE(CONCAT({half}, 'b'), {long}) AS x"), "0"),
    ] {
        let answered = tokio::time::timeout(PATIENCE, rows(&server, &statement)).await;
        assert_eq!(
            answered.unwrap_or_else(|_| panic!("{statement}: no answer")),
            format!("x\n{answer}"),
            "{statement}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn memory_is_bounded_inside_functions() {
    let _alone = GREEDY.lock().await;
    let server = start(quiet()).await;
    let texts = |text: &str, count: usize| vec![text; count].join(", ");
    let long = "REPEAT('a', 1000000)";
    let differing =
        (0..6).map(|_| format!("GREATEST({})", texts("CONCAT('a', 'b')", 100))).collect::<Vec<_>>().join(", ");
    for (statement, expected) in [
        (format!("SELECT LENGTH(CONCAT({}))", texts(long, 20)), "too big"),
        (
            format!("SELECT LENGTH(CONCAT({}))", texts(long, 100)),
            "the constants of the statement take more than 32 MiB",
        ),
        (format!("SELECT REPLACE({long}, 'a', 'bb')"), "too big"),
        (format!("SELECT REGEXP_LIKE({long}, '{}')", "[α-ω]{9}".repeat(40)), "REGEXP: "),
        (format!("SELECT {}", texts(long, 20)), "bytes; use LEFT(text, n)"),
        (format!("SELECT {differing}"), "calls more than 500 functions"),
        ("SELECT 1 WHERE 'a' LIKE REPEAT('%a', 1000)".to_owned(), "pattern too complex"),
    ] {
        let refused = refusal(&server, &statement).await;
        let shown: String = statement.chars().take(80).collect();
        assert!(refused.contains("ERROR 1226 (42000)") && refused.contains(expected), "{shown}: {refused}");
    }
    server.stop().await;
}

/// Each level of names doubles the one before.
#[tokio::test]
async fn reading_a_statement_is_bounded() {
    let _alone = GREEDY.lock().await;
    let mut config = parsed("sql_seconds_max = 2\n");
    (config.proc_profile_cpu_enable, config.proc_profile_mem_enable) = (false, false);
    let server = start(config).await;
    for depth in [24, 60] {
        let level = |level| format!("t{level}(x) AS (SELECT a.x FROM t{0} a, t{0} b)", level - 1);
        let levels = (1..=depth).map(level).collect::<Vec<_>>().join(", ");
        let refused =
            refusal(&server, &format!("WITH t0(x) AS (SELECT 1), {levels} SELECT COUNT(*) FROM t{depth}")).await;
        let is_limit = refused.contains("ERROR 3024 (HY000)") || refused.contains("ERROR 1226 (42000)");
        assert!(is_limit, "{depth}: {}", refused.lines().last().unwrap_or_default());
    }
    server.stop().await;
}

#[tokio::test]
async fn a_statement_can_be_killed() {
    let _alone = GREEDY.lock().await;
    let server = start_with("sql_seconds_max = 3600\n").await;
    for statement in ["SELECT SLEEP(3600)".to_owned(), format!("{ENDLESS} COUNT(*) FROM n")] {
        let answer = ask(&server, &statement);
        let kill = async {
            let found = until("the statement runs", async || {
                let listed = rows(&server, "SHOW PROCESSLIST").await;
                let running = listed.lines().find(|line| line.contains("Query") && !line.contains("PROCESSLIST"))?;
                running.split('\t').next().map(str::to_owned)
            })
            .await;
            rows(&server, &format!("KILL QUERY {found}")).await
        };
        let (refused, _) = tokio::join!(answer, kill);
        assert!(refused.unwrap_err().contains("ERROR 1317 (70100)"), "{statement}");
    }
    server.stop().await;
}

#[tokio::test]
async fn rows_stream_to_slow_clients_and_stop_when_they_leave() {
    let _alone = GREEDY.lock().await;
    let server = start(quiet()).await;
    let statement = format!("{LONG}, CONCAT('row number ', b.i) AS text {OF_LONG} LIMIT 300000");
    let answer = rows(&server, &statement).await;
    assert_eq!(answer.lines().count(), 300_001);
    assert!(answer.lines().last().is_some_and(|line| line.contains("\trow number ")), "{:?}", answer.lines().last());
    // One that leaves in the middle, many times: nothing keeps running.
    for _ in 0..20 {
        let mut child = client(&server)
            .arg("--quick")
            .arg(format!("--execute={LONG} {OF_LONG}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 100]).await.unwrap();
        child.kill().await.unwrap();
    }
    until("statements of clients that left end", async || {
        let listed = rows(&server, "SHOW PROCESSLIST").await;
        (listed.lines().filter(|line| line.contains("Query")).count() <= 1).then_some(())
    })
    .await;
    assert_eq!(rows(&server, "SELECT 1 AS one").await, "one\n1");
    server.stop().await;
}
