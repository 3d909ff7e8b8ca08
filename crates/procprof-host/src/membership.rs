//! What a process belongs to: its control group, unit, container and pod, and the program that it runs.

use std::collections::BTreeMap;
use std::path::Path;

use procprof_process::{Process, Workload, program_name, user_name};

/// The folder in which the kubelet keeps the logs of pods: `NAMESPACE_NAME_UID`.
const POD_LOGS: &str = "/var/log/pods";
/// The service of the threads of the kernel.
const KERNEL: &str = "kernel";

/// The service of processes that ended before their name was known.
const UNKNOWN: &str = "unknown";
/// Longest name of a service.
const SERVICE_BYTES_MAX: usize = 128;

/// What a process belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Membership {
    /// The path of its control group; empty if it is not known.
    pub cgroup: String,
    /// Its unit, container and pod.
    pub workload: Workload,
    /// Namespace and name of its pod, if this host has its logs.
    pub pod: Option<(String, String)>,
    /// The name of its program, of an interpreter that of the script, if it could be read.
    pub program: Option<String>,
    /// The user who named what it belongs to: who runs the service manager of its unit, else the program. `None` for
    /// root, whose services, as those of the system, have names without a user.
    pub user: Option<String>,
    /// What it publishes for OpenTelemetry, or was started with for that: `service.name`, `service.version`, ….
    pub attributes: BTreeMap<String, String>,
}

impl Membership {
    /// What a process belongs to.
    pub fn of_process(process: &Process) -> Self {
        Self::read(process, &Self::default())
    }

    /// Reads what a process belongs to; what can't be read stays as its origin had it.
    pub(crate) fn read(process: &Process, origin: &Self) -> Self {
        let mut membership = Self { program: None, user: None, attributes: BTreeMap::new(), ..origin.clone() };
        if process.is_kernel_thread().unwrap_or(false) {
            return Self { program: Some(KERNEL.to_owned()), ..Self::default() };
        }
        if let Ok(groups) = process.cgroups() {
            // Version 2 unless only limits of version 1 are used, else where the service manager's groups are.
            let by = |wanted: fn(&procprof_process::Cgroup) -> bool| {
                groups.iter().find(|group| wanted(group) && group.path != "/")
            };
            let group = by(|group| group.hierarchy == 0)
                .or_else(|| by(|group| group.controllers == ["name=systemd"]))
                .or_else(|| groups.iter().max_by_key(|group| group.path.len()));
            membership.cgroup = group.map_or_else(String::new, |group| group.path.clone());
        }
        if let Ok(workload) = process.workload() {
            membership.pod = workload.pod.as_deref().and_then(|uid| pod_in_logs(Path::new(POD_LOGS), uid));
            membership.workload = workload;
        }
        let status = process.status().ok();
        if let (Some(status), Ok(line)) = (&status, process.command_line()) {
            membership.program = Some(program_name(&status.name, &line.arguments));
        }
        let user = match membership.workload.service() {
            Some(_) => membership.workload.user,
            None => status.map(|status| status.real_uid),
        };
        membership.user = user.filter(|uid| *uid != 0).map(user_name);
        membership.attributes = attributes(process);
        membership
    }

    /// The service of a process with that name: its unit, else its container, else its program; `USER:NAME` where a
    /// user chose the name, so that nobody's processes are taken for those of another. At most 128 bytes, without
    /// control characters.
    pub fn service(&self, process: &str) -> String {
        let mut service =
            self.workload.service().unwrap_or_else(|| self.program.as_deref().unwrap_or(process).to_owned());
        service.retain(|letter| !letter.is_control());
        if service.trim().is_empty() {
            service = UNKNOWN.to_owned();
        }
        if let Some(user) = &self.user {
            service.insert_str(0, &format!("{user}:"));
        }
        service.truncate(service.floor_char_boundary(SERVICE_BYTES_MAX));
        service
    }

    /// Its labels: `unit`, `container`, `pod`, `namespace`, and OpenTelemetry's attributes, as far as there are any.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let (namespace, name) = self.pod.clone().unzip();
        let labels = [
            ("unit", self.workload.unit.clone()),
            ("container", self.workload.container.as_ref().map(|container| container.name())),
            ("pod", name.or_else(|| self.workload.pod.clone())),
            ("namespace", namespace),
        ];
        let own = labels.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        // What this host knows itself wins.
        self.attributes.clone().into_iter().chain(own).collect()
    }
}

/// Namespace and name of a pod, by the folder of its logs.
fn pod_in_logs(folder: &Path, uid: &str) -> Option<(String, String)> {
    let names = std::fs::read_dir(folder).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| pod_of_log(&name, uid)).next()
}

fn pod_of_log(name: &str, uid: &str) -> Option<(String, String)> {
    let (namespace, pod) = name.strip_suffix(uid)?.strip_suffix('_')?.split_once('_')?;
    Some((namespace.to_owned(), pod.to_owned()))
}

