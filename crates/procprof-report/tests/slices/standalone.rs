//! The page that stands alone in Chromium: its script finds the same as Rust does, and its controls work.

use procprof_profile::Profile;
use procprof_report::Budget;
use procprof_report::viewer::{TableOrder, TableQuery, Tree};
use serde_json::{Value, json};

use super::decoded::Decoded;
use super::{sandwich, tree};
use crate::browser::driver::{Browser, ENTER, ESCAPE, LEFT, UP};
use crate::browser::page_server::PageServer;
use crate::browser::{POLICY, until};
use crate::{escaping, samples};

/// The text of what has the keyboard's mark, or fills the width.
const STATUS: &str = "return document.querySelector('.pv-status').textContent";

fn open(browser: &Browser, url: &str) {
    browser.open("about:blank");
    browser.open(url);
    until(browser, "return String(!!document.querySelector('#viewer[data-ready]'))", "true");
}

/// The result of the page's script.
fn found(browser: &Browser, pattern: &str, sort: &str, name: &str) -> Value {
    let script = "const source = procprofViewer.source; const [re, sort, name] = arguments;\
         const flat = (slice) => Array.from({ length: slice.count }, (_, i) =>\
           [slice.depth[i], slice.head.names[slice.frame[i]], slice.inlined[i], slice.total[i], slice.self[i]]);\
         return (async () => ({ search: await source.search(re),\
           rows: (await source.table({ sort, re, limit: 1000, offset: 0 })).rows.map((row) => [row.name, row.kind, row.self, row.total, row.nodes]),\
           sandwich: (await source.sandwich({ name })).map(flat) }))()";
    browser.run(script, &[pattern, sort, name])
}

/// The same by Rust.
fn expected(tree: &Tree, pattern: &str, order: TableOrder, name: &str) -> Value {
    let budget = Budget::default();
    let matches = tree.search(pattern, &budget).unwrap();
    let query = TableQuery { order, pattern: Some(pattern.to_owned()), offset: 0, limit: 1000 };
    let rows = tree.table(&query, &budget).unwrap().rows;
    let rows: Vec<Value> = rows.iter().map(|row| json!([row.name, row.kind, row.own, row.total, row.nodes])).collect();
    let (callers, callees) = sandwich(tree, &tree.frames_named(name));
    let flat = |slice: &Decoded| -> Vec<Value> {
        slice.rows.iter().map(|row| json!([row.depth, row.name, row.inlined, row.total, row.own])).collect()
    };
    json!({
        "search": { "frames": matches.frames, "nodes": matches.nodes, "total": matches.total },
        "rows": rows,
        "sandwich": [flat(&callers), flat(&callees)],
    })
}

#[test]
fn the_script_of_the_page_finds_what_rust_finds() {
    let recursive = samples::stacks(&[(&["a", "b", "a", "c", "a"], 5), (&["b", "a", "b"], 3), (&["a", "a"], 2)]);
    let cases: [(&'static str, Profile, &str, &str); 4] = [
        ("/mixed.html", samples::mixed(), "(?i)SERVE|java|handle", "server::serve"),
        ("/recursive.html", recursive, "^[ab]$", "a"),
        ("/walk.html", samples::walk(200, 64), "1", "f1"),
        ("/go.html", samples::file("go.cpu.pb.gz"), "^runtime\\.", "runtime.main"),
    ];
    let pages = cases.iter().map(|(path, profile, ..)| {
        (
            *path,
            "text/html; charset=utf-8",
            samples::text(profile, "html", &[("maxboxes", "200000"), ("minfraction", "0")]),
        )
    });
    let server = PageServer::start(POLICY, pages.collect());
    let browser = Browser::start();
    for (path, profile, pattern, name) in &cases {
        open(&browser, &server.url(path));
        let tree = tree(profile, &[]);
        let name = if tree.frames_named(name).is_empty() { first_name(&tree) } else { (*name).to_owned() };
        for (sort, order) in [("self", TableOrder::Own), ("total", TableOrder::Total), ("name", TableOrder::Name)] {
            assert_eq!(found(&browser, pattern, sort, &name), expected(&tree, pattern, order, &name), "{path} {sort}");
        }
    }
}

fn first_name(tree: &Tree) -> String {
    let query = TableQuery { order: TableOrder::Total, limit: 1, ..TableQuery::default() };
    tree.table(&query, &Budget::default()).unwrap().rows[0].name.to_owned()
}

/// Clicks the box of a name.
fn click(browser: &Browser, name: &str) {
    let place = browser.run(
        "const { picture } = procprofViewer; const { slice } = picture.layers[0];\
         const node = [...slice.frame].findIndex((frame, at) => at && slice.head.names[frame] === arguments[0]);\
         const box = picture.placeOf({ layer: 0, node, hidden: false }); const canvas = picture.over.getBoundingClientRect();\
         return [canvas.left + box.x + 3, canvas.top + box.y - picture.stage.scrollTop + 8]",
        &[name],
    );
    browser.click(place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
}

#[test]
fn the_page_zooms_and_searches_in_chromium() {
    let mut stacks: Vec<(&[&str], i64)> = vec![
        (&["main", "hot_70"], 50_000_000),
        (&["main", "hot_70", "hot_inner"], 20_000_000),
        (&["main", "hot_30"], 25_000_000),
    ];
    stacks.push((&escaping::NAMES, 5_000_000));
    let page = samples::text(&samples::stacks(&stacks), "html", &[("title", escaping::NAMES[0])]);
    let server = PageServer::start(POLICY, vec![("/a.html", "text/html; charset=utf-8", page)]);
    let browser = Browser::start();
    open(&browser, &server.url("/a.html"));
    until(&browser, STATUS, "100 ms CPU time");

    browser.keys("/");
    browser.keys("hot_(70|inner)");
    let found = "return document.querySelector('.pv-found').textContent";
    until(&browser, found, "70.00% in 2 functions");
    browser.keys("\u{e007}");
    until(&browser, STATUS, "hot_70");
    browser.keys(ESCAPE);
    until(&browser, "return String(document.querySelector('.pv-find input').value === '')", "true");

    click(&browser, "hot_70");
    until(&browser, "return location.hash", "#zoom=");
    until(&browser, STATUS, "hot_70");
    // Out to `main`, which has 95 of 100 ms, and to all; the mark stays where it is.
    browser.keys(ESCAPE);
    until(&browser, STATUS, "73.68% of view");
    browser.keys(ESCAPE);
    until(&browser, "return 'zoom ' + procprofViewer.state.zoom", "zoom 0");
    // Up to the widest callee and on, a neighbour, and in.
    browser.run("procprofViewer.picture.over.focus(); procprofViewer.picture.focused = null", &[]);
    for key in [UP, UP, LEFT] {
        browser.keys(key);
    }
    until(&browser, STATUS, "hot_3025.0 ms CPU time");
    browser.keys(ENTER);
    until(&browser, STATUS, "hot_30");
    assert_ne!(browser.number("return procprofViewer.state.zoom"), 0);
    let link = browser.text("return location.hash");

    browser.keys("/");
    browser.keys("(");
    until(&browser, found, "not a regular expression");
    open(&browser, &server.url(&format!("/a.html{link}")));
    until(&browser, STATUS, "hot_30");
    open(&browser, &server.url("/a.html#view=table"));
    until(&browser, "return document.querySelector('.pv-table tbody').textContent", "hot_70");
    assert_eq!(browser.text("return String(document.documentElement.getAttribute('pwned'))"), "null");
}
