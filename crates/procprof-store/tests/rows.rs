//! Rows by columns: every filter and order, batch by batch, as of one moment.

use std::collections::BTreeMap;

use procprof_profile::{Nanos, ProfileId};
use procprof_store::{Column, Filter, Order, RowBatch, RowQuery, Rows, Store, Values};

use crate::support::{SECOND, START, all, cpu, id, meta, open, put, put_meta};

fn filled(store: &Store) {
    for number in 0..50 {
        let start = START + number as i64 / 2 * SECOND;
        let mut facts =
            meta(number as u128, [10001, 10002, 10003][number % 3], ["cpu", "heap"][number % 2], start + SECOND);
        facts.cluster = ["east", "west"][number % 2].to_owned();
        facts.instance_start = Some(Nanos(START - number as i64));
        facts.engine = ["", "perf \"x\""][number % 2].to_owned();
        facts.lost = (number % 3 == 0).then_some(number as u64);
        facts.labels = BTreeMap::from([("zone".to_owned(), format!("z{}", number % 4))]);
        put_meta(store, facts, start, 0).unwrap();
    }
}

/// The facts as JSON.
fn facts(meta: &procprof_profile::Meta) -> String {
    let comments = meta.to_comments();
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\\\""));
    let mut facts: Vec<(&str, &str)> =
        comments.iter().map(|comment| comment.strip_prefix("#procprof:").unwrap().split_once('=').unwrap()).collect();
    facts.sort_unstable();
    let facts: Vec<String> = facts.iter().map(|(key, value)| format!("{}:{}", quoted(key), quoted(value))).collect();
    format!("{{{}}}", facts.join(","))
}

fn batches(mut rows: Rows, at_most: usize) -> Vec<RowBatch> {
    std::iter::from_fn(|| rows.next(at_most).unwrap()).collect()
}

fn ids(store: &Store, query: &RowQuery, at_most: usize) -> Vec<ProfileId> {
    let at = query.columns.iter().position(|column| *column == Column::Id).unwrap();
    let values =
        batches(store.rows(query).unwrap(), at_most).into_iter().map(|mut batch| batch.columns.swap_remove(at));
    values.flat_map(|values| if let Values::Ids(ids) = values { ids } else { panic!("{values:?}") }).collect()
}

#[test]
fn every_column_is_that_of_the_entry() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    filled(&store);
    store.pin(id(7)).unwrap();
    let query = RowQuery { columns: Column::ALL.to_vec(), order: Order::NewestFirst, ..RowQuery::default() };
    let entries = all(&store, 100);
    let batch = batches(store.rows(&query).unwrap(), 100).remove(0);
    assert_eq!(batch.rows, 50);
    for (row, entry) in entries.iter().enumerate() {
        let mut shown = Vec::new();
        for values in &batch.columns {
            shown.push(match values {
                Values::Ids(ids) => ids[row].to_string(),
                Values::Integers(numbers) => numbers[row].to_string(),
                Values::Texts(texts) => texts.get(row).unwrap_or_default().to_owned(),
            });
        }
        let expected = [
            entry.id.to_string(),
            entry.node.to_string(),
            entry.profile_type.to_string(),
            entry.file_name.clone(),
            entry.completed.0.to_string(),
            entry.start.0.to_string(),
            entry.duration.0.to_string(),
            entry.bytes.to_string(),
            entry.meta.trigger.clone(),
            entry.meta.cluster.clone(),
            format!("\nzone={}\n", entry.meta.labels["zone"]),
            "1".to_owned(),
            r#"[{"kind":"samples","unit":"count","value":7}]"#.to_owned(),
            "hot_70".to_owned(),
            "7".to_owned(),
            entry.meta.instance_start.unwrap().0.to_string(),
            "3".to_owned(),
            "-1".to_owned(),
            entry.meta.engine.clone(),
            entry.meta.lost.map_or(-1, |lost| lost as i64).to_string(),
            i64::from(entry.pinned).to_string(),
            facts(&entry.meta),
            entry.summary.top.first().map_or(String::new(), |top| top.leaf.clone()),
        ];
        assert_eq!(shown, expected);
    }
}

