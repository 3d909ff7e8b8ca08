//! Pages of a search, and replaced rows.

use super::*;
use crate::stored::Facts;
use procprof_profile::Meta;

fn row(number: u64) -> NewRow {
    let (seconds, id) = (number % 86_400, ProfileId(u128::from(number)));
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let file = format!("cpu-profile-20251120-{hour:02}{minute:02}{second:02}-pprof.gz");
    let meta = Meta { id: Some(id), node: Some(1), ..Meta::default() };
    let facts = Facts { meta, start: Nanos(number as i64), ..Facts::default() };
    NewRow { id, node: 1, file, bytes: 1, facts }
}

fn catalog(folder: &Path) -> Catalog {
    Catalog::open(&folder.join("catalog.sqlite"), 1).unwrap().0
}

#[test]
fn a_search_goes_on_from_page_to_page_and_finds_all() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog(folder.path());
    let rows: Vec<NewRow> = (0..2 * Filter::SEARCHED_MAX as u64 + 100).map(row).collect();
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
