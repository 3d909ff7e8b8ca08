//! The functions of profiles: kept with them, read by filter, missing where they are said to be, gone with them.

use std::sync::Arc;

use procprof_profile::{Nanos, ProfileId, ProfileType};
use procprof_store::{
    Column, Encoded, Filter, FunctionColumn, FunctionNames, FunctionQuery, FunctionTable, FunctionValues, NewProfile,
    Order, Store, Uncovered, Values,
};

use crate::support::{SECOND, START, id, meta, open, pprof, put, summary};

fn values(name: &str, own: i64, total: i64) -> FunctionValues {
    FunctionValues { name: name.to_owned(), own, total }
}

fn table(total: i64, functions: Vec<FunctionValues>) -> FunctionTable {
    FunctionTable { kind: "cpu".to_owned(), unit: "nanoseconds".to_owned(), total, functions }
}

fn put_with(store: &Store, number: u128, node: u64, functions: FunctionTable) {
    let start = START + number as i64 * SECOND;
    let meta = meta(number, node, "cpu", start);
    let encoded = pprof(&meta, 0);
    let (start, duration) = (Nanos(start), Nanos(0));
    let new = NewProfile {
        meta,
        encoded: Encoded::Received(&encoded),
        summary: summary("f"),
        functions: Some(functions),
        start,
        duration,
    };
    store.put(new).unwrap();
}

/// A row: profile, name, own, total.
type Row = (ProfileId, String, i64, i64);

fn rows(store: &Store, query: FunctionQuery, at_most: usize) -> Vec<Row> {
    use FunctionColumn::{Kind, Name, Own, Profile, ProfileTotal, Total, Unit};
    let columns = vec![Profile(Column::Id), Name, Own, Total, Kind, Unit, ProfileTotal, Profile(Column::Type)];
    let mut rows = store.function_rows(&FunctionQuery { columns, ..query }).unwrap();
    let mut found = Vec::new();
    while let Some(batch) = rows.next(at_most).unwrap() {
        let [
            Values::Ids(ids),
            Values::Texts(names),
            Values::Integers(own),
            Values::Integers(totals),
            Values::Texts(kinds),
            Values::Texts(units),
            Values::Integers(sums),
            Values::Texts(types),
        ] = &batch.columns[..]
        else {
            panic!("{batch:?}")
        };
        for row in 0..batch.rows {
            assert_eq!(
                (kinds.get(row), units.get(row), types.get(row)),
                (Some("cpu"), Some("nanoseconds"), Some("cpu"))
            );
            assert!(sums[row] >= 0);
            found.push((ids[row], names.get(row).unwrap().to_owned(), own[row], totals[row]));
        }
    }
    found
}

fn row(number: u128, name: &str, own: i64, total: i64) -> Row {
    (id(number), name.to_owned(), own, total)
}

fn filled(store: &Store) {
    put_with(
        store,
        1,
        10001,
        table(1000, vec![values("main", 0, 1000), values("work", 995, 998), values("Tiny", 2, 2)]),
    );
    put_with(
        store,
        2,
        10002,
        table(1000, vec![values("main", 0, 1000), values("wörk", 50, 60), values("malloc", 9, 9)]),
    );
    put_with(store, 3, 10001, table(0, vec![values("work", 5, 0)]));
    put_with(store, 4, 10001, table(7, Vec::new()));
}

#[test]
fn functions_are_found_by_name_share_and_profile() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    filled(&store);
    let all = [
        row(1, "main", 0, 1000),
        row(1, "work", 995, 998),
        row(1, "Tiny", 2, 2),
        row(2, "main", 0, 1000),
        row(2, "wörk", 50, 60),
        row(2, "malloc", 9, 9),
        row(3, "work", 5, 0),
    ];
    let any = FunctionQuery::default();
    for at_most in [1, 2, 100] {
        for order in [Order::Any, Order::OldestFirst] {
            assert_eq!(rows(&store, FunctionQuery { order, ..any.clone() }, at_most), all);
        }
        let newest = rows(&store, FunctionQuery { order: Order::NewestFirst, ..any.clone() }, at_most);
        assert_eq!(newest, [&all[6..], &all[3..6], &all[..3]].concat());
    }
    let of = |query: FunctionQuery| rows(&store, query, 100);
    let named = |names| of(FunctionQuery { names, ..any.clone() });
    assert_eq!(named(FunctionNames::OneOf(vec!["work".into(), "nothing".into()])), [all[1].clone(), all[6].clone()]);
    assert_eq!(named(FunctionNames::OneOf(vec!["Work".into()])), []);
    let chosen = |is_wanted: fn(&str) -> bool| {
        let predicate = move |names: &[&str]| names.iter().map(|name| is_wanted(name)).collect();
        named(FunctionNames::Chosen(Arc::new(predicate)))
    };
    assert_eq!(chosen(|name| name.starts_with("ma")), [&all[..1], &all[3..4], &all[5..6]].concat());
    assert_eq!(chosen(|name| name == "nanoseconds"), [], "units are no functions");
    assert_eq!(chosen(|name| name.contains("örk")), all[4..5]);
    assert_eq!(named(FunctionNames::Chosen(Arc::new(|_| Vec::new()))), all, "without an answer all are wanted");
    let own = |percent| of(FunctionQuery { own_percent_min: Some(percent), ..any.clone() });
    assert_eq!(own(5.0), [all[1].clone(), all[4].clone()]);
    assert_eq!(own(5.1), all[1..2]);
    assert_eq!(own(0.9), [all[1].clone(), all[4].clone(), all[5].clone()], "small ones, too");
    let total = |percent| of(FunctionQuery { total_percent_min: Some(percent), ..any.clone() });
    assert_eq!(total(6.0), [&all[..2], &all[3..5]].concat());
    assert_eq!(total(0.2).len(), 6, "a profile whose sum is 0 has no shares");
    let filter = Filter { nodes: vec![10002], types: vec![ProfileType::Cpu], ..Filter::default() };
    assert_eq!(of(FunctionQuery { filter, ..any.clone() }), all[3..6]);
    let text = Filter { text: Some("101".into()), ..Filter::default() };
    assert_eq!(of(FunctionQuery { filter: text, ..any }).len(), 0);
}

