//! Statements and scripts, of ordinary clients, of the seeds, and of attackers.

use procprof_profile::ProfileId;

use super::heap_graph::with_link;
use super::like::like;
use super::script::{self, Call, Drawing};
use super::set::{Assignment, Given, assign};
use super::statement::{KillScope, Show, Statement, Target, parse};
use super::token::{TokenKind, tokens};
use super::variables::Variables;
use crate::mysql::SqlErrorKind;

#[test]
fn statements_are_parsed_in_any_case() {
    let print = "System.print(HeapProf.getInstance().has_enable())";
    let admin = |target| Statement::AdminExecute { target, script: print.to_owned() };
    for (text, statement) in [
        (format!("admin execute on 10001 '{print}'"), admin(Target::Ids(vec![10_001]))),
        (format!("ADMIN EXECUTE ON 1, 2,3 \"{print}\" ;"), admin(Target::Ids(vec![1, 2, 3]))),
        (format!("Admin Execute On All Backends '{print}';;"), admin(Target::AllBackends)),
        (format!("/* who */ ADMIN -- what\n EXECUTE ON ALL COMPUTE NODES '{print}'"), admin(Target::AllComputeNodes)),
        (format!("admin execute on frontend '{print}'"), admin(Target::Frontend)),
        (
            "COLLECT CPU ON 10001, demo-fe FOR 10 SECONDS".to_owned(),
            Statement::Collect { what: "cpu".into(), nodes: vec!["10001".into(), "demo-fe".into()], seconds: Some(10) },
        ),
        (
            "collect heap on `BE host:8040`".to_owned(),
            Statement::Collect { what: "heap".into(), nodes: vec!["BE host:8040".into()], seconds: None },
        ),
        ("kill 7".to_owned(), Statement::Kill { connection: 7, scope: KillScope::Connection }),
        ("KILL QUERY 7".to_owned(), Statement::Kill { connection: 7, scope: KillScope::Query }),
        ("use procprof".to_owned(), Statement::Use("procprof".into())),
        ("SET NAMES utf8mb4".to_owned(), Statement::Set(vec![Assignment::Names(Some("utf8mb4".into()), None)])),
        (
            "/*!40101 SET @@session.autocommit = 1, sql_mode=concat(@@sql_mode, ',x') */".to_owned(),
            Statement::Set(vec![
                Assignment::System("session.autocommit".into(), Given::Literal(1.into())),
                Assignment::System("sql_mode".into(), Given::Expression("concat(@@sql_mode, ',x')".into())),
            ]),
        ),
        ("(SELECT 1)".to_owned(), Statement::Select),
        ("BEGIN".to_owned(), Statement::Transaction { begins: true }),
        ("COMMIT".to_owned(), Statement::Transaction { begins: false }),
        ("COMMIT AND CHAIN".to_owned(), Statement::Transaction { begins: true }),
        ("FLUSH TABLES".to_owned(), Statement::Nothing),
    ] {
        assert_eq!(parse(&text), Ok(statement), "{text}");
    }
}

#[test]
fn show_statements_keep_what_matters() {
    let plain = Show { what: String::new(), of: None, like: None, full: false, global: false, condition: None };
    for (text, show) in [
        ("SHOW BACKENDS", Show { what: "backends".into(), ..plain.clone() }),
        ("show compute nodes;", Show { what: "compute nodes".into(), ..plain.clone() }),
        ("SHOW PROC '/backends'", Show { what: "proc".into(), of: Some("/backends".into()), ..plain.clone() }),
        (
            "SHOW FULL COLUMNS FROM `procprof`.`nodes`",
            Show { what: "columns".into(), of: Some("nodes".into()), full: true, ..plain.clone() },
        ),
        (
            "SHOW SESSION VARIABLES LIKE 'char%'",
            Show { what: "variables".into(), like: Some("char%".into()), ..plain.clone() },
        ),
        (
            "SHOW VARIABLES WHERE Variable_name = 'version'",
            Show { what: "variables".into(), condition: Some("Variable_name = 'version'".into()), ..plain.clone() },
        ),
        ("SHOW /*!50002 GLOBAL */ STATUS", Show { what: "status".into(), global: true, ..plain.clone() }),
        ("SHOW GRANTS FOR 'a'@'b'", Show { what: "grants".into(), ..plain.clone() }),
        ("SHOW WARNINGS LIMIT 5", Show { what: "warnings".into(), ..plain.clone() }),
        ("SHOW COUNT(*) WARNINGS", Show { what: "count warnings".into(), ..plain }),
    ] {
        assert_eq!(parse(text), Ok(Statement::Show(show)), "{text}");
    }
}

