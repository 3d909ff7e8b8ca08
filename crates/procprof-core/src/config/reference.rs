//! The reference page `docs/config.md`, generated from the key tables.

use std::fmt::Write;

use procprof_collect::{Offer, Schedule};

use super::fe_query::NODE_KEY;
use super::{FE_KEYS, KEYS, NODE_KEYS};
use crate::kinds::Kind;

/// The text of `docs/config.md`.
pub fn config_reference() -> String {
    let mut page = String::from(HEAD);
    page.push_str(
        "| key | type | default | unit | reload | StarRocks file | what it does |\n|---|---|---|---|---|---|---|\n",
    );
    for key in KEYS {
        let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
        let _ = writeln!(
            page,
            "| `{}` | {} | {default} | {} | {} | {} | {} |",
            key.name,
            key.type_name(),
            key.unit,
            if key.reload { "yes" } else { "restart" },
            if key.starrocks { "yes" } else { "" },
            key.help
        );
    }
    page.push_str(SHARES);
    page.push_str(NODES);
    page.push_str("| key | type | default | what it does |\n|---|---|---|---|\n");
    for key in NODE_KEYS {
        let default = code(&key.default.to_string());
        let _ = writeln!(page, "| `{}` | {} | {default} | {} |", key.name, key.type_name, key.help);
    }
    kinds(&mut page, &Kind::documented().collect::<Vec<_>>());
    page.push_str(TAIL);
    page.push_str(FRONTENDS);
    page.push_str("| key | type | default | what it does |\n|---|---|---|---|\n");
    let rows = FE_KEYS.iter().map(|key| [key.name, key.type_name, key.default, key.help]);
    for [name, type_name, default, help] in rows.chain([NODE_KEY]) {
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        let _ = writeln!(page, "| `{name}` | {type_name} | {default} | {help} |");
    }
    page.push_str(DISCOVERED);
    page
}

/// The profile types of each kind of node, and the keys of only some kinds.
pub(super) fn kinds(page: &mut String, kinds: &[Kind]) {
    page.push_str(KINDS);
    for kind in kinds {
        let row = |on: bool| {
            let offers = kind.offers().into_iter().filter(|offer| offer.schedule.on == on);
            offers.map(rhythm).collect::<Vec<_>>().join("; ")
        };
        let _ = writeln!(page, "| `{kind}` | {} | {} | {} | {} |", kind.help, row(true), row(false), kind.remark);
    }
    if kinds.iter().all(|kind| kind.options.is_empty()) {
        return;
    }
    page.push_str(OPTIONS);
    for kind in kinds {
        for option in kind.options {
            let (words, default) = (option.option_type.words(), code(option.default));
            let _ = writeln!(page, "| `{kind}` | `{}` | {words} | {default} | {} |", option.name, option.help);
        }
    }
}

/// A type with its default schedule.
fn rhythm(offer: &Offer) -> String {
    let Schedule { seconds, interval_seconds: every, .. } = offer.schedule;
    match &offer.profile_type {
        name if offer.continuous => format!("{name} continuous"),
        name if seconds == 0 => format!("{name} at a moment every {every} s"),
        name if seconds >= every => format!("{name} {seconds} s, without gaps"),
        name => format!("{name} {seconds} s every {every} s"),
    }
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

const HEAD: &str = "# Configuration

One TOML file, given by `procprof serve --config FILE`. This page is generated from the tables of keys in
`crates/procprof-core/src/config`; a test keeps the two the same. An unknown key is an error that names the line and
the nearest known key. On SIGHUP the file is read again: keys marked `yes` under *reload* take effect at once, the
others at the next start (the log names them).

`--fe-conf FILE` and `--be-conf FILE` read StarRocks' own `key = value` files (`#` comments, `${VAR}` from the
environment; an unknown variable is an error) for the keys marked `yes` under *StarRocks file*; they are read after the
TOML file and override it.

## Top level

";

const SHARES: &str = "
## Shares

What many ask for is shared out by requester: the user or token, or without users the client's address (of IPv6 its
network of 64 bits), which behind a proxy is that of `trusted_proxies`. A requester has at most a quarter of a pool, and
a quarter is kept for operators, captures and heartbeats. Who asks for more is told so, with status 429 and the limit,
and may try again; `/metrics` counts refused profiles and reports (`procprof_refused_total`).