#[test]
fn a_search_goes_on_behind_the_place_that_it_has_reached() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    filled(&store);
    let query = FunctionQuery { order: Order::NewestFirst, columns: vec![FunctionColumn::Name], ..Default::default() };
    let mut first = store.function_rows(&query).unwrap();
    assert_eq!(first.place(), None);
    while first.next(1).unwrap().unwrap().rows == 0 {}
    assert_eq!(first.profiles(), 2, "one without functions, and one with them");
    let after = first.place();
    assert_eq!(rows(&store, FunctionQuery { after, ..query.clone() }, 1).len(), 6);
    assert_eq!(store.uncovered(&query.filter, after).unwrap(), Uncovered::default());
}

#[test]
fn what_is_stored_without_functions_waits_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    filled(&store);
    for number in 5..8 {
        put(&store, number, 10003, "cpu", START + number as i64 * SECOND).unwrap();
    }
    let all = Filter::default();
    assert_eq!(store.uncovered(&all, None).unwrap(), Uncovered { waiting: 3, ..Uncovered::default() });
    assert_eq!(store.without_functions(2).unwrap(), [id(7), id(6)]);
    store.put_functions(id(7), Some(&table(10, vec![values("late", 10, 10)]))).unwrap();
    store.put_functions(id(7), Some(&table(10, vec![values("later", 10, 10)]))).unwrap();
    store.put_functions(id(6), None).unwrap();
    let many = (0..=FunctionTable::FUNCTIONS_MAX).map(|number| values(&number.to_string(), 1, 1)).collect();
    store.put_functions(id(5), Some(&table(10, many))).unwrap();
    store.put_functions(id(99), None).unwrap();
    let uncovered = Uncovered { waiting: 0, unreadable: 1, too_many: 1 };
    assert_eq!(store.uncovered(&all, None).unwrap(), uncovered);
    assert_eq!(uncovered.profiles(), 2);
    let of_others = Filter { nodes: vec![10001], ..Filter::default() };
    assert_eq!(store.uncovered(&of_others, None).unwrap(), Uncovered::default());
    assert_eq!(store.without_functions(9).unwrap(), []);
    let filter = Filter { nodes: vec![10003], ..Filter::default() };
    assert_eq!(rows(&store, FunctionQuery { filter, ..Default::default() }, 9), [row(7, "late", 10, 10)]);

    store.rebuild().unwrap();
    assert_eq!(store.uncovered(&all, None).unwrap().waiting, 7, "files do not have them");
    assert_eq!(rows(&store, FunctionQuery::default(), 9), []);
}

#[test]
fn functions_go_with_their_profile_and_change_with_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    filled(&store);
    store.delete(id(1)).unwrap();
    let named = |name: &str| FunctionQuery { names: FunctionNames::OneOf(vec![name.to_owned()]), ..Default::default() };
    assert_eq!(rows(&store, named("work"), 9), [row(3, "work", 5, 0)]);
    let meta = meta(2, 10002, "cpu", START + 2 * SECOND);
    let encoded = pprof(&meta, 50);
    let functions = Some(table(1000, vec![values("named", 1000, 1000)]));
    let (start, duration) = (Nanos(START + 2 * SECOND), Nanos(0));
    store
        .replace(NewProfile {
            meta,
            encoded: Encoded::Received(&encoded),
            summary: summary("f"),
            functions,
            start,
            duration,
        })
        .unwrap();
    let filter = Filter { nodes: vec![10002], ..Filter::default() };
    assert_eq!(rows(&store, FunctionQuery { filter, ..Default::default() }, 9), [row(2, "named", 1000, 1000)]);
}
