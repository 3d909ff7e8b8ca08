//! Statements and scripts, as clients and the seeds write them, and as somebody with bad intent does.

use procprof_profile::ProfileId;

use super::drawing::with_link;
use super::script::{self, Call, Drawing};
use super::statement::{KillScope, Show, Statement, Target, parse};
use super::token::{TokenKind, tokens};
use super::variables::{like, value};
use crate::mysql::FailureKind;

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
        ("SET NAMES utf8mb4".to_owned(), Statement::Set(vec![("NAMES".into(), "utf8mb4".into())])),
        (
            "/*!40101 SET @@session.autocommit = 1, sql_mode=concat(@@sql_mode, ',x') */".to_owned(),
            Statement::Set(vec![("@@session.autocommit".into(), "1".into()), ("sql_mode".into(), "concat(@@sql_mode, ',x')".into())]),
        ),
        ("(SELECT 1)".to_owned(), Statement::Select),
        ("BEGIN".to_owned(), Statement::Nothing),
    ] {
        assert_eq!(parse(&text), Ok(statement), "{text}");
    }
}

#[test]
fn show_statements_keep_what_matters() {
    let plain = Show { what: String::new(), of: None, like: None, full: false, equals: None };
    for (text, show) in [
        ("SHOW BACKENDS", Show { what: "backends".into(), ..plain.clone() }),
        ("show compute nodes;", Show { what: "compute nodes".into(), ..plain.clone() }),
        ("SHOW PROC '/backends'", Show { what: "proc".into(), of: Some("/backends".into()), ..plain.clone() }),
        (
            "SHOW FULL COLUMNS FROM `procprof`.`nodes`",
            Show { what: "columns".into(), of: Some("nodes".into()), full: true, ..plain.clone() },
        ),
        ("SHOW SESSION VARIABLES LIKE 'char%'", Show { what: "variables".into(), like: Some("char%".into()), ..plain.clone() }),
        (
            "SHOW VARIABLES WHERE Variable_name = 'version'",
            Show { what: "variables".into(), equals: Some(("Variable_name".into(), "version".into())), ..plain.clone() },
        ),
        ("SHOW COUNT(*) WARNINGS", Show { what: "count warnings".into(), ..plain }),
    ] {
        assert_eq!(parse(text), Ok(Statement::Show(show)), "{text}");
    }
}

#[test]
fn what_is_no_statement_says_where() {
    for (text, kind, says) in [
        ("", FailureKind::Syntax, "the statement is empty"),
        (";", FailureKind::Syntax, "the statement is empty"),
        ("admin execute on", FailureKind::Syntax, "ALL BACKENDS"),
        ("admin execute on x 'y'", FailureKind::Syntax, "near 'x 'y'' (byte 18)"),
        ("admin execute on -1 'y'", FailureKind::Syntax, "near '-1"),
        ("admin execute on 99999999999999999999999 'y'", FailureKind::Syntax, "a node's id"),
        ("admin execute on 1 'y' or 1", FailureKind::Syntax, "the end of the statement near 'or 1'"),
        ("admin execute on 1 'y", FailureKind::Syntax, "byte 20: a string begins here and does not end"),
        ("ATTACH DATABASE '/tmp/x' AS y", FailureKind::NotSupported, "ATTACH is not offered"),
        ("pragma user_version", FailureKind::NotSupported, "PRAGMA is not offered"),
        ("DROP TABLE profiles", FailureKind::NotSupported, "read-only"),
        ("hello", FailureKind::Syntax, "near 'hello'"),
        ("/* no end", FailureKind::Syntax, "comment"),
    ] {
        let failure = parse(text).unwrap_err();
        assert!(failure.kind == kind && failure.text.contains(says), "{text:?}: {failure}");
    }
    let long = "select ".to_owned() + &"1,".repeat(30_000);
    assert_eq!(parse(&long).unwrap_err().kind, FailureKind::Limit);
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
    let two = " System . print ( HeapProf.getInstance().has_enable() ) ;\n System.print(HeapProf.getInstance().snapshot());";
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
        assert!(failure.kind == FailureKind::Syntax && failure.text.starts_with("script: expected "), "{wrong:?}: {failure}");
    }
    let many = "System.print(HeapProf.getInstance().has_enable());".repeat(17);
    assert_eq!(script::parse(&many).unwrap_err().kind, FailureKind::Limit);
    assert_eq!(script::parse(&"x".repeat(1 << 20)).unwrap_err().kind, FailureKind::Limit);
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
    assert_eq!(value("session.autocommit"), Some("1"));
    assert_eq!(value("GLOBAL.Wait_Timeout"), Some("28800"));
    assert_eq!(value("nonsense"), None);
}
