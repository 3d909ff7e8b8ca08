//! The reference page `docs/config.md`, generated from the key tables.

use std::fmt::Write;

use super::fe_query::NODE_KEY;
use super::{FE_KEYS, KEYS, NODE_KEYS};

/// The text of `docs/config.md`.
pub fn config_reference() -> String {
    let mut page = String::from(HEAD);
    page.push_str("| key | type | default | unit | reload | StarRocks file | what it does |\n|---|---|---|---|---|---|---|\n");
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
    page.push_str(NODES);
    page.push_str("| key | type | default | what it does |\n|---|---|---|---|\n");
    for key in NODE_KEYS {
        let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
        let _ = writeln!(page, "| `{}` | {} | {default} | {} |", key.name, key.type_name, key.help);
    }
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

const HEAD: &str = "# Configuration

One TOML file, given by `procprof serve --config FILE`. This page is generated from the table of keys in `crates/procprof-server/src/config`; a
test keeps the two the same. An unknown key is an error that names the line and the nearest known key. On SIGHUP the file is read again: keys
marked `yes` under *reload* take effect at once, the others at the next start (the log names them).

`--fe-conf FILE` and `--be-conf FILE` read StarRocks' own `key = value` files (`#` comments, `${VAR}` from the environment; an unknown variable is
an error) for the keys marked so; they are read after the TOML file and win.

## Top level

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

const TAIL: &str = "
A type's schedule is a table `{ on, seconds, every }`; what is left out keeps the default of the node's kind:

| kind | on | available, off by default |
|---|---|---|
| `starrocks-be` | cpu 10 s every 60 s | contention 10 s every 60 s (never while cpu runs), heap at a moment |
| `databend` | cpu 10 s every 60 s | heap |
| `pprof` | cpu 10 s every 60 s at `/debug/pprof/profile` of `http`; with `urls`, the types of these instead | heap at `/debug/pprof/heap` |
| `go` | cpu 10 s every 60 s; heap and goroutine at a moment every 60 s | alloc, mutex, contention; Go's own names `allocs` and `block` are taken too |
| `procprof`, `self` | cpu continuous, cut every 60 s; heap every 60 s where the process has it | alloc, contention and mutex (by who waited, and by who held the lock) and wall, 10 s every 60 s |

A type that the node cannot give is an error, as is a length for what is taken at a moment or one beyond `capture_seconds_max`.

Starts are jittered per node; a type that fails is tried again after 2 minutes, then later, at most 15 minutes apart. A type that an agent says it
does not have is shown as not available and asked for again every hour.
";

const FRONTENDS: &str = "
## StarRocks clusters: `[[fe_query]]`

Frontends that are asked in SQL (MySQL protocol): they name the nodes to profile, answer `SHOW BACKENDS`, `SHOW COMPUTE NODES` and `SHOW FRONTENDS`, and
run `ADMIN EXECUTE` on their nodes.

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
Backends and compute nodes are profiled under the cluster's own ids as soon as a frontend names them; a node that leaves is profiled no more and keeps
its profiles. A `[[node]]` with the same cluster and the same id or address stands for the node, with its own keys. Ids of a second cluster would be the
same as the first's, so its nodes are numbered here, as other nodes are, and named with the cluster.
";
