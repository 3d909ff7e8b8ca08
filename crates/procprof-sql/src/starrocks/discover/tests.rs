//! Lists of nodes as several versions of StarRocks give them.

use procprof_core::config::{Config, FeQuery};

use super::*;
use crate::starrocks::Frontends;

fn frontend() -> Arc<Frontend> {
    let fe = FeQuery { addresses: vec![("fe".to_owned(), 9030)], ..FeQuery::default() };
    let config = Config { cluster: "prod".to_owned(), fe_queries: vec![fe], ..Config::defaults() };
    Frontends::default().all(&config).remove(0)
}

fn read_list(names: &[&str], rows: &[&[&str]]) -> Result<Vec<(u64, String, String, String)>, String> {
    let texts = |row: &&[&str]| row.iter().map(|cell| Value::from(*cell)).collect();
    let table =
        Table { names: names.iter().map(|name| (*name).to_owned()).collect(), rows: rows.iter().map(texts).collect() };
    let mut nodes = Vec::new();
    read(&table, "BackendId", Role::Be, &frontend(), &mut nodes).map_err(|error| error.to_string())?;
    Ok(nodes.into_iter().map(|node| (node.fe_id, node.config.name, node.config.http, node.config.brpc)).collect())
}

#[test]
fn columns_are_found_by_name_wherever_they_stand() {
    let told = |http: &str, brpc: &str| vec![(10_001, format!("BE {http}"), http.to_owned(), brpc.to_owned())];
    let usual = ["BackendId", "IP", "HeartbeatPort", "BePort", "HttpPort", "BrpcPort", "LastStartTime"];
    let row = ["10001", "10.0.0.1", "9050", "9060", "8040", "8060", "NULL"];
    assert_eq!(read_list(&usual, &[&row]).unwrap(), told("10.0.0.1:8040", "10.0.0.1:8060"));
    let other = ["New", "brpcport", "HttpPort", "IP", "BackendId"];
    assert_eq!(
        read_list(&other, &[&["?", "8060", "8040", "be-1.local", "10001"]]).unwrap(),
        told("be-1.local:8040", "be-1.local:8060")
    );
    assert_eq!(
        read_list(&other, &[&["?", "8060", "8040", "fd00::1", "10001"]]).unwrap(),
        told("[fd00::1]:8040", "[fd00::1]:8060")
    );
}

#[test]
fn rows_that_name_no_address_are_left_out() {
    let names = ["BackendId", "IP", "HttpPort", "BrpcPort"];
    for row in [
        ["x", "10.0.0.1", "8040", "8060"],
        ["7", "10.0.0.1", "8040", "8060"],
        ["10001", "10.0.0.1/../x?", "8040", "8060"],
        ["10001", "", "8040", "8060"],
        ["10001", "10.0.0.1", "0", "-1"],
        ["10001", "user@10.0.0.1", "8040", "8060"],
    ] {
        assert_eq!(read_list(&names, &[&row]).unwrap(), [], "{row:?}");
    }
    assert_eq!(read_list(&["BackendId"], &[]).unwrap(), []);
    let error = read_list(&["BackendId", "Host"], &[&["10001", "h"]]).unwrap_err();
    assert_eq!(error, "the FE of cluster prod: its list of nodes has no column IP: BackendId, Host");
}