/// Attributes that others of this host's facts have better, or that differ in each process.
const NOT_KEPT: &[&str] = &["host.", "os.", "process.", "telemetry.", "container.", "k8s.", "service.instance."];
/// Labels that only this host gives.
const OF_THE_HOST: &[&str] = &["unit", "container", "pod", "namespace", "host"];
/// Most attributes that are kept; longest key and value.
const ATTRIBUTES_MAX: usize = 16;
const KEY_BYTES_MAX: usize = 64;
const VALUE_BYTES_MAX: usize = 128;

/// The attributes of a process for OpenTelemetry: what it publishes, else what it was started with.
fn attributes(process: &Process) -> BTreeMap<String, String> {
    let given = |name| process.environment(name).ok().flatten().filter(|text| !text.is_empty());
    let mut found: BTreeMap<String, String> = match process.context() {
        Ok(Some(context)) => context.attributes,
        _ => given("OTEL_RESOURCE_ATTRIBUTES").map_or_else(BTreeMap::new, |text| pairs(&text)),
    };
    if !found.contains_key("service.name")
        && let Some(name) = given("OTEL_SERVICE_NAME")
    {
        found.insert("service.name".to_owned(), name);
    }
    kept(found)
}

fn kept(attributes: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_kept = |(key, value): &(String, String)| {
        let is_short = key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX;
        let is_plain = !key.is_empty() && !value.is_empty() && !key.chars().chain(value.chars()).any(char::is_control);
        let is_own = !NOT_KEPT.iter().any(|prefix| key.starts_with(prefix)) && !OF_THE_HOST.contains(&key.as_str());
        is_short && is_plain && is_own
    };
    let (of_service, others): (Vec<_>, Vec<_>) =
        attributes.into_iter().filter(is_kept).partition(|(key, _)| key.starts_with("service."));
    of_service.into_iter().chain(others).take(ATTRIBUTES_MAX).collect()
}

/// `KEY=VALUE,KEY=VALUE`, with `%2C` for a comma and so on.
fn pairs(text: &str) -> BTreeMap<String, String> {
    let pair = |pair: &str| {
        let (key, value) = pair.trim().split_once('=')?;
        Some((key.trim().to_owned(), decoded(value.trim())))
    };
    text.split(',').filter_map(pair).collect()
}

/// A text without percent encoding; as it is if that is broken.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        let hex = behind.get(..2).filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let hex = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match hex.filter(|_| *byte == b'%') {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*byte);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_have_the_names_of_their_logs() {
        let uid = "1d0f3c5e-8a1b-4c2d-9e3f-0123456789ab";
        let pod = |namespace: &str, name: &str| Some((namespace.to_owned(), name.to_owned()));
        assert_eq!(pod_of_log(&format!("shop_cart-7d4b_{uid}"), uid), pod("shop", "cart-7d4b"));
        assert_eq!(pod_of_log(&format!("shop_cart_{uid}"), "other"), None);
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(format!("kube-system_dns_{uid}"))).unwrap();
        assert_eq!(pod_in_logs(folder.path(), uid), pod("kube-system", "dns"));
        assert_eq!(pod_in_logs(&folder.path().join("none"), uid), None);
    }

    #[test]
    fn resource_attributes_are_pairs() {
        let found = pairs("a=b, service.name=ca%2Crt,c=%zz,d,e=%+f");
        let expected = [("a", "b"), ("service.name", "ca,rt"), ("c", "%zz"), ("e", "%+f")];
        assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn attributes_are_few_and_short_and_the_hosts_facts_win() {
        let mut many: BTreeMap<String, String> =
            (0..100).map(|number| (format!("a{number}"), "x".to_owned())).collect();
        for (key, value) in [
            ("service.name", "cart"),
            ("service.version", "1.2"),
            ("service.instance.id", "x"),
            ("host.name", "x"),
            ("empty", ""),
            ("control", "a\nb"),
            ("long", &*"x".repeat(129)),
            ("unit", "nginx.service"),
        ] {
            many.insert(key.to_owned(), value.to_owned());
        }
        let few = kept(many);
        assert_eq!((few.len(), &*few["service.name"], &*few["service.version"]), (16, "cart", "1.2"));
        assert!(!few.keys().any(|key| key.contains("instance") || key.contains("host")), "{few:?}");
        assert_eq!(kept([("unit".to_owned(), "nginx.service".to_owned())].into()), BTreeMap::new());
    }

    #[test]
    fn a_service_is_a_unit_a_container_or_a_program() {
        let of = |path: &str, program: Option<&str>| {
            let workload = Workload::from_path(path);
            Membership { workload, program: program.map(str::to_owned), ..Membership::default() }.service("python3")
        };
        assert_eq!(of("/system.slice/web.service", Some("app.py")), "web.service");
        assert_eq!(of("/", Some("app.py")), "app.py");
        assert_eq!(of("/", None), "python3");
        assert_eq!(Membership::default().service(""), "unknown");
        assert_eq!(of("/", Some(&"ä\n".repeat(100))), "ä".repeat(64));
        let of_ann = |workload| Membership { workload, user: Some("ann".to_owned()), ..Membership::default() };
        assert_eq!(of_ann(Workload::from_path("/web.service")).service("python3"), "ann:web.service");
        assert_eq!(of_ann(Workload::default()).service("python3"), "ann:python3");
        assert_eq!(of_ann(Workload::default()).service(" "), "ann:unknown");
    }
}
