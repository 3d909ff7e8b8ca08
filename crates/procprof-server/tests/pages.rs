//! The pages, and the endpoints that StarRocks' own clients request.

use std::io::Write;

use procprof_profile::format::pprof::encode_gzip;
use procprof_profile::{Nanos, ProfileBuilder};
use reqwest::Method;
use reqwest::header::ACCEPT;

use crate::harness::{TestServer, cpu_profile, parsed, quiet, until};

/// The text of a piece of HTML that begins within a tag.
fn words(html: &str) -> String {
    let text: Vec<&str> = html.split('>').skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
    text.join(" ").split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_complete_without_scripts() {
    let server = TestServer::start(quiet()).await;
    assert!(server.text("/proc_profile").await.contains("No profiles"));
    let old = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let new = server.push("cpu", cpu_profile(1_700_000_100)).await;
    let response = server.get("/proc_profile?node=FE").await;
    let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
    let page = response.text().await.unwrap();
    let heads: Vec<String> =
        page.split("<th ").skip(1).map(|rest| words(rest.split("</th>").next().unwrap())).collect();
    assert_eq!(
        heads,
        [
            "Select",
            "Type",
            "Completed",
            "Duration",
            "Samples",
            "Total",
            "Top function (self)",
            "Flame graph",
            "Size",
            "Trigger",
            "View",
            "More"
        ]
    );
    let row = page.split("<tr>").find(|row| row.contains(new["file_name"].as_str().unwrap())).unwrap();
    let cells: Vec<String> = row.split("<td").skip(1).map(|cell| words(cell.split("</td>").next().unwrap())).collect();
    assert_eq!(cells[3..10], ["1 s", "2", "1 s CPU, 1 core", "70\u{a0}% hot_70", "", &cells[8], "push"], "{row}");
    assert!(row.contains(&format!("/p/{}", new["id"].as_str().unwrap())), "{row}");
    let place = |profile: &serde_json::Value| page.find(profile["file_name"].as_str().unwrap()).unwrap();
    assert!(place(&new) < place(&old), "newest first");
    assert!(
        page.contains("title=\"2023-11-14 22:15:01 UTC\">2023-11-14 22:15:01 UTC</time>"),
        "completion, in UTC: {page}"
    );
    assert!(!page.contains("<script>") && !page.contains("style=") && !page.contains(" onclick"), "nothing inline");
    let icon = server.get("/favicon.ico").await;
    assert_eq!((icon.status().as_u16(), &icon.headers()["content-type"]), (200, &"image/svg+xml".parse().unwrap()));
    for asset in page.split("\"/assets/").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        let served = server.get(&format!("/assets/{asset}")).await;
        assert_eq!(served.status(), 200, "{asset}");
        assert!(served.headers()["cache-control"].to_str().unwrap().contains("immutable"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_keeps_its_filters_and_leads_to_what_is_selected() {
    let server = TestServer::start(quiet()).await;
    let first = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let second = server.push("cpu", cpu_profile(1_700_000_100)).await;
    let third = server.push("wall", cpu_profile(1_700_000_200)).await;
    let rows = async |query: &str| {
        let page = server.text(&format!("/proc_profile?node=1{query}")).await;
        let shown = [&first, &second, &third]
            .map(|profile| page.contains(&format!("value=\"{}\"", profile["id"].as_str().unwrap())));
        (shown, page)
    };
    for (query, shown) in [
        ("", [true, true, true]),
        ("&type=cpu", [true, true, false]),
        ("&text=hot_70", [true, true, true]),
        ("&text=nothing_such", [false, false, false]),
        ("&from=2023-11-14T22:15:00Z", [false, true, true]),
        ("&from=2023-11-14T22:15:00Z&to=2023-11-14T22:16:00Z&type=cpu", [false, true, false]),
        ("&last=1d", [false, false, false]),
        ("&trigger=push", [true, true, true]),
        ("&trigger=manual", [false, false, false]),
    ] {
        let (found, page) = rows(query).await;
        assert_eq!(found, shown, "{query}");
        assert!(shown.contains(&true) || page.contains("Clear the filters"), "{query}");
    }
    let (_, page) = rows("&type=cpu&text=hot_70").await;
    assert!(
        page.contains("name=\"back\" value=\"/proc_profile?node=1&amp;type=cpu&amp;text=hot_70\""),
        "a capture keeps the filters"
    );
    // The timeline has every type, each profile a link.
    assert_eq!(page.matches("class=\"lane\"").count(), 2);
    for profile in [&first, &second, &third] {
        assert!(page.contains(&format!("<a href=\"/p/{}\"><rect ", profile["id"].as_str().unwrap())), "{page}");
    }
    let [a, b] = [&second, &first].map(|profile| profile["id"].as_str().unwrap());
    for (query, status, place) in [
        (format!("id={a}&do=view"), 303, format!("/p/{a}")),
        (format!("id={a}&id={b}&do=compare"), 303, format!("/p/{a}?base={b}")),
        (format!("id={a}&id={b}&do=merge"), 303, format!("/merge?id={a}&id={b}")),
        (format!("id={a}&do=compare"), 400, String::new()),
        ("do=view".to_owned(), 400, String::new()),
        ("id=x&do=view".to_owned(), 400, String::new()),
    ] {
        let answer = server.get(&format!("/proc_profile/select?{query}")).await;
        let led = answer.headers().get("location").map_or("", |place| place.to_str().unwrap());
        assert_eq!((answer.status().as_u16(), led), (status, place.as_str()), "{query}");
    }
    assert_eq!(server.status(Method::GET, "/proc_profile?node=1&last=2d").await, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_nodes_are_chosen_from_a_searchable_list() {
    let nodes = |count: usize| {
        let node = |number: usize| {
            format!(
                "[[node]]\nname = \"be-{number}\"\nrole = \"BE\"\nkind = \"pprof\"\nhttp = \"127.0.0.1:1\"\nschedule.cpu = {{ on = false }}\n"
            )
        };
        let nodes: String = (0..count).map(node).collect();
        parsed(&format!("proc_profile_cpu_enable = false\n{nodes}"))
    };
    let few = TestServer::start(nodes(3)).await;
    let page = few.text("/proc_profile").await;
    assert!(page.contains("<strong>BE be-0</strong>"), "not the server's own page: {page}");
    assert!(!page.contains("class=\"picker\""), "{page}");
    let many = TestServer::start(nodes(100)).await;
    let page = many.text("/proc_profile?node=be-77").await;
    let (picker, tabs) = page.split_once("class=\"picker\"").unwrap().1.split_once("</details>").unwrap();
    let tabs = tabs.split_once("</nav>").unwrap().0;
    assert_eq!((picker.matches("<li>").count(), tabs.matches("<a ").count()), (100, 7));
    assert!(tabs.trim_start().contains("aria-current=\"page\"") && tabs.contains("be-77"), "{tabs}");
    assert!(picker.contains("Backends (100)") && picker.contains("type=\"search\""), "{picker}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_has_every_node_with_its_newest_profiles_and_coverage() {
    let node = |name: &str| {
        format!(
            "[[node]]\nname = \"{name}\"\nkind = \"pprof\"\nhttp = \"127.0.0.1:1\"\nschedule.cpu = {{ on = false }}\n"
        )
    };
    let text =
        format!("proc_profile_cpu_enable = false\n{}{}labels = {{ zone = \"eu-7\" }}\n", node("first"), node("second"));
    let server = TestServer::start(parsed(&text)).await;
    let now = jiff::Timestamp::now().as_second();
    for start in [now - 100, now - 50] {
        let profile = server
            .request(Method::POST, "/api/push?node=first&type=cpu")
            .body(cpu_profile(start))
            .send()
            .await
            .unwrap();
        assert_eq!(profile.status(), 201);
    }
    let page = server.text("/").await;
    let row = |name: &str| {
        page.split("<tr>").find(|row| row.contains(&format!("class=\"name\">{name}<"))).unwrap().to_owned()
    };
    let cells: Vec<String> =
        row("first").split("<td").skip(1).map(|cell| words(cell.split("</td>").next().unwrap())).collect();
    assert!(cells[4].starts_with("CPU ") && cells[4].ends_with(" ago"), "{cells:?}");
    // Two seconds of the last hundred, and of the test's own.
    assert_eq!(cells[5], "max 1 cores", "{cells:?}");
    assert!(cells[6].contains("\u{a0}% of the last ") && !cells[6].contains("day"), "{cells:?}");
    assert!(row("second").contains("none within a day"), "{page}");
    let found = server.text("/?q=eu-7").await;
    assert!(found.contains("class=\"name\">second<") && !found.contains("class=\"name\">first<"), "{found}");
    assert!(server.text("/?q=nothing").await.contains("No node matches"));
    // Several captures at once: those of types that a node has.
    let send = async |body: &'static str| {
        server.request(Method::POST, "/captures").body(body).send().await.unwrap().status().as_u16()
    };
    assert_eq!(send("node=first&node=second&type=cpu&type=goroutine&seconds=1").await, 303);
    assert_eq!(server.json("/api/captures").await.as_array().unwrap().len(), 2);
    assert!(server.text("/").await.contains("Captures on request"));
    for refused in ["node=first&type=goroutine", "type=cpu", "node=third&type=cpu", "node=first&type=cpu&seconds=0"] {
        assert_eq!(send(refused).await, 400, "{refused}");
    }
    let id = server.json("/api/captures").await[0]["id"].as_str().unwrap().to_owned();
    let cancel = server.request(Method::POST, &format!("/captures/{id}/cancel")).body("back=%2F").send().await.unwrap();
    assert_eq!((cancel.status().as_u16(), cancel.headers()["location"].to_str().unwrap()), (303, "/"));
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_are_found_by_function_and_share() {
    let server = TestServer::start(quiet()).await;
    let pushed = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let id = pushed["id"].as_str().unwrap();
    for (query, found) in [
        ("function=hot_70", true),
        ("function=HOT&percent=70", true),
        ("function=hot_70&percent=71", false),
        ("function=hot_30&percent=30&type=cpu&node=1", true),
        ("function=hot_30&type=wall", false),
        ("function=main", false),
        ("function=main&percent=0", false),
        ("function=main&of=total&percent=100", true),
        ("function=hot_30&of=total&percent=31", false),
        ("function=hot&to=2023-11-14T22:13:00Z", false),
    ] {
        let page = server.text(&format!("/search?{query}")).await;
        assert_eq!(page.contains(&format!("href=\"/p/{id}\"")), found, "{query}: {page}");
        assert!(
            page.contains(if found { "1 profile</strong> of 1 searched" } else { "No profile has it" }),
            "{query}: {page}"
        );
    }
    let page = server.text("/search").await;
    assert!(page.contains("name=\"function\"") && !page.contains("</strong> of "), "{page}");
    let hostile = server.text("/search?function=%3Cscript%3E%27%22").await;
    assert!(!hostile.contains("<script>'"), "{hostile}");
    assert_eq!(server.status(Method::GET, "/search?function=x&percent=101").await, 400);
    assert_eq!(server.status(Method::GET, "/search?function=x&of=all").await, 400);
}

/// A CPU profile of functions that take the same.
fn flat_profile(names: &[String]) -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    for name in names {
        let frame = builder.frame(name);
        builder.sample(&[frame], &[1, 10_000_000], &[]);
    }
    builder.time(Nanos(1_700_000_000_000_000_000), Nanos(1_000_000_000));
    encode_gzip(&builder.finish().unwrap()).unwrap()
}

/// Also one that the summary of its profile has no room for.
#[tokio::test(flavor = "multi_thread")]
async fn every_function_above_the_share_is_found() {
    let server = TestServer::start(quiet()).await;
    let names: Vec<String> = (0..50).map(|number| format!("equal_{number:02}")).collect();
    let pushed = server.push("cpu", flat_profile(&names)).await;
    let link = format!("href=\"/p/{}\"", pushed["id"].as_str().unwrap());
    for name in ["equal_00", "equal_37", "equal_49"] {
        let page = server.text(&format!("/search?function={name}&percent=2")).await;
        assert!(page.contains(&link) && page.contains(&format!("title=\"{name}\"")), "{name}: {page}");
    }
    let page = server.text("/search?function=equal_49&percent=3").await;
    assert!(page.contains("No profile has it") && !page.contains("still being read"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_ours_alone_and_leads_to_pages_that_are_there() {
    let server = TestServer::start(quiet()).await;
    let pushed = server.push("heap", cpu_profile(1_700_000_000)).await;
    let mut seen: Vec<String> =
        ["/", "/settings", "/help", "/heap?node=1", "/search?function=hot", "/open"].map(str::to_owned).to_vec();
    seen.push(format!("/p/{}", pushed["id"].as_str().unwrap()));
    let mut links = Vec::new();
    for path in &seen {
        let page = server.text(path).await;
        assert!(
            !page.contains("<script>") && !page.contains("style=") && !page.contains(" onclick"),
            "{path}: nothing inline"
        );
        links.extend(
            page.split("href=\"/")
                .skip(1)
                .map(|rest| format!("/{}", rest.split('"').next().unwrap().replace("&amp;", "&"))),
        );
    }
    links.sort();
    links.dedup();
    for link in &links {
        let status = server.status(Method::GET, link).await;
        assert!([200, 303].contains(&status), "{link}: {status}");
    }
    let settings = server.text("/settings").await.replace("<wbr>", "");
    assert!(settings.contains("proc_profile_file_retained_days") && settings.contains("36500 days"), "{settings}");
    let growth = server.get(&format!("/heap/growth?from={0}&to={0}", pushed["id"].as_str().unwrap())).await;
    assert_eq!(growth.status(), 400, "a dump has no growth from itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_opened_without_being_stored() {
    let server = TestServer::start(quiet()).await;
    let profile = cpu_profile(1_700_000_000);
    let form = [
        b"--b0\r\nContent-Disposition: form-data; name=\"file\"; filename=\"mine <b>.pb.gz\"\r\n\r\n".as_slice(),
        &profile,
        b"\r\n--b0--\r\n",
    ]
    .concat();
    let send = async |media_type: &str, body: Vec<u8>| {
        server.request(Method::POST, "/open").header("content-type", media_type).body(body).send().await.unwrap()
    };
    for (media_type, body) in [("multipart/form-data; boundary=b0", form), ("application/octet-stream", profile)] {
        let answer = send(media_type, body).await;
        assert_eq!(answer.status(), 303);
        let place = answer.headers()["location"].to_str().unwrap().to_owned();
        let page = server.text(&place).await;
        assert!(page.contains(&format!("\"tree\":\"{place}/tree\"")) && !page.contains("mine <b>"), "{page}");
        assert!(server.text(&format!("{place}?plain=true")).await.contains("hot_70"));
        assert_eq!(server.status(Method::GET, &format!("{place}?view=table&focus=hot&zoom=2")).await, 200);
        let tree = server.get(&format!("{place}/tree?wide=2048&rows=64")).await.bytes().await.unwrap();
        assert!(tree.starts_with(b"PPT1") && tree.windows(6).any(|bytes| bytes == b"hot_70"));
        assert_eq!(server.json(&format!("{place}/search?re=hot_70")).await["total"], 700_000_000);
        assert_eq!(server.json(&format!("{place}/table?sample_index=samples&limit=1")).await["rows"][0]["self"], 70);
        assert_eq!(server.status(Method::GET, &format!("{place}/sandwich?name=hot_70&side=callers")).await, 200);
        assert!(server.text("/open").await.contains(&format!("href=\"{place}\"")), "it is listed");
        let framed = server.get(&format!("{place}?format=html")).await;
        assert!(framed.headers()["content-security-policy"].to_str().unwrap().starts_with("sandbox allow-scripts;"));
        assert!(server.text(&format!("{place}?format=top")).await.contains("hot_70"));
        assert_eq!(server.status(Method::GET, &format!("{place}?format=nonsense")).await, 400);
        assert_eq!(server.status(Method::GET, &format!("{place}?event=1")).await, 400);
        assert_eq!(server.status(Method::POST, &format!("{place}/close")).await, 303);
        assert_eq!(server.status(Method::GET, &place).await, 410);
        assert_eq!(server.status(Method::GET, &format!("{place}/tree")).await, 410);
    }
    assert_eq!(server.json("/api/profiles").await["profiles"], serde_json::json!([]));
    for (media_type, body, status) in [
        ("text/plain", "no profile at all", 422),
        ("text/plain", "", 400),
        ("multipart/form-data; boundary=b0", "--b0--\r\n", 400),
    ] {
        assert_eq!(send(media_type, body.into()).await.status(), status, "{body:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn below_a_proxys_path_every_link_begins_with_it() {
    let mut config = quiet();
    config.base_path = "/profiling".to_owned();
    let server = TestServer::start(config).await;
    let pushed = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let one = format!("/p/{}", pushed["id"].as_str().unwrap());
    // A proxy may remove the path or leave it.
    for prefix in ["", "/profiling"] {
        let shown = server.json(&format!("{prefix}/api/profiles/{}", pushed["id"].as_str().unwrap())).await;
        assert_eq!(shown["view"], format!("/profiling{one}"));
        for path in ["/", "/proc_profile?node=1", "/settings", "/open", "/merge", &one] {
            let page = server.text(&format!("{prefix}{path}")).await;
            for attribute in [" href=\"/", " src=\"/", " action=\"/", " formaction=\"/"] {
                let stray = page.split(attribute).skip(1).find(|rest| !rest.starts_with("profiling/"));
                assert!(stray.is_none(), "{prefix}{path}: {attribute}{:?}", stray.map(|rest| rest.get(..40)));
            }
            assert!(page.contains("href=\"/profiling/settings\""), "{path}");
        }
    }
    let place = async |method: Method, path: &str, body: &'static str| {
        let answer = server.request(method, path).body(body).send().await.unwrap();
        answer.headers()["location"].to_str().unwrap().to_owned()
    };
    assert_eq!(place(Method::POST, &format!("/profiling{one}/pin"), "pinned=yes").await, format!("/profiling{one}"));
    assert_eq!(place(Method::GET, "/profiling", "").await, "/profiling/");
    let lost = server.request(Method::GET, "/profiling/nothing").header(ACCEPT, "text/html").send().await.unwrap();
    assert_eq!(lost.status(), 404);
    assert!(lost.text().await.unwrap().contains("href=\"/profiling/proc_profile\""));
    assert_eq!(server.status(Method::GET, "/profilings").await, 404);
    assert!(server.text("/help").await.contains("/profiling/api/captures"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_value_of_profiles_without_samples_is_zero() {
    let server = TestServer::start(quiet()).await;
    let mut builder = ProfileBuilder::new(&[("contentions", "count"), ("delay", "nanoseconds")]);
    builder.time(Nanos(1_700_000_000_000_000_000), Nanos(1_000_000_000));
    server.push("contention", encode_gzip(&builder.finish().unwrap()).unwrap()).await;
    let page = server.text("/proc_profile?node=1&type=contention").await;
    assert!(page.contains("max 0 s"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_are_merged_and_compared() {
    let server = TestServer::start(quiet()).await;
    let mut ids = Vec::new();
    for start in [1_700_000_000, 1_700_000_100, 1_700_086_400] {
        let pushed = server.push("cpu", cpu_profile(start)).await;
        ids.push(pushed["id"].as_str().unwrap().to_owned());
    }
    for form in ["/merge", "/merge?node=1&type=cpu"] {
        assert!(server.text(form).await.contains("name=\"base_from\""), "{form}");
    }
    let range = "/merge?node=1&type=cpu&from=2023-11-15T22:00:00Z&to=2023-11-15T23:00:00Z";
    let page = server.text(range).await;
    assert!(page.contains("of 1 profile<") && page.contains("1 s in all"), "{page}");
    let before = page
        .split("href=\"")
        .find(|rest| rest.contains("base_from"))
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .replace("&amp;", "&");
    assert!(before.contains("base_from=2023-11-14T22%3A00%3A00.000Z&base_to=2023-11-14T23%3A00%3A00.000Z"), "{before}");
    assert!(server.text(&format!("{range}&format=top")).await.contains("hot_70"));
    // Sides that measured for different lengths are scaled unless the address says otherwise.
    assert_eq!(server.status(Method::GET, &before).await, 307);
    let compared = server.text(&format!("{before}&normalize=false")).await;
    assert!(compared.contains("Values are compared as measured."), "{compared}");
    for (scaling, words) in [("true", "to the same total."), ("time", "to the same measured time.")] {
        let compared = server.text(&format!("{before}&normalize={scaling}")).await;
        assert!(compared.contains("Measured: 1 second here, 2 seconds in the base."), "{compared}");
        assert!(compared.contains(&format!("The base is scaled {words}")), "{compared}");
    }
    let compared = server.text(&format!("{before}&normalize=time")).await;
    assert!(compared.contains("id=\"viewer-config\"") && compared.contains("/merge/tree?node=1"), "{compared}");
    assert!(compared.contains("2 profiles</strong>, 2 s in all") && compared.contains("Compared with"), "{compared}");
    let none = server.text("/merge?node=1&type=cpu&from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z").await;
    assert!(none.contains("No profiles in this range"), "{none}");
    // All nodes are one parameter, and those with a label.
    let all = range.replace("node=1", "node=*");
    let page = server.text(&all).await;
    assert!(page.contains("of 1 profile<") && page.contains("/merge?node=%2A&amp;type=cpu&amp;"), "{page}");
    assert!(page.contains("value=\"*\" selected"), "{page}");
    assert!(server.text(&format!("{all}&format=top")).await.contains("hot_70"));
    let none = server.text(&format!("{all}&label=zone%3Deu-1")).await;
    assert!(
        none.contains("No profiles in this range") && none.contains("name=\"label\" value=\"zone=eu-1\""),
        "{none}"
    );
    for wrong in [
        "node=*&node=1&type=cpu&from=1&to=2",
        "node=*&type=cpu&from=1&to=2&label=x",
        "node=1&from=1&to=2",
        "type=cpu&from=1&to=2",
        "node=1&type=cpu&from=2&to=1",
        "id=x",
    ] {
        assert_eq!(server.status(Method::GET, &format!("/merge?{wrong}")).await, 400, "{wrong}");
    }

    // A profile's page leads to the same hour of the day before, and names what it is compared with.
    let page = server.text(&format!("/p/{}", ids[2])).await;
    let day_before = page.split("href=\"").find(|rest| rest.starts_with("/merge?id=")).unwrap();
    let day_before = day_before.split('"').next().unwrap().replace("&amp;", "&");
    let compared = server.text(&format!("{day_before}&normalize=true")).await;
    assert!(compared.contains("2 profiles</strong>") && compared.contains("id=\"viewer-config\""), "{compared}");
    assert!(
        page.contains("Compare with day before") && page.contains(&format!("/p/{}?base={}", ids[2], ids[1])),
        "{page}"
    );
    assert!(!server.text(&format!("/p/{}", ids[0])).await.contains("Compare with"), "no profile is that old");
    let page = server.text(&format!("/p/{}?base={}", ids[1], ids[0])).await;
    assert!(page.contains("Compared with") && page.contains(&format!("/p/{}?base={}", ids[0], ids[1])), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn coverage_is_that_of_the_last_day() {
    let server = TestServer::start(quiet()).await;
    let now = jiff::Timestamp::now().as_second();
    server.push("cpu", cpu_profile(now - 86_000)).await;
    let page = server.text("/").await;
    assert!(page.contains("0\u{a0}% of the last day"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schedule_is_paused_in_the_settings_and_in_the_menus_of_nodes() {
    let server = TestServer::start(quiet()).await;
    let bar = |page: &str| page.split("</header>").next().unwrap().to_owned();
    let places = ["/", "/proc_profile?node=1", "/settings"];
    for place in places {
        let page = server.text(place).await;
        assert!(page.contains("Pause schedule") && !bar(&page).contains("schedule"), "{place}: {page}");
    }
    let body = "paused=yes&back=%2Fsettings";
    let answer = server.request(Method::POST, "/proc_profile/pause").body(body).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["location"]), (303, &"/settings".parse().unwrap()));
    for place in places {
        let page = server.text(place).await;
        assert!(
            page.contains("Resume schedule") && bar(&page).contains("href=\"/settings#schedule\""),
            "{place}: {page}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_difference_opens_scaled_to_equal_time() {
    let server = TestServer::start(quiet()).await;
    let measured = |start: i64, seconds: i64| {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        let frame = builder.frame("main");
        builder.sample(&[frame], &[10, 10_000_000], &[]);
        builder.time(Nanos(start * 1_000_000_000), Nanos(seconds * 1_000_000_000));
        encode_gzip(&builder.finish().unwrap()).unwrap()
    };
    let mut ids = Vec::new();
    for (start, seconds) in [(1_700_000_000, 10), (1_700_000_100, 30), (1_700_000_200, 30)] {
        let profile = server.push("cpu", measured(start, seconds)).await;
        ids.push(profile["id"].as_str().unwrap().to_owned());
    }
    let address = format!("/p/{}?base={}", ids[1], ids[0]);
    let answer = server.get(&format!("{address}&view=table")).await;
    let place = answer.headers().get("location").map_or("", |place| place.to_str().unwrap());
    assert_eq!((answer.status().as_u16(), place), (307, format!("{address}&view=table&normalize=time").as_str()));
    let scaled = server.text(place).await;
    assert!(scaled.contains("Measured: 30 seconds here, 10 seconds in the base."), "{scaled}");
    assert!(scaled.contains("The base is scaled to the same measured time."), "{scaled}");
    let switch = format!("{address}&view=table&normalize=false").replace('&', "&amp;");
    assert!(scaled.contains(&format!("href=\"{switch}\"")), "{scaled}");
    assert!(server.text(&format!("{address}&normalize=false")).await.contains("Values are compared as measured."));
    let equal = server.text(&format!("/p/{}?base={}", ids[2], ids[1])).await;
    assert!(equal.contains("Both sides measured for the same time.") && equal.contains("normalize=true"), "{equal}");
    assert!(!equal.contains("normalize=time"), "{equal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_leads_back_to_pages_of_ours_only() {
    let server = TestServer::start(quiet()).await;
    let pushed = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let id = pushed["id"].as_str().unwrap();
    for (back, place) in [
        ("%2Fproc_profile%3Fnode%3D1%26type%3Dcpu", "/proc_profile?node=1&type=cpu".to_owned()),
        ("%2F%2Fevil.example", format!("/p/{id}")),
        ("%2F%5Cevil.example", format!("/p/{id}")),
        ("http%3A%2F%2Fevil.example", format!("/p/{id}")),
        ("%2Fa%0D%0AX-Evil%3A1", format!("/p/{id}")),
        ("", format!("/p/{id}")),
    ] {
        let body = format!("pinned=yes&back={back}");
        let answer = server.request(Method::POST, &format!("/p/{id}/pin")).body(body).send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), answer.headers()["location"].to_str().unwrap()),
            (303, place.as_str()),
            "{back}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_a_flame_graph_by_default() {
    let server = TestServer::start(quiet()).await;
    let pushed = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let base = format!("/proc_profile/file?filename={}&node=1", pushed["file_name"].as_str().unwrap());
    for (format, media_type, content) in [
        ("", "image/svg+xml", "hot_70"),
        ("&format=svg", "image/svg+xml", "<svg"),
        ("&format=html", "text/html; charset=utf-8", "<html"),
        ("&format=top", "text/plain; charset=utf-8", "hot_70"),
        ("&format=collapsed", "text/plain; charset=utf-8", "main;hot_70"),
    ] {
        let response = server.get(&format!("{base}{format}")).await;
        assert_eq!(
            (response.status().as_u16(), response.headers()["content-type"].to_str().unwrap()),
            (200, media_type),
            "{format}"
        );
        if !media_type.starts_with("text/plain") {
            assert!(
                response.headers()["content-security-policy"].to_str().unwrap().starts_with("sandbox allow-scripts;")
            );
        }
        assert!(response.text().await.unwrap().contains(content), "{format}");
    }
    let zipped = server.request(Method::GET, &base).header("accept-encoding", "gzip").send().await.unwrap();
    assert_eq!(zipped.headers()["content-encoding"], "gzip");
    let page = server.text(&format!("/p/{}", pushed["id"].as_str().unwrap())).await;
    assert!(
        page.contains("About this profile") && page.contains("id=\"viewer-config\"") && !page.contains("<iframe"),
        "{page}"
    );
    assert!(
        page.contains(
            "<dt>Started (UTC)</dt><dd>2023-11-14 22:13:20</dd><dt>Completed (UTC)</dt><dd>2023-11-14 22:13:21</dd>"
        ),
        "{page}"
    );
    // Without JavaScript, the browser goes on to a page with a table.
    let plain = page.split("content=\"0;url=").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
    let plain = server.text(&plain).await;
    assert!(plain.contains("hot_70") && !plain.contains("viewer-config"), "{plain}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_pin_and_delete_with_forms() {
    let server = TestServer::start(quiet()).await;
    let pushed = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let id = pushed["id"].as_str().unwrap();
    let page = server.text(&format!("/p/{id}")).await;
    let (pin, delete) = (format!("/p/{id}/pin"), format!("/p/{id}/delete"));
    assert!(
        page.contains(&format!("action=\"{pin}\""))
            && page.contains(">Pin</button>")
            && page.contains("<details class=\"confirm\">"),
        "{page}"
    );
    let send = async |path: &str, body: &'static str, origin: &str| {
        let response = server.request(Method::POST, path).header("origin", origin).body(body).send().await.unwrap();
        let place = response.headers().get("location").map(|place| place.to_str().unwrap().to_owned());
        (response.status().as_u16(), place)
    };
    let own = format!("http://{}", server.address);
    for path in [&pin, &delete] {
        assert_eq!(send(path, "pinned=yes", "http://evil.example").await.0, 403, "{path}");
    }
    assert_eq!(send(&pin, "pinned=perhaps", &own).await.0, 400);
    assert_eq!(send(&pin, "", &own).await.0, 400);
    assert_eq!(send(&pin, "pinned=yes", &own).await, (303, Some(format!("/p/{id}"))));
    let page = server.text(&format!("/p/{id}")).await;
    assert!(page.contains(">Unpin</button>") && !page.contains(&delete), "{page}");
    assert!(server.text("/proc_profile?node=1").await.contains("class=\"tag pin\""));
    assert_eq!(send(&delete, "", &own).await.0, 409, "a pinned one stays");
    assert_eq!(send(&pin, "pinned=no", &own).await.0, 303);
    assert!(!server.text("/proc_profile?node=1").await.contains("class=\"tag pin\""));
    assert_eq!(send(&delete, "", &own).await, (303, Some("/proc_profile?node=1".to_owned())));
    assert_eq!(server.status(Method::GET, &format!("/p/{id}")).await, 404);
    assert_eq!(send(&delete, "", &own).await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_errors_stand_beside_the_list_and_all_on_a_page_of_their_own() {
    let logs = tempfile::tempdir().unwrap();
    let folder = logs.path().join("proc_profile");
    std::fs::create_dir(&folder).unwrap();
    for number in 0..120 {
        std::fs::write(
            folder.join(format!("cpu-profile-20251120-12{:02}{:02}-pprof.gz", number / 60, number % 60)),
            format!("no profile {number}"),
        )
        .unwrap();
    }
    let mut config = quiet();
    config.sys_log_dir = Some(logs.path().to_owned());
    let server = TestServer::start(config).await;
    until("120 errors", async || {
        let page = server.json("/api/errors?node=imported&limit=1000").await;
        (page["errors"].as_array().unwrap().len() >= 120).then_some(())
    })
    .await;
    let rows = |page: &str| page.matches("class=\"reason\"").count();
    let list = server.text("/proc_profile?node=imported").await;
    let all = list
        .split("href=\"")
        .find(|rest| rest.starts_with("/proc_profile/errors?"))
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    assert_eq!(rows(&list), 10);
    let first = server.text(all).await;
    let next = first
        .split("href=\"")
        .find(|rest| rest.contains("cursor="))
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .replace("&amp;", "&");
    let second = server.text(&next).await;
    assert_eq!((rows(&first), rows(&second), second.contains("Older")), (100, 20, false));
    assert_eq!(rows(&server.text("/proc_profile/errors?node=procprof").await), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tricks_with_names_get_nothing() {
    let server = TestServer::start(quiet()).await;
    let pushed = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let name = pushed["file_name"].as_str().unwrap();
    for (trick, status) in [
        ("", 400),
        ("../catalog.sqlite", 403),
        ("..%2Fcatalog.sqlite", 403),
        ("%2e%2e%2f%2e%2e%2fetc%2fpasswd", 403),
        ("/etc/passwd", 403),
        ("cpu-profile-x'$(id)'-pprof.gz", 403),
        ("cpu-profile-%00-pprof.gz", 403),
        ("cpu-profile-20231114-221320-pprof.gz%0d%0aX-Evil:1", 403),
        ("%3Cscript%3E-profile-", 403),
        (".cpu-profile-20231114-221320-pprof.gz", 403),
        ("cpu-profile-20231114-221321-pprof.gz", 404),
        ("cpu-profile-20231114-221320-pprof.gz/", 403),
        ("%ff", 400),
    ] {
        assert_eq!(
            server.status(Method::GET, &format!("/proc_profile/file?filename={trick}&node=1")).await,
            status,
            "{trick}"
        );
    }
    assert_eq!(server.status(Method::GET, &format!("/proc_profile/file?filename={name}&node=1")).await, 200);
    assert_eq!(server.status(Method::GET, &format!("/proc_profile/file?filename={name}&node=evil:80")).await, 400);
    let archive = name.replace("-pprof.gz", ".html.tar.gz");
    let page = server.get(&format!("/proc_profile/file?filename={archive}&node=1")).await;
    assert!(
        page.headers()["content-type"].to_str().unwrap().starts_with("text/html"),
        "as a frontend answers it: {archive}"
    );
    assert_eq!(
        server
            .status(Method::GET, &format!("/proc_profile/file?filename={}&node=1", archive.replace("cpu", "mem")))
            .await,
        404
    );
    assert_eq!(
        server.status(Method::GET, &format!("/proc_profile/file?filename={name}&node=1&format=nonsense")).await,
        400
    );
    let page = server
        .request(Method::GET, "/proc_profile?node=%3Cscript%3Ealert(1)%3C/script%3E")
        .header(ACCEPT, "text/html")
        .send()
        .await
        .unwrap();
    assert_eq!(page.status(), 400);
    let page = page.text().await.unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && !page.contains("<script>alert"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_made_elsewhere_are_shown_sandboxed_by_their_content() {
    let logs = tempfile::tempdir().unwrap();
    let folder = logs.path().join("proc_profile");
    std::fs::create_dir(&folder).unwrap();
    let gzip = |content: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    };
    std::fs::write(
        folder.join("cpu-profile-20251120-120000-flame.html.gz"),
        gzip(b"<?xml version=\"1.0\"?><svg>one</svg>"),
    )
    .unwrap();
    std::fs::write(
        folder.join("cpu-profile-20251120-120001-flame.html.gz"),
        gzip(b"<!DOCTYPE html><html><svg></svg></html>"),
    )
    .unwrap();
    let mut config = quiet();
    config.sys_log_dir = Some(logs.path().to_owned());
    let server = TestServer::start(config).await;
    let rows = server.profiles("node=imported", 2).await;
    let media = async |row: &serde_json::Value| {
        let path = format!("/proc_profile/file?filename={}&node=imported", row["file_name"].as_str().unwrap());
        let response = server.get(&path).await;
        assert!(response.headers()["content-security-policy"].to_str().unwrap().starts_with("sandbox allow-scripts;"));
        response.headers()["content-type"].to_str().unwrap().to_owned()
    };
    assert_eq!(media(&rows[0]).await, "text/html; charset=utf-8");
    assert_eq!(media(&rows[1]).await, "image/svg+xml");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_backend_list_is_as_starrocks_gives_it() {
    let server = TestServer::start(quiet()).await;
    assert_eq!(server.json("/api/proc_profile/list").await, serde_json::json!({ "profiles": [] }));
    let pushed = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let list = server.json("/api/proc_profile/list?node=1").await;
    assert_eq!(
        list["profiles"][0],
        serde_json::json!({
            "filename": "cpu-profile-20231114-221320-pprof.gz",
            "type": "CPU",
            "format": "Pprof",
            "timestamp": "20231114-221320",
            "size": pushed["bytes"],
            "start": "2023-11-14T22:13:20.000Z",
            "end": "2023-11-14T22:13:21.000Z",
        })
    );
    assert_eq!(server.status(Method::GET, "/api/proc_profile/other").await, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_own_endpoints_answer() {
    let server = TestServer::start(quiet()).await;
    assert_eq!(server.status(Method::GET, "/debug/pprof/").await, 200);
    for path in ["/debug/pprof", "/pprof", "/pprof/"] {
        let answer = server.get(path).await;
        assert_eq!(
            (answer.status().as_u16(), answer.headers()["location"].to_str().unwrap()),
            (303, "/debug/pprof/"),
            "{path}"
        );
    }
    assert!(server.text("/pprof/cmdline").await.contains("main-"));
    let symbol = server.request(Method::HEAD, "/pprof/symbol").send().await.unwrap();
    assert_eq!(symbol.status(), 200);
    let profile = server.get("/debug/pprof/profile?seconds=1").await;
    assert_eq!(profile.status(), 200);
    let bytes = profile.bytes().await.unwrap();
    let decoded = procprof_profile::format::decode(&bytes, &procprof_profile::format::Limits::default()).unwrap();
    assert_eq!(decoded.format, "pprof");
    assert_eq!(server.status(Method::GET, "/debug/pprof/nonsense").await, 404);
}
