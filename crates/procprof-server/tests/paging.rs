//! Pages and lists with more nodes than they show at once: all are reached, and none is too large.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::Value;

use crate::harness::{TestServer, cpu_profile, quiet};
use crate::hosts::{agent, frame};

/// Services of each host.
const SERVICES: usize = 90;
/// Bytes of a page with a full table, at most.
const PAGE_BYTES_MAX: usize = 200 << 10;

/// A server that knows three hosts, db1 to db3, with their services s0 to s89.
async fn with_hosts() -> TestServer {
    let server = TestServer::start(quiet()).await;
    let services: Vec<String> = (0..SERVICES).map(|number| format!("s{number:02}")).collect();
    let services: Vec<&str> = services.iter().map(String::as_str).collect();
    for number in 1..=3 {
        let agent = agent(number, None);
        agent.taken(&server, &agent.heartbeat(&services, 0)).await;
    }
    server
}

/// The parts of a text that begin after `begin` and end before `end`.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
    text.split(begin).skip(1).filter_map(|rest| rest.split(end).next()).collect()
}

/// The rows of the table of nodes.
fn rows(page: &str) -> Vec<&str> {
    let table = between(page, "<tbody>", "</tbody>");
    between(table[0], "<tr", "</tr>")
}

/// The address of the page that a link leads to.
fn link(page: &str, rel: &str) -> Option<String> {
    let link = between(page, &format!("rel=\"{rel}\" href=\""), "\"");
    link.first().map(|href| href.replace("&amp;", "&"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_nodes_has_pages_by_cursor() {
    let server = with_hosts().await;
    let all = 3 * (1 + SERVICES) + 1;
    let (mut names, mut path, mut lengths) = (Vec::new(), "/api/nodes".to_owned(), Vec::new());
    loop {
        let page = server.json(&path).await;
        assert_eq!(page["found"], all, "{path}");
        let nodes = page["nodes"].as_array().unwrap();
        lengths.push(nodes.len());
        names.extend(nodes.iter().map(|node| node["name"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/nodes?cursor={next}");
    }
    assert_eq!(lengths, [100, 100, 74]);
    let distinct: BTreeSet<&String> = names.iter().collect();
    assert_eq!((distinct.len(), names[0].as_str(), names[all - 1].as_str()), (all, "db1", "procprof"));

    // A search is of all nodes, and pages of what it finds are as long as asked for.
    let page = server.json("/api/nodes?q=DB3%2Fs8&limit=7").await;
    let next = page["next"].as_str().unwrap();
    let rest = server.json(&format!("/api/nodes?q=DB3%2Fs8&limit=7&cursor={next}")).await;
    let found = |page: &Value| page["nodes"].as_array().unwrap().len();
    assert_eq!((&page["found"], found(&page), found(&rest), &rest["next"]), (&10.into(), 7, 3, &Value::Null));
    for wrong in ["cursor=4711", "cursor=x", "limit=0", "limit=1001", "text=x"] {
        assert_eq!(server.status(Method::GET, &format!("/api/nodes?{wrong}")).await, 400, "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_usage_of_nodes_has_pages_by_cursor() {
    let server = with_hosts().await;
    let agent = agent(1, None);
    let frames = (0..3).map(|number| {
        frame(&agent.header(Some(&format!("s{number:02}")), number), &cpu_profile(1_700_000_000 + i64::from(number)))
    });
    assert_eq!(agent.push(&server, frames.collect::<Vec<_>>().concat()).await.0, 200);
    let first = server.json("/api/retention?limit=2").await;
    let next = first["next"].as_str().unwrap();
    let second = server.json(&format!("/api/retention?limit=2&cursor={next}")).await;
    let ids = |page: &Value| -> Vec<u64> {
        page["nodes"].as_array().unwrap().iter().map(|node| node["node"].as_u64().unwrap()).collect()
    };
    assert_eq!((ids(&first).len(), ids(&second).len(), &second["next"]), (2, 1, &Value::Null), "{first} {second}");
    assert!(ids(&first)[1] < ids(&second)[0]);
    assert_eq!((&first["profiles"], &second["profiles"]), (&3.into(), &3.into()), "sums are of all nodes");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_has_pages_of_a_hundred_rows() {
    let server = with_hosts().await;
    let (mut path, mut pages) = ("/".to_owned(), Vec::new());
    loop {
        let page = server.text(&path).await;
        assert!(page.len() < PAGE_BYTES_MAX, "{path}: {} bytes", page.len());
        assert!(page.contains("274 nodes"), "{path} counts all");
        let next = link(&page, "next");
        pages.push(page);
        match next {
            Some(next) => path = next,
            None => break,
        }
    }
    let lengths: Vec<usize> = pages.iter().map(|page| rows(page).len()).collect();
    assert_eq!(lengths, [100, 100, 74]);
    let links: Vec<&str> = pages
        .iter()
        .flat_map(|page| rows(page))
        .map(|row| between(row, "class=\"node\" href=\"/proc_profile?node=", "\"")[0])
        .collect();
    let distinct: BTreeSet<&&str> = links.iter().collect();
    assert_eq!(distinct.len(), 274, "each node has one row");
    assert!(pages[0].contains("Rows 1 to 100 of 274") && pages[2].contains("Rows 201 to 274 of 274"));
    assert_eq!(link(&pages[0], "prev"), None);
    assert_eq!(link(&pages[2], "prev").as_deref(), Some("/?page=2"));
    // The host of the first services is on the page before.
    assert!(rows(&pages[1])[0].contains("db2/s08"), "{}", rows(&pages[1])[0]);
    assert!(!pages[1].contains(">db3/s00<") && pages[1].contains(">s00<"), "below its host it has its own name");

    // Those after the last page see the last one.
    assert!(server.text("/?page=99").await.contains("Rows 201 to 274 of 274"));
    for wrong in ["page=0", "page=x"] {
        assert_eq!(server.status(Method::GET, &format!("/?{wrong}")).await, 400, "{wrong}");
    }
    // A search is of all pages, and has pages.
    let found = server.text("/?q=db3%2Fs8").await;
    assert!(found.contains("10 of 274 nodes") && found.contains("db3/s89") && !found.contains("rel=\"next\""));
    let found = server.text("/?q=DB").await;
    assert_eq!(link(&found, "next").as_deref(), Some("/?page=2&q=db"));
}

#[tokio::test(flavor = "multi_thread")]
async fn choices_of_a_node_are_bounded_and_reach_all() {
    let server = with_hosts().await;
    let list = server.text("/proc_profile?node=db3%2Fs89").await;
    assert!(list.contains("All 274 nodes") && list.contains("The first 100 are listed"), "{list}");
    let panel = between(&list, "id=\"all-nodes\"", "</details>")[0];
    assert_eq!(panel.matches("<li>").count(), 100);
    assert!(list.contains("db3/s89"), "the chosen node is a tab");
    for path in ["/search", "/merge", "/heap"] {
        let page = server.text(path).await;
        assert!(page.len() < PAGE_BYTES_MAX, "{path}: {} bytes", page.len());
    }
    let search = server.text("/search?function=main&node=db3%2Fs89").await;
    assert!(search.contains("value=\"db3/s89\"") && search.matches("<option").count() < 150, "{search}");
    let merge = server.text("/merge?node=db3%2Fs89").await;
    assert!(merge.contains("value=\"db3/s89\"") && merge.contains("data-suggest=\"/api/nodes?limit=20&amp;q=\""));
}