#[test]
fn syntax_errors_contain_their_place() {
    for (text, kind, expected) in [
        ("", SqlErrorKind::Syntax, "the statement is empty"),
        (";", SqlErrorKind::Syntax, "the statement is empty"),
        ("admin execute on", SqlErrorKind::Syntax, "ALL BACKENDS"),
        ("admin execute on x 'y'", SqlErrorKind::Syntax, "near 'x 'y'' (byte 18)"),
        ("admin execute on -1 'y'", SqlErrorKind::Syntax, "near '-1"),
        ("admin execute on 99999999999999999999999 'y'", SqlErrorKind::Syntax, "a node's id"),
        ("admin execute on 1 'y' or 1", SqlErrorKind::Syntax, "the end of the statement near 'or 1'"),
        ("admin execute on 1 'y", SqlErrorKind::Syntax, "byte 20: a string begins here and does not end"),
        ("ATTACH DATABASE '/tmp/x' AS y", SqlErrorKind::NotSupported, "ATTACH is not offered"),
        ("pragma user_version", SqlErrorKind::NotSupported, "PRAGMA is not offered"),
        ("prepare s from 'select 1'", SqlErrorKind::NotSupported, "prepared by the protocol"),
        ("call p()", SqlErrorKind::NotSupported, "no stored procedures"),
        ("DROP TABLE profiles", SqlErrorKind::NotSupported, "read-only"),
        ("hello", SqlErrorKind::Syntax, "near 'hello'"),
        ("/* no end", SqlErrorKind::Syntax, "comment"),
    ] {
        let failure = parse(text).unwrap_err();
        assert!(failure.kind == kind && failure.text.contains(expected), "{text:?}: {failure}");
    }
    let long = "select ".to_owned() + &"1,".repeat(30_000);
    assert_eq!(parse(&long).unwrap_err().kind, SqlErrorKind::Limit);
}

#[test]
fn scripts_are_a_closed_set() {
    let one = |method: &str| script::parse(&format!("System.print(HeapProf.getInstance().{method})"));
    for (method, call) in [
        ("enable_prof()", Call::Enable(true)),
        ("disable_prof( )", Call::Enable(false)),
        ("has_enable()", Call::HasEnable),
        ("snapshot()", Call::Snapshot),
        ("to_dot_format(\"heap_profile.x\")", Call::ToDot("heap_profile.x".into())),
        ("dump_dot_snapshot()", Call::Dump(Drawing::Dot)),
        ("dump_flamegraph_snapshot()", Call::Dump(Drawing::Flamegraph)),
        ("diff_dot('a' , 'b')", Call::DiffDot("a".into(), "b".into())),
    ] {
        assert_eq!(one(method), Ok(vec![call]), "{method}");
    }
    let two =
        " System . print ( HeapProf.getInstance().has_enable() ) ;\n System.print(HeapProf.getInstance().snapshot());";
    assert_eq!(script::parse(two), Ok(vec![Call::HasEnable, Call::Snapshot]));
    for wrong in [
        "",
        ";",
        "System.print(File.open(1))",
        "System.print(HeapProf.getInstance().destroy())",
        "System.print(HeapProf.getInstance().to_dot_format())",
        "System.print(HeapProf.getInstance().to_dot_format(snapshot()))",
        "System.print(HeapProf.getInstance().enable_prof(1))",
        "System.print(HeapProf.getInstance().has_enable()); System.exec(\"rm\")",
        "system.print(HeapProf.getInstance().has_enable())",
        "System.print(HeapProf.getInstance().to_dot_format(\"a))",
        "`id`",
    ] {
        let failure = script::parse(wrong).unwrap_err();
        assert!(
            failure.kind == SqlErrorKind::Syntax && failure.text.starts_with("script: expected "),
            "{wrong:?}: {failure}"
        );
    }
    let many = "System.print(HeapProf.getInstance().has_enable());".repeat(17);
    assert_eq!(script::parse(&many).unwrap_err().kind, SqlErrorKind::Limit);
    assert_eq!(script::parse(&"x".repeat(1 << 20)).unwrap_err().kind, SqlErrorKind::Limit);
}

