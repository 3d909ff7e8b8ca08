//! The configuration of `procprof node`: one TOML file, whose keys are the rows of two tables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use procprof_server::config::value::{ConfigFile, Value, boolean, byte_count, count, text, texts};

use super::dumps::DumpFolder;
use super::rules::{Engine, Pattern, Rule, Treatment};

/// Everything that can be configured.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) server: String,
    pub(super) token_file: PathBuf,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) host_id: String,
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) hz: u32,
    pub(super) cut_seconds: u64,
    pub(super) cpu_milli_min: u64,
    pub(super) services_max: u64,
    pub(super) profile_others: bool,
    pub(super) cpu_milli_max: u64,
    pub(super) memory_bytes_max: u64,
    pub(super) spool: PathBuf,
    pub(super) spool_bytes_max: u64,
    pub(super) spool_free_bytes_min: u64,
    pub(super) push_symbols: bool,
    pub(super) symbol_memory_bytes_max: u64,
    pub(super) metrics: String,
    /// The first that matches a process decides.
    pub(super) rules: Vec<Rule>,
}

/// A key of a table `T`.
struct Key<T> {
    name: &'static str,
    /// As it would be written; empty for none.
    default: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "the reference page has it, which a test compares"))]
    help: &'static str,
    set: fn(&mut T, &Value) -> Result<(), String>,
}

const KEYS: &[Key<Settings>] = &[
    Key {
        name: "server",
        default: "",
        help: "URL of the server; `--server` wins.",
        set: |settings, value| text(value).map(|text| settings.server = text),
    },
    Key {
        name: "token_file",
        default: "",
        help: "File with the token of this host; read again for each request, so that it may be replaced; `--token-file` \
               wins.",
        set: |settings, value| text(value).map(|text| settings.token_file = text.into()),
    },
    Key {
        name: "ca_file",
        default: "",
        help: "Certificates (PEM) to trust instead of the system's; `--ca-file` wins.",
        set: |settings, value| text(value).map(|text| settings.ca_file = (!text.is_empty()).then(|| text.into())),
    },
    Key {
        name: "host_id",
        default: "",
        help: "Identifies the host over restarts and renames, 32 hexadecimal digits; derived from `/etc/machine-id` if \
               empty.",
        set: |settings, value| {
            let id = text(value)?;
            let is_id = id.is_empty() || id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
            if is_id {
                settings.host_id = id.to_lowercase()
            } else {
                return Err("expected 32 hexadecimal digits".into());
            }
            Ok(())
        },
    },
    Key {
        name: "name",
        default: "",
        help: "Name of the host; that of `hostname` if empty.",
        set: |settings, value| text(value).map(|text| settings.name = text),
    },
    Key {
        name: "labels",
        default: "",
        help: "Labels of the host, a table: `{ zone = \"a\" }`.",
        set: |settings, value| pairs(value).map(|pairs| settings.labels = pairs),
    },
    Key {
        name: "hz",
        default: "19",
        help: "Samples for each second of CPU time; lowered while the agent would pass `cpu_milli_max`.",
        set: |settings, value| count(value, 1, 1000).map(|hz| settings.hz = hz as u32),
    },
    Key {
        name: "cut_seconds",
        default: "60",
        help: "Length of a profile, in seconds.",
        set: |settings, value| count(value, 5, 3600).map(|seconds| settings.cut_seconds = seconds),
    },
    Key {
        name: "cpu_milli_min",
        default: "10",
        help: "CPU time from which a service has a profile of its own, in thousandths of a CPU; what is below is part of \
               the profile of the host.",
        set: |settings, value| count(value, 0, 1_000_000).map(|milli| settings.cpu_milli_min = milli),
    },
    Key {
        name: "services_max",
        default: "200",
        help: "Most services with profiles of their own, those with the most CPU time.",
        set: |settings, value| count(value, 0, 1000).map(|most| settings.services_max = most),
    },
    Key {
        name: "profile_others",
        default: "true",
        help: "Whether processes that no rule matches are profiled.",
        set: |settings, value| boolean(value).map(|truth| settings.profile_others = truth),
    },
    Key {
        name: "cpu_milli_max",
        default: "10",
        help: "CPU time that the agent may use, with the kernel's share, in thousandths of a CPU; `hz` is lowered to stay \
               below.",
        set: |settings, value| count(value, 1, 1_000_000).map(|milli| settings.cpu_milli_max = milli),
    },
    Key {
        name: "memory_bytes_max",
        default: "100 MiB",
        help: "Memory that the agent may use; above it drops its tables and lowers the rate, and reports that.",
        set: |settings, value| byte_count(value).map(|bytes| settings.memory_bytes_max = bytes),
    },
    Key {
        name: "spool",
        default: "/var/lib/procprof-node",
        help: "Folder of profiles that are not sent yet.",
        set: |settings, value| text(value).map(|text| settings.spool = text.into()),
    },
    Key {
        name: "spool_bytes_max",
        default: "512 MiB",
        help: "Size of the spool; when it is full, the oldest profiles make room, and are counted as lost.",
        set: |settings, value| byte_count(value).map(|bytes| settings.spool_bytes_max = bytes),
    },
    Key {
        name: "spool_free_bytes_min",
        default: "64 MiB",
        help: "Free space that the spool leaves on its file system, by removing its oldest profiles.",
        set: |settings, value| byte_count(value).map(|bytes| settings.spool_free_bytes_min = bytes),
    },
    Key {
        name: "push_symbols",
        default: "true",
        help: "Whether symbols of running files are uploaded that the server asks for.",
        set: |settings, value| boolean(value).map(|truth| settings.push_symbols = truth),
    },
    Key {
        name: "symbol_memory_bytes_max",
        default: "1 GiB",
        help: "Memory of the process that reads the symbols of one file, or a dump.",
        set: |settings, value| byte_count(value).map(|bytes| settings.symbol_memory_bytes_max = bytes),
    },
    Key {
        name: "metrics",
        default: "",
        help: "Loopback address that serves `/metrics`, `127.0.0.1:9031`; empty for none.",
        set: |settings, value| {
            let address = text(value)?;
            let is_loopback =
                |address: &str| address.parse().is_ok_and(|address: std::net::SocketAddr| address.ip().is_loopback());
            if !address.is_empty() && !is_loopback(&address) {
                return Err("expected an address of this machine alone, such as 127.0.0.1:9031".to_owned());
            }
            settings.metrics = address;
            Ok(())
        },
    },
];

