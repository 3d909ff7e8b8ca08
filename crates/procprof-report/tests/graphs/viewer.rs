//! The graph's viewer in Chromium, under the policy that servers answer with.

use crate::browser::{POLICY, driver, driver::Browser, page_server::PageServer, until};
use crate::{escaping, samples};

fn count(browser: &Browser, selector: &str) -> i64 {
    browser.number(&format!("return document.querySelectorAll('#procprof-graph {selector}').length"))
}

fn said(browser: &Browser) -> String {
    browser.text("return document.querySelector('.said').textContent")
}

fn click(browser: &Browser, name: &str) {
    let script = "const node = [...document.querySelectorAll('.n')].find((node) => node.querySelector('title').textContent.startsWith(arguments[0]));\
         const place = node.getBoundingClientRect(); return [place.x + place.width / 2, place.y + place.height / 2]";
    let place = browser.run(script, &[name]);
    browser.click(place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
}

#[test]
fn the_graph_is_searched_and_calls_are_followed_in_chromium() {
    let mut stacks: Vec<(&[&str], i64)> = vec![
        (&["main", "hot_70", "inner"], 50_000_000),
        (&["main", "hot_30", "inner", "leaf"], 25_000_000),
        (&["other"], 10_000_000),
    ];
    stacks.push((&escaping::NAMES, 5_000_000));
    let svg = samples::text(&samples::stacks(&stacks), "svg", &[]);
    let nodes = 6 + escaping::NAMES.len() as i64;
    let server = PageServer::start(POLICY, vec![("/graph.svg", "image/svg+xml", svg)]);
    let browser = Browser::start();
    browser.open(&server.url("/graph.svg"));
    assert_eq!(browser.text("return document.getElementById('procprof-graph').getAttribute('data-ready')"), "1");
    assert_eq!((count(&browser, ".n"), count(&browser, ".e")), (nodes, 5 + escaping::NAMES.len() as i64 - 1));
    assert_eq!(browser.text("return String(document.documentElement.getAttribute('pwned'))"), "null");

    // Every text fits its box.
    let wide = "return [...document.querySelectorAll('.n')].filter((node) => { const box = node.querySelector('rect').getBBox();\
         return [...node.querySelectorAll('text')].some((text) => text.getBBox().width > box.width); }).length";
    assert_eq!(browser.number(wide), 0);

    // A picked node shows its callers and callees; with Escape nothing is picked.
    click(&browser, "inner");
    assert_eq!((count(&browser, ".n.near"), count(&browser, ".e.near"), count(&browser, ".at")), (4, 3, 1));
    assert!(said(&browser).starts_with("inner   self 50ms ("), "{}", said(&browser));
    browser.keys(driver::ESCAPE);
    assert_eq!(count(&browser, ".near"), 0);

    browser.keys("/");
    browser.keys("HOT_.0");
    assert_eq!(count(&browser, ".hit"), 0, "a capital letter makes the search tell case");
    browser.keys(driver::ESCAPE);
    browser.keys("/");
    browser.keys("hot_.0");
    assert_eq!(
        (count(&browser, ".hit"), browser.text("return document.querySelector('.found').textContent")),
        (2, "2 matches".to_owned())
    );
    browser.keys(driver::ENTER);
    assert!(said(&browser).starts_with("hot_"), "{}", said(&browser));
    assert_eq!(count(&browser, ".n.near"), 3);

    // Keys zoom and move.
    let place = "return document.getElementById('procprof-drawing').getAttribute('transform')";
    let before = browser.text(place);
    browser.keys("+");
    browser.keys(driver::UP);
    assert_ne!(browser.text(place), before);
    browser.keys("0");
    let fits = "const whole = document.getElementById('procprof-drawing').getBoundingClientRect();\
         return Number(whole.left >= 0 && whole.top >= 0 && whole.right <= innerWidth + 1 && whole.bottom <= innerHeight + 1)";
    assert_eq!(browser.number(fits), 1);
}

/// A large graph begins at the node that tells most, at a size that can be read.
#[test]
fn a_graph_in_a_frame_without_a_size_begins_when_it_has_one() {
    let names: Vec<String> = (0..80).map(|number| format!("f{number}")).collect();
    let stacks: Vec<[&str; 3]> = names.iter().map(|name| ["main", name.as_str(), "leaf"]).collect();
    let stacks: Vec<(&[&str], i64)> = stacks.iter().map(|stack| (&stack[..], 10_000_000)).collect();
    let svg = samples::text(&samples::stacks(&stacks), "svg", &[]);
    let page = "<!doctype html><iframe id=f src=/graph.svg width=900 height=600 hidden></iframe>".to_owned();
    let policy = "default-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'";
    let server =
        PageServer::start(policy, vec![("/graph.svg", "image/svg+xml", svg), ("/page.html", "text/html", page)]);
    let browser = Browser::start();
    browser.open(&server.url("/page.html"));
    let in_sight = "const frame = document.getElementById('f');\
         const inner = frame.contentDocument;\
         if (!inner.getElementById('procprof-graph')?.hasAttribute('data-ready')) return 'not ready';\
         frame.hidden = false;\
         const box = inner.querySelector('.n').getBoundingClientRect();\
         return String(box.width > 20 && box.left >= 0 && box.top >= 0 && box.right <= 900 && box.bottom <= 600)";
    until(&browser, in_sight, "true");
}