| pool | size | a requester has | kept for operators, captures, heartbeats |
|---|---|---|---|
| profiles that are received or decoded | `ingest_queue_max` | a quarter | a quarter |
| their bytes, unpacked | `ingest_bytes_in_flight_max` | a quarter, and beside it one profile that is larger by itself, of up to three quarters | a quarter |
| symbol indexes that are received | 8 | 2 | 2 |
| space of symbol indexes, of tokens | `symbols_bytes_max`, 10,000 indexes | a quarter | a quarter |
| children that decode and symbolize, at a time | 3; 1 beyond 16 MiB | 1 | 1 of 3 |
| SQL connections | `mysql_connections_max` | a quarter | a quarter |
| reports that are made or wait | 64 | 16 | 16 |
| reports that are made | `render_concurrency_max` | a quarter, at least one; operators all but one | a quarter, at least one |
| lines of the log over HTTP, of refusals, pushes, actions | 60, 120, 600 a minute | a quarter | none |
| lines of the log of refused SQL logins | 60 a minute | a quarter, by address | none |
| error rows | 10,000 | its share by node: the oldest of the nodes that have the most make room | none |

Captures of the server itself are bounded by `max_concurrent_captures` alone. An upload that pauses for 10 s, or comes
slower than 4 KiB/s on average after the first 10 s, is ended with status 408 and gives its place back; a profile, a
heartbeat and a frame of a push have 60 s in all, a symbol index an hour.
";

const NODES: &str = "
## Nodes: `[[node]]`

```toml
[[node]]
name = \"be-1\"
kind = \"starrocks-be\"
brpc = \"10.0.0.11:8060\"
schedule.cpu = { on = true, seconds = 10, every = 60 }

[[node]]
name = \"api\"
kind = \"go\"
http = \"127.0.0.1:6060\"
labels = { zone = \"eu-1\" }
```

";

const KINDS: &str = "
A type's schedule is a table `{ on, seconds, every }`; keys that are left out have the default of the node's kind:

| kind | node | on | available, off by default | remarks |
|---|---|---|---|---|
";

const OPTIONS: &str = "
Additional keys of nodes of one kind:

| kind | key | type | default | what it does |
|---|---|---|---|---|
";

const TAIL: &str = "
A type that the node cannot provide is an error, as is a length for a snapshot, or one beyond `capture_seconds_max`.

Starts are jittered per node. A type that fails is retried after 5 seconds, then 10, 20, …, at most its own interval,
and returns to its schedule once it succeeds. A type that an agent reports as missing is shown as not available and
requested again every hour.

A node has 5 s to accept the connection, 30 s beyond the length of a capture to begin its answer (60 s for a snapshot),
and 60 s to end it. A capture holds its slot among `max_concurrent_captures` for its length and 3 seconds; one that
takes longer continues without a slot. Types whose latest capture failed have as many slots of their own. So nodes that
hang or answer slowly do not delay others.
";

const FRONTENDS: &str = "
## StarRocks clusters: `[[fe_query]]`

Frontends that the server queries over the MySQL protocol: they name the nodes to profile, answer `SHOW BACKENDS`,
`SHOW COMPUTE NODES` and `SHOW FRONTENDS`, and run `ADMIN EXECUTE` on their nodes.

```toml
[[fe_query]]
cluster = \"prod\"
address = [\"fe-1:9030\", \"fe-2:9030\"]
user = \"profiler\"
password_file = \"/etc/procprof/fe-password\"
tls = { ca_file = \"/etc/procprof/ca.pem\" }
node.schedule.contention = { on = true }
```

";

const DISCOVERED: &str = "
Backends and compute nodes are profiled under the cluster's own ids as soon as a frontend names them; a node that
leaves is no longer profiled and keeps its profiles. A `[[node]]` with the same cluster and the same id or address
replaces the node, with its own keys. Ids of a second cluster would collide with those of the first, so its nodes are
numbered by the server, as other nodes are, and named with the cluster.
";