const RULE_KEYS: &[Key<Rule>] = &[
    Key {
        name: "service",
        default: "",
        help: "Name of the service, with `*` for any text.",
        set: |rule, value| Pattern::from_value(value).map(|pattern| rule.service = Some(pattern)),
    },
    Key {
        name: "process",
        default: "",
        help: "Name of the process, with `*` for any text.",
        set: |rule, value| Pattern::from_value(value).map(|pattern| rule.process = Some(pattern)),
    },
    Key {
        name: "unit",
        default: "",
        help: "systemd unit, with `*` for any text.",
        set: |rule, value| Pattern::from_value(value).map(|pattern| rule.unit = Some(pattern)),
    },
    Key {
        name: "cgroup",
        default: "",
        help: "Path of the control group, with `*` for any text.",
        set: |rule, value| Pattern::from_value(value).map(|pattern| rule.cgroup = Some(pattern)),
    },
    Key {
        name: "container",
        default: "",
        help: "Container as `docker/0123456789ab`, with `*` for any text.",
        set: |rule, value| Pattern::from_value(value).map(|pattern| rule.container = Some(pattern)),
    },
    Key {
        name: "labels",
        default: "",
        help: "Labels, a table: `{ namespace = \"kube-*\" }`; all must match.",
        set: |rule, value| {
            pairs(value)
                .map(|pairs| rule.labels = pairs.into_iter().map(|(key, text)| (key, Pattern::new(&text))).collect())
        },
    },
    Key {
        name: "treatment",
        default: "profile",
        help: "`profile`: as its own service above `cpu_milli_min`; `always`: however little it uses; `host`: as part of \
               the profile of the host; `exclude`: not at all.",
        set: |rule, value| {
            rule.treatment = match &*text(value)? {
                "profile" => Treatment::Profile,
                "always" => Treatment::Always,
                "host" => Treatment::Host,
                "exclude" => Treatment::Exclude,
                _ => return Err("expected profile, always, host or exclude".to_owned()),
            };
            Ok(())
        },
    },
    Key {
        name: "off_cpu",
        default: "false",
        help: "Whether the time off CPU is profiled all the time, too.",
        set: |rule, value| boolean(value).map(|truth| rule.off_cpu = truth),
    },
    Key {
        name: "engine",
        default: "perf",
        help: "`perf`: perf events; `jvm`: processes that are JVMs by their own Flight Recorder, with allocations and lock \
               waits, all others by perf events.",
        set: |rule, value| {
            rule.engine = match &*text(value)? {
                "perf" => Engine::Perf,
                "jvm" => Engine::Jvm,
                _ => return Err("expected perf or jvm".to_owned()),
            };
            Ok(())
        },
    },
    Key {
        name: "jvm_names",
        default: "true",
        help: "Whether a process that is a JVM (JDK 17 and later) is asked for the names of its compiled methods, by \
               attaching to it once a profile, at most once a minute.",
        set: |rule, value| boolean(value).map(|truth| rule.jvm_names = truth),
    },
    Key {
        name: "dumps",
        default: "",
        help: "Folders of files that the process writes by itself and that are sent as its profiles, a list: `\"auto\"` \
               for those of jemalloc (`prof_prefix`, else the working directory) and StarRocks (`proc_profile`), or \
               `\"/FOLDER\"`, `\"/FOLDER/NAME*.heap\"` as the process sees them.",
        set: |rule, value| {
            let folders: Result<Vec<DumpFolder>, String> =
                texts(value)?.iter().map(|text| DumpFolder::parse(text)).collect();
            folders.map(|folders| rule.dumps = folders)
        },
    },
];