#[test]
fn tokens_follow_mysql() {
    let kinds = |text: &str| tokens(text).unwrap().into_iter().map(|token| token.kind).collect::<Vec<_>>();
    assert_eq!(
        kinds(r"'it''s' 'a\'b\n' `a``b`"),
        [TokenKind::Text("it's".into()), TokenKind::Text("a'b\n".into()), TokenKind::Name("a`b".into()),]
    );
    assert_eq!(
        kinds("@@session.sql_mode @x 1.5e-3 größe"),
        [
            TokenKind::System("session.sql_mode".into()),
            TokenKind::User("x".into()),
            TokenKind::Number("1.5e-3".into()),
            TokenKind::Word("größe".into()),
        ]
    );
    assert_eq!(kinds("a -- b\n# c\n--\nd"), [TokenKind::Word("a".into()), TokenKind::Word("d".into())]);
    assert_eq!(kinds("1--2").len(), 4, "two minus signs, no comment");
}

#[test]
fn only_a_graph_gets_a_link_and_only_where_it_is_set() {
    let (id, dot) = (ProfileId(7), "digraph \"x\" {\n}\n".to_owned());
    assert_eq!(with_link(dot.clone(), "", id), dot);
    assert_eq!(with_link("No nodes to print".to_owned(), "https://x", id), "No nodes to print");
    assert_eq!(with_link(dot, "https://x/", id), format!("digraph \"x\" {{\n}}\n// https://x/p/{id}?format=svg\n"));
}

#[test]
fn patterns_and_variables() {
    for (text, pattern, matches) in [
        ("version", "version", true),
        ("version_comment", "VERSION%", true),
        ("version", "ver_ion", true),
        ("version", "ver\\_ion", false),
        ("a_b", "a\\_b", true),
        ("", "%", true),
        ("abc", "%b%c%", true),
        ("abc", "b", false),
    ] {
        assert_eq!(like(text, pattern), matches, "{text:?} like {pattern:?}");
    }
    assert!(!like(&"a".repeat(2000), &"%a".repeat(1000).replace("a", "aab")), "no pattern takes long");
}

/// The assignments of a statement, carried out.
fn set(variables: &mut Variables, text: &str) -> Result<(), crate::mysql::SqlError> {
    let Statement::Set(assignments) = parse(text)? else { panic!("{text}: no SET") };
    assignments.into_iter().try_for_each(|assignment| assign(variables, assignment))
}

#[test]
fn every_variable_takes_the_value_that_it_has() {
    let mut variables = Variables::default();
    let all: Vec<(&str, String)> =
        variables.list(false).map(|(name, value)| (name, value.replace('\'', "''"))).collect();
    for (name, value) in all {
        assert_eq!(set(&mut variables, &format!("SET {name} = '{value}'")), Ok(()), "{name}");
        if let Some(crate::mysql::Value::Integer(number)) = variables.value(name) {
            assert_eq!(set(&mut variables, &format!("SET @@session.{name} = {number}")), Ok(()), "{name}");
        }
    }
}

#[test]
fn variables_that_rows_assigned_are_lost_until_they_are_set() {
    let mut variables = Variables::default();
    variables.set_user("a", 1.into()).unwrap();
    variables.lose_user("a").unwrap();
    let refused = variables.user("A").unwrap_err();
    assert!(refused.kind == SqlErrorKind::NotSupported && refused.text.contains("SET @a"), "{refused:?}");
    variables.set_user("A", 2.into()).unwrap();
    assert_eq!(variables.user("a"), Ok(2.into()));
    let full = (0..1000).find_map(|number| variables.lose_user(&format!("v{number}")).err());
    assert_eq!(full.map(|full| full.kind), Some(SqlErrorKind::Limit));
}