#[test]
fn filters_and_orders_give_what_a_list_gives() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    filled(&store);
    let none = Filter::default();
    for filter in [
        none.clone(),
        Filter { ids: vec![id(3), id(7), id(99)], ..none.clone() },
        Filter { ids: vec![id(3)], nodes: vec![10001], ..none.clone() },
        Filter { nodes: vec![10002], ..none.clone() },
        Filter { nodes: vec![10002, 10003], types: vec![cpu()], ..none.clone() },
        Filter { from: Some(Nanos(START + 5 * SECOND)), to: Some(Nanos(START + 9 * SECOND)), ..none.clone() },
        Filter { cluster: Some("west".into()), labels: vec![("zone".into(), "z3".into())], ..none.clone() },
        Filter { trigger: Some("manual".into()), ..none.clone() },
        Filter { text: Some("HEAP-prof".into()), ..none.clone() },
    ] {
        let page = procprof_store::PageRequest::first(1000);
        let mut expected: Vec<ProfileId> =
            store.list(&filter, &page).unwrap().rows.iter().map(|entry| entry.id).collect();
        for columns in [vec![Column::Id], vec![Column::TopFunction, Column::Id]] {
            for at_most in [1, 7, 50, 1000] {
                let query = |order| RowQuery { filter: filter.clone(), columns: columns.clone(), order };
                assert_eq!(ids(&store, &query(Order::NewestFirst), at_most), expected, "{filter:?}");
                let mut any = ids(&store, &query(Order::Any), at_most);
                expected.reverse();
                assert_eq!(ids(&store, &query(Order::OldestFirst), at_most), expected, "{filter:?}");
                any.sort();
                let mut sorted = expected.clone();
                sorted.sort();
                assert_eq!(any, sorted, "{filter:?}");
                expected.reverse();
            }
        }
    }
    let many = RowQuery { filter: Filter { ids: vec![id(1); 1001], ..none }, ..RowQuery::default() };
    assert!(store.rows(&many).is_err());
}

#[test]
fn rows_are_counted_without_columns_and_may_lack_a_value() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    filled(&store);
    let counts: Vec<usize> =
        batches(store.rows(&RowQuery::default()).unwrap(), 20).iter().map(|batch| batch.rows).collect();
    assert_eq!(counts, [20, 20, 10]);
    std::fs::write(folder.path().join("profiles/10001/cpu-profile-20251120-100000-flame.html.gz"), "page").unwrap();
    drop(store);
    let store = open(folder.path());
    let query = RowQuery { columns: vec![Column::TopFunction], order: Order::OldestFirst, ..RowQuery::default() };
    let first = batches(store.rows(&query).unwrap(), 2).remove(0);
    let Values::Texts(texts) = &first.columns[0] else { panic!("{first:?}") };
    assert_eq!((texts.get(0), texts.get(1), texts.get(2)), (None, Some("hot_70"), None));
}

#[test]
fn what_changes_meanwhile_changes_nothing_in_rows_begun() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    filled(&store);
    let query = RowQuery { columns: vec![Column::Id], ..RowQuery::default() };
    let mut rows = store.rows(&query).unwrap();
    let first = rows.next(10).unwrap().unwrap();
    put(&store, 777, 10001, "cpu", START + 100 * SECOND).unwrap();
    store.delete(id(40)).unwrap();
    store.rebuild().unwrap();
    let rest = batches(rows, 15);
    assert_eq!(first.rows + rest.iter().map(|batch| batch.rows).sum::<usize>(), 50);
    assert_eq!(ids(&store, &query, 1000).len(), 50, "one came and one went");
    assert!(ids(&store, &query, 1000).contains(&id(777)));
}
