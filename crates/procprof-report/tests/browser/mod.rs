//! The viewer in Chromium, under the policy that servers answer with.

#![allow(unsafe_code)]

pub(crate) mod driver;
pub(crate) mod page_server;

use std::thread::sleep;
use std::time::{Duration, Instant};

use driver::{Browser, PATIENCE};
use page_server::PageServer;
use procprof_profile::Profile;

use crate::{escaping, samples};

pub(crate) const POLICY: &str = "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; frame-ancestors 'self'";

fn profile() -> Profile {
    let mut stacks: Vec<(&[&str], i64)> = vec![
        (&["main", "hot_70"], 50_000_000),
        (&["main", "hot_70", "hot_inner"], 20_000_000),
        (&["main", "hot_30"], 25_000_000),
    ];
    stacks.push((&escaping::NAMES, 5_000_000));
    samples::stacks(&stacks)
}

fn attribute(browser: &Browser, name: &str) -> String {
    browser.text(&format!("return document.getElementById('procprof').getAttribute('{name}')"))
}

/// Clicks the box whose name is shown.
fn click_box(browser: &Browser, name: &str) {
    let script = "const box = [...document.querySelectorAll('#procprof-boxes .b')].find((box) => box.textContent.startsWith(arguments[0]));\
         const place = box.getBoundingClientRect(); return [place.x + 5, place.y + 8]";
    let place = browser.run(script, &[name]);
    browser.click(place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
}

fn titles(browser: &Browser) -> Vec<String> {
    let titles = browser.run(
        "return [...document.querySelectorAll('#procprof-boxes .b title')].map((title) => title.textContent)",
        &[],
    );
    titles.as_array().unwrap().iter().map(|title| title.as_str().unwrap().to_owned()).collect()
}

/// Zoom, search, keys and hash.
fn explore(browser: &Browser, url: &str) {
    browser.open(url);
    assert_eq!(attribute(browser, "data-ready"), "1", "{url}");
    assert_eq!(titles(browser).len(), 5 + escaping::NAMES.len());

    browser.keys("/");
    browser.keys("hot_(70|inner)");
    assert_eq!(attribute(browser, "data-found"), "70.00%", "a match above another match must not count twice");
    assert_eq!(browser.number("return document.querySelectorAll('.hit').length"), 2);
    assert_eq!(browser.text("return document.querySelector('.found').textContent"), "70.00% matches");

    click_box(browser, "hot_70");
    assert_eq!(browser.text("return location.hash"), "#zoom=11&search=hot_(70%7Cinner)");
    assert_eq!(attribute(browser, "data-zoom"), "11");
    assert_eq!(titles(browser).len(), 4, "the box, its child, and the two below it");
    assert_eq!(attribute(browser, "data-found"), "100%");

    browser.keys(driver::ESCAPE);
    assert_eq!((attribute(browser, "data-found"), attribute(browser, "data-zoom")), (String::new(), "11".to_owned()));
    browser.keys(driver::ESCAPE);
    assert_eq!(attribute(browser, "data-zoom"), "0");

    // From the root up to the widest callee and on, a neighbour, and in.
    for key in [driver::UP, driver::UP, driver::LEFT, driver::ENTER] {
        browser.keys(key);
    }
    assert!(
        browser
            .text("return document.getElementById('procprof-details').textContent")
            .starts_with("hot_30   25.0 ms CPU time")
    );
    browser.keys("\u{e003}");
    assert_eq!(attribute(browser, "data-zoom"), "9");

    browser.keys("/");
    browser.keys("(");
    assert_eq!(browser.text("return document.querySelector('.found').textContent"), "not a regular expression");
    assert_eq!(browser.text("return String(document.documentElement.getAttribute('pwned'))"), "null");
}

#[test]
fn the_viewer_zooms_and_searches_in_chromium() {
    let profile = profile();
    let svg = samples::text(&profile, "flamegraph", &[]);
    let tall = samples::text(&samples::stacks(&[(&["f"; 100], 1)]), "flamegraph", &[]);
    let pages = [("/a.svg", "image/svg+xml", svg.clone()), ("/tall.svg", "image/svg+xml", tall)];
    let server = PageServer::start(POLICY, pages.to_vec());
    let browser = Browser::start();
    explore(&browser, &server.url("/a.svg"));

    // A picture taller than the window begins at its root, with the heading in view.
    browser.open(&server.url("/tall.svg"));
    let script = "const last = document.querySelector('#procprof-boxes .b rect').getBoundingClientRect();\
         const head = document.getElementById('procprof-head').getBoundingClientRect(); return [window.innerHeight - last.bottom, head.top]";
    let place = browser.run(script, &[]);
    assert!((0.0..40.0).contains(&place[0].as_f64().unwrap()) && place[1].as_f64().unwrap().abs() < 5.0, "{place}");

    // State in the address is taken up on load; the texts of the viewer are those of the picture without it.
    browser.open("about:blank");
    browser.open(&server.url("/a.svg#zoom=11&search=inner&layout=icicle"));
    assert_eq!(attribute(&browser, "data-found"), "28.57%");
    browser.keys(driver::ESCAPE);
    browser.keys(driver::ESCAPE);
    let unescaped = svg
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&");
    for title in titles(&browser) {
        assert!(unescaped.contains(&format!("<title>{title}</title>")), "{title:?} is not what the picture says");
    }
}

/// Waits until the answer of a script contains a text.
pub(crate) fn until(browser: &Browser, script: &str, expected: &str) {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if browser.text(script).contains(expected) {
            return;
        }
        sleep(Duration::from_millis(30));
    }
    panic!("{script}: {:?} lacks {expected:?}", browser.text(script));
}