fn pairs(value: &Value) -> Result<BTreeMap<String, String>, String> {
    let Value::Table(entries) = value else { return Err(format!("expected a table of texts, got {}", value.kind())) };
    entries.iter().map(|entry| Ok((entry.key.clone(), text(&entry.value)?))).collect()
}

impl Settings {
    /// The configuration of an empty file.
    pub(super) fn defaults() -> Self {
        let mut settings = Self::default();
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            let set = (key.set)(&mut settings, &Value::Text(key.default.to_owned()));
            debug_assert!(set.is_ok(), "default of {}: {set:?}", key.name);
        }
        settings
    }

    /// Reads a file over the defaults.
    ///
    /// # Errors
    /// The file, the line and the key.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let content = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&content, &path.display().to_string())
    }

    fn parse(content: &str, file: &str) -> Result<Self> {
        let document = ConfigFile::parse(content, file)?;
        let mut settings = Self::defaults();
        for entry in document.entries() {
            match &*entry.key {
                "rule" => {
                    settings.rules =
                        tables(&document, &entry.value, RULE_KEYS).map_err(|why| wrong(&document, entry, why))?
                }
                name => {
                    let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                        let known = KEYS.iter().map(|key| key.name).chain(["rule"]);
                        return Err(document.unknown(entry, known).into());
                    };
                    (key.set)(&mut settings, &entry.value).map_err(|why| document.wrong(entry, why))?;
                }
            }
        }
        Ok(settings)
    }
}

/// An error of a table of tables: an unknown key, or one that refuses its value.
enum Refused {
    Shape(String),
    Entry(procprof_server::Error),
}

fn wrong(document: &ConfigFile, entry: &procprof_server::config::value::ConfigEntry, why: Refused) -> anyhow::Error {
    match why {
        Refused::Shape(why) => document.wrong(entry, why).into(),
        Refused::Entry(error) => error.into(),
    }
}

