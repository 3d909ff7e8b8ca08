//! Statements that are sent to frontends, and how their lists are combined.

use super::show::append;
use super::{Table, heap};
use crate::mysql::Value;
use crate::script::parse;

#[test]
fn calls_are_written_anew_and_names_for_a_shell_are_not() {
    let sent = |script: &str| parse(script).unwrap().iter().map(heap::method).collect::<Vec<_>>();
    let print = |call: &str| format!("System.print( HeapProf.getInstance() . {call} );");
    let check =
        |call: &str, wanted: Option<&str>| assert_eq!(sent(&print(call)), [wanted.map(str::to_owned)], "{call}");
    check("enable_prof( )", Some("enable_prof()"));
    check("dump_dot_snapshot()", Some("dump_dot_snapshot()"));
    check("to_dot_format('/data/heap_profile.1.2')", Some("to_dot_format(\"/data/heap_profile.1.2\")"));
    for name in ["/a/../b", "/a;reboot", "/a b", "-x", "$(id)", "`id`", "/a\\n", ""] {
        check(&format!("to_dot_format(\"{name}\")"), None);
    }
    check("dump_flamegraph_snapshot()", None);
    check("diff_dot('a', 'b')", None);
}

#[test]
fn lists_of_several_sources_share_their_columns() {
    let table = |names: &[&str], rows: &[&[&str]]| Table {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        rows: rows.iter().map(|row| row.iter().map(|cell| Value::from(*cell)).collect()).collect(),
    };
    let mut whole = Table::default();
    append(&mut whole, table(&["BackendId", "IP", "Odd"], &[&["1", "a", "x"]]));
    append(&mut whole, table(&["IP", "backendid", "Alive"], &[&["b", "2", "true"]]));
    append(&mut whole, table(&["Nothing"], &[]));
    let null = || Value::Null;
    assert_eq!(whole.names, ["BackendId", "IP", "Odd", "Alive"]);
    assert_eq!(
        whole.rows,
        [vec!["1".into(), "a".into(), "x".into(), null()], vec!["2".into(), "b".into(), null(), "true".into()]]
    );
}