#[test]
fn variables_are_set_and_shown() {
    let mut variables = Variables::default();
    let text = |text: &str| Some(crate::mysql::Value::from(text));
    let number = |number: i64| Some(number.into());
    assert_eq!(variables.value("session.autocommit"), number(1));
    assert_eq!(variables.value("GLOBAL.Wait_Timeout"), number(28_800));
    assert_eq!(variables.value("tx_read_only"), number(0));
    assert_eq!(variables.value("sql_select_limit"), text("18446744073709551615"));
    assert_eq!(variables.value("nonsense"), None);
    for (statement, name, value) in [
        ("SET autocommit=0", "autocommit", number(0)),
        ("SET @@session.autocommit := ON", "autocommit", number(1)),
        ("SET LOCAL wait_timeout = 2000, net_write_timeout=600000", "net_write_timeout", number(600_000)),
        ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY", "tx_isolation", text("READ-COMMITTED")),
        ("SET TRANSACTION READ WRITE", "tx_read_only", number(0)),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "transaction_read_only", number(1)),
        ("SET NAMES utf8 COLLATE utf8_unicode_ci", "collation_connection", text("utf8_unicode_ci")),
        ("SET CHARACTER SET 'latin1'", "character_set_client", text("latin1")),
        ("SET NAMES DEFAULT", "character_set_client", text("utf8mb4")),
        ("SET character_set_results = NULL", "character_set_results", Some(crate::mysql::Value::Null)),
        ("SET time_zone = '+00:00'", "time_zone", text("+00:00")),
        (
            "SET sql_mode='strict_trans_tables, PIPES_AS_CONCAT'",
            "sql_mode",
            text("STRICT_TRANS_TABLES,PIPES_AS_CONCAT"),
        ),
        ("SET SQL_SELECT_LIMIT=501", "sql_select_limit", number(501)),
        ("SET SQL_SELECT_LIMIT=DEFAULT", "sql_select_limit", text("18446744073709551615")),
        ("SET ROLE NONE", "autocommit", number(1)),
        ("SET CATALOG default_catalog", "autocommit", number(1)),
    ] {
        assert_eq!(set(&mut variables, statement), Ok(()), "{statement}");
        assert_eq!(variables.value(name), value, "{statement}");
    }
    assert!(variables.pipes_concat() && variables.autocommit());
    set(&mut variables, "SET @a = 7, @B='x', @c = TRUE").unwrap();
    assert_eq!(
        ["A", "b", "c", "d"].map(|name| variables.user(name).ok()),
        [number(7), text("x"), number(1), Some(crate::mysql::Value::Null)]
    );
    let before = variables.clone();
    for (statement, code) in [
        ("SET nonsense = 1", 1193),
        ("SET time_zone = '+02:00'", 1298),
        ("SET sql_mode = 'ANSI_QUOTES'", 1231),
        ("SET sql_mode = 'NO_BACKSLASH_ESCAPES'", 1231),
        ("SET autocommit = 7", 1231),
        ("SET wait_timeout = 'x'", 1231),
        ("SET NAMES klingon", 1115),
        ("SET collation_connection = klingon", 1273),
        ("SET version = 'x'", 1238),
        ("SET SQL_AUTO_IS_NULL = 1", 1238),
        ("SET GLOBAL wait_timeout = 1", 1227),
        ("SET PERSIST max_connections = 1", 1227),
        ("SET PASSWORD = 'x'", 1235),
        ("SET CATALOG hive", 1235),
        ("SET", 1064),
        ("SET autocommit", 1064),
        ("SET x y = 1", 1064),
        ("SET autocommit =", 1064),
        ("SET TRANSACTION nonsense", 1064),
    ] {
        let refused = set(&mut variables, statement).unwrap_err();
        assert_eq!(refused.kind.code().0, code, "{statement}: {refused}");
    }
    assert_eq!(variables, before, "what is refused changes nothing");
    let names: Vec<&str> = variables.list(false).map(|(name, _)| name).collect();
    assert!(names.is_sorted(), "{names:?}");
    assert!(
        (0..1000).any(|number| set(&mut variables, &format!("SET @x{number} = 1")).is_err()),
        "a session keeps only so much"
    );
}
