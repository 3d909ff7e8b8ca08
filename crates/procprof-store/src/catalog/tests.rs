//! Pages of a search, and replaced rows.

use super::*;
use crate::stored::Facts;
use crate::{Column, FunctionTable, FunctionValues, Order, RowQuery, Stamp, Values};
use procprof_profile::Meta;
use std::borrow::Cow;
use std::collections::BTreeSet;

fn row(number: u64) -> NewRow<'static> {
    let (seconds, id) = (number % 86_400, ProfileId(u128::from(number)));
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let file = format!("cpu-profile-20251120-{hour:02}{minute:02}{second:02}-pprof.gz");
    let meta = Meta { id: Some(id), node: Some(1), ..Meta::default() };
    let facts = Facts { meta, start: Nanos(number as i64), ..Facts::default() };
    NewRow { id, node: 1, file, bytes: 1, stamp: Stamp(0), facts: Cow::Owned(facts), functions: None }
}

fn catalog(folder: &Path) -> Catalog {
    Catalog::open(&folder.join("catalog.sqlite"), 1).unwrap().0
}

#[test]
fn a_search_goes_on_from_page_to_page_and_finds_all() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog(folder.path());
    let rows: Vec<NewRow<'_>> = (0..2 * Filter::SEARCHED_MAX as u64 + 100).map(row).collect();
    assert!(catalog.insert_all(&rows).unwrap().is_empty());
    let search = |text: &str| {
        let filter = Filter { text: Some(text.to_owned()), ..Filter::default() };
        let mut page = PageRequest::first(10);
        let (mut found, mut sizes) = (Vec::new(), Vec::new());
        loop {
            let got = catalog.list(&filter, &page).unwrap();
            sizes.push(got.rows.len());
            found.extend(got.rows.into_iter().map(|entry| entry.id.0));
            let Some(next) = got.next else { return (found, sizes) };
            page = PageRequest::after(10, next);
        }
    };
    assert_eq!(search("nothing has this"), (vec![], vec![0, 0, 0]));
    // The files of one minute, all in the second part of what is searched.
    let (found, sizes) = search("-0101");
    assert_eq!((found.len(), sizes), (60, vec![0, 10, 10, 10, 10, 10, 10]));
    assert!(found.windows(2).all(|pair| pair[0] > pair[1]));
}

#[test]
fn conditions_but_for_the_text_are_decided_by_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog(folder.path());
    let labels = vec![("zone".to_owned(), "eu".to_owned())];
    let filter = Filter { labels, cluster: Some("east".into()), trigger: Some("manual".into()), ..Filter::default() };
    let Condition { sql, values } = Condition::without_text(&filter, None);
    let sql =
        format!("EXPLAIN QUERY PLAN SELECT completed, id FROM profiles WHERE {sql} ORDER BY completed DESC, id DESC");
    let plan: String =
        catalog.read("explain", |reader| reader.query_row(&sql, params_from_iter(&values), |row| row.get(3))).unwrap();
    assert_eq!(plan, "SCAN profiles USING COVERING INDEX by_time");
}

/// A row with a thousand functions of its own, and `main`.
fn row_with_functions(number: u64) -> NewRow<'static> {
    let own = (0..1000).map(|at| FunctionValues { name: format!("f{number}_{at}"), own: 1, total: 1 });
    let main = FunctionValues { name: "main".to_owned(), own: 0, total: 1000 };
    let table = FunctionTable { total: 1000, functions: own.chain([main]).collect(), ..FunctionTable::default() };
    NewRow { functions: Some(Cow::Owned(table)), ..row(number) }
}

#[test]
fn names_that_no_profile_has_are_removed_when_many_came() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog(folder.path());
    let names = || {
        let count = |reader: &Connection| reader.query_row("SELECT count(*) FROM names", [], |row| row.get(0));
        catalog.read("count", count).map(|count: u32| count).unwrap()
    };
    for number in 0..12 {
        catalog.insert(&row_with_functions(number)).unwrap();
    }
    (2..12).for_each(|number| assert!(catalog.remove(ProfileId(number)).unwrap()));
    // Of the empty name of kind and unit there is one.
    assert_eq!(names(), 12_002);
    catalog.remove_unused_names().unwrap();
    assert_eq!(names(), 2002);
    for number in 20..29 {
        catalog.insert(&row_with_functions(number)).unwrap();
        catalog.remove(ProfileId(number.into())).unwrap();
    }
    catalog.remove_unused_names().unwrap();
    assert_eq!(names(), 11_002, "they stay until there are many");
    // While names are removed, others come, and old ones return.
    assert!(!catalog.write_with_names("begin", |writer, names| names.begin_removal(writer)).unwrap());
    catalog.insert(&row_with_functions(30)).unwrap();
    catalog.remove(ProfileId(30)).unwrap();
    assert!(catalog.write_with_names("begin", |writer, names| names.begin_removal(writer)).unwrap());
    let marked = catalog.read("mark", functions::marked).unwrap();
    catalog.insert(&row_with_functions(21)).unwrap();
    catalog.insert(&row_with_functions(31)).unwrap();
    catalog.write_named("remove", |transaction, names| names.remove_all_but(transaction, &marked)).unwrap();
    assert_eq!(names(), 4002);
    catalog.insert(&row_with_functions(22)).unwrap();
    let columns = vec![crate::FunctionColumn::Name];
    let mut rows = catalog.function_rows(crate::FunctionQuery { columns, ..Default::default() }).unwrap();
    let mut found = std::collections::BTreeSet::new();
    while let Some(batch) = rows.next(1000).unwrap() {
        let crate::Values::Texts(texts) = &batch.columns[0] else { panic!("{batch:?}") };
        found.extend((0..batch.rows).map(|at| texts.get(at).unwrap().to_owned()));
    }
    let expected = [0, 1, 21, 22, 31].iter().flat_map(|number| (0..1000).map(move |at| format!("f{number}_{at}")));
    assert_eq!(found, expected.chain(["main".to_owned()]).collect());
}