fn tables<T: Default>(document: &ConfigFile, value: &Value, keys: &[Key<T>]) -> Result<Vec<T>, Refused> {
    let Value::List(items) = value else {
        return Err(Refused::Shape(format!("expected tables, got {}", value.kind())));
    };
    let mut tables = Vec::new();
    for item in items {
        let Value::Table(entries) = item else {
            return Err(Refused::Shape(format!("expected tables, got {}", item.kind())));
        };
        let mut table = T::default();
        for key in keys.iter().filter(|key| !key.default.is_empty()) {
            (key.set)(&mut table, &Value::Text(key.default.to_owned())).map_err(Refused::Shape)?;
        }
        for entry in entries {
            let Some(key) = keys.iter().find(|key| key.name == entry.key) else {
                return Err(Refused::Entry(document.unknown(entry, keys.iter().map(|key| key.name))));
            };
            (key.set)(&mut table, &entry.value).map_err(|why| Refused::Entry(document.wrong(entry, why)))?;
        }
        tables.push(table);
    }
    Ok(tables)
}

/// The text of `docs/node-config.md`.
#[cfg(test)]
fn reference() -> String {
    use std::fmt::Write;

    fn rows<T>(page: &mut String, keys: &[Key<T>]) {
        page.push_str("| key | default | meaning |\n|---|---|---|\n");
        for Key { name, default, help, .. } in keys {
            let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
            let _ = writeln!(page, "| `{name}` | {default} | {help} |");
        }
    }
    let mut page = String::from(
        "# Configuration of `procprof node`\n\nOne TOML file, given by `procprof node --config FILE`; it may be missing. \
         This page is generated from the tables of keys in\n`crates/procprof/src/node/settings.rs`; a test keeps the two \
         the same. An unknown key is an error that names the line and the\nnearest known key. Sizes are bytes, or text \
         such as `\"512 MiB\"`.\n\n",
    );
    rows(&mut page, KEYS);
    page.push_str(
        "\n## Rules: `[[rule]]`\n\nThe first rule that matches a process decides; a rule without conditions matches \
         all.\n\n```toml\n[[rule]]\nunit = \"mysql*.service\"\noff_cpu = true\n\n[[rule]]\nservice = \
         \"backup*\"\ntreatment = \"exclude\"\n```\n\n",
    );
    rows(&mut page, RULE_KEYS);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_page_is_the_tables() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/node-config.md");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, reference()).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == reference(), "docs/node-config.md differs from the tables; UPDATE_EXPECT=1 rewrites it");
    }

    #[test]
    fn errors_name_the_line_and_the_key() {
        for (content, expected) in [
            ("hz = 0", "node.toml:1: hz: expected a whole number from 1 to 1000"),
            ("\nhzz = 1", "node.toml:2: unknown key \"hzz\"; the nearest known key is \"hz\""),
            ("[[rule]]\nunti = \"a\"", "node.toml:2: unknown key \"unti\"; the nearest known key is \"unit\""),
            (
                "[[rule]]\nunit = \"a\"\ntreatment = \"drop\"",
                "node.toml:3: treatment: expected profile, always, host or exclude",
            ),
            ("[[rule]]\ndumps = [\"a\"]", "node.toml:2: dumps: expected auto or an absolute path, got a"),
            ("[[rule]]\nengine = \"jfr\"", "node.toml:2: engine: expected perf or jvm"),
            ("rule = 1", "node.toml:1: rule: expected tables, got a number"),
            ("metrics = \"0.0.0.0:1\"", "node.toml:1: metrics: expected an address of this machine alone"),
            ("host_id = \"xyz\"", "node.toml:1: host_id: expected 32 hexadecimal digits"),
        ] {
            let error = Settings::parse(content, "node.toml").unwrap_err().to_string();
            assert!(error.starts_with(expected), "{content}: {error}");
        }
        let content = "hz = 49\nlabels = { zone = \"a\" }\nspool_bytes_max = \"1 MiB\"\n[[rule]]\nservice = \"a*\"\noff_cpu = true\n";
        let settings = Settings::parse(content, "node.toml").unwrap();
        assert_eq!((settings.hz, settings.spool_bytes_max, settings.cut_seconds), (49, 1 << 20, 60));
        assert!(settings.rules[0].off_cpu && settings.labels["zone"] == "a");
    }
}