/// All rows of a query as texts, sorted; `pause` is called between two batches.
fn sorted(mut rows: Rows, mut pause: impl FnMut()) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    while let Some(batch) = rows.next(700).unwrap() {
        let shown = |values: &Values, row: usize| match values {
            Values::Ids(ids) => ids[row].to_string(),
            Values::Integers(numbers) => numbers[row].to_string(),
            Values::Texts(texts) => format!("{:?}", texts.get(row)),
        };
        found.extend((0..batch.rows).map(|row| batch.columns.iter().map(|values| shown(values, row)).collect()));
        pause();
    }
    found.sort();
    found
}

#[test]
fn rows_from_memory_are_those_of_the_database_whatever_changes() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog(folder.path());
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let made = |number: u64| {
        let mut row = row(number);
        row.node = 1 + number / 86_400 + number % 3;
        let meta = &mut row.facts.to_mut().meta;
        meta.labels = [("zone".to_owned(), format!("z{}", number % 4))].into();
        meta.cluster = ["east", "west"][number as usize % 2].to_owned();
        meta.trigger = ["schedule", "manual"][number as usize / 5000 % 2].to_owned();
        row.facts.to_mut().summary.top =
            vec![crate::TopFunction { name: format!("f{}", number % 7), value: 1, ..Default::default() }];
        row
    };
    let mut next = 9000;
    assert!(catalog.insert_all(&(0..next).map(made).collect::<Vec<_>>()).unwrap().is_empty());
    let columns: Vec<Column> = Column::ALL.into_iter().filter(|column| !column.is_detail()).collect();
    for round in 0..60 {
        let some = random(3);
        let filter = Filter {
            nodes: if random(3) == 0 { vec![1 + random(3), 9] } else { Vec::new() },
            types: if random(4) == 0 { vec![ProfileType::Cpu, ProfileType::Heap] } else { Vec::new() },
            from: (random(3) == 0).then(|| Nanos(random(next) as i64)),
            to: (random(3) == 0).then(|| Nanos(random(next) as i64)),
            cluster: (random(4) == 0).then(|| "west".to_owned()),
            labels: if random(4) == 0 { vec![("zone".to_owned(), "z1".to_owned())] } else { Vec::new() },
            trigger: (random(4) == 0).then(|| "manual".to_owned()),
            ..Filter::default()
        };
        let columns = if some == 0 { columns.clone() } else { vec![columns[random(21) as usize], Column::Node] };
        let pins: BTreeSet<ProfileId> = (0..20).map(|_| ProfileId(random(next).into())).collect();
        let query = |order| RowQuery { filter: filter.clone(), columns: columns.clone(), order };
        let expected = sorted(catalog.rows(query(Order::NewestFirst), pins.clone()).unwrap(), || {});
        let rows = catalog.rows(query(Order::Any), pins.clone()).unwrap();
        // What changes meanwhile does not change them.
        let found = sorted(rows, || match random(6) {
            0 => {
                catalog.insert(&made(next)).unwrap();
                next += 1;
            }
            1 => {
                catalog.remove(ProfileId(random(next).into())).unwrap();
            }
            2 => {
                // The last one, whose `seq` is used again.
                catalog.remove(ProfileId((next - 1).into())).unwrap();
                catalog.insert(&made(next)).unwrap();
                next += 1;
            }
            3 => catalog.put_functions(ProfileId(random(next).into()), None).unwrap(),
            _ => {}
        });
        assert_eq!(found, expected, "{round}: {filter:?} {columns:?}");
        let count = catalog.read("count", |reader| {
            reader.query_row("SELECT sum(rows), (SELECT count(*) FROM profiles) FROM pieces", [], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
            })
        });
        let (by_pieces, count) = count.unwrap();
        assert_eq!(by_pieces, count);
    }
}
