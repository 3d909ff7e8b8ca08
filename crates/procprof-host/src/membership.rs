//! What a process belongs to: its control group, unit, container and pod, and the program that it runs.

use std::collections::BTreeMap;
use std::path::Path;

use procprof_process::{Process, Workload, program_name};

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
    /// The service name that it was given for OpenTelemetry.
    pub service_name: Option<String>,
}

impl Membership {
    /// What a process belongs to.
    pub fn of_process(process: &Process) -> Self {
        Self::read(process, &Self::default())
    }

    /// Reads what a process belongs to; what can't be read stays as its origin had it.
    pub(crate) fn read(process: &Process, origin: &Self) -> Self {
        let mut membership = Self { program: None, service_name: None, ..origin.clone() };
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
        if let (Ok(status), Ok(arguments)) = (process.status(), process.command_line()) {
            membership.program = Some(program_name(&status.name, &arguments));
        }
        let given = |name| process.environment(name).ok().flatten();
        let attributes = || given("OTEL_RESOURCE_ATTRIBUTES");
        membership.service_name = given("OTEL_SERVICE_NAME")
            .or_else(|| attribute(&attributes()?, "service.name"))
            .filter(|name| !name.is_empty());
        membership
    }

    /// The service of a process with that name: its unit, else its container, else its program. At most 128 bytes,
    /// without control characters.
    pub fn service(&self, process: &str) -> String {
        let mut service =
            self.workload.service().unwrap_or_else(|| self.program.as_deref().unwrap_or(process).to_owned());
        service.retain(|letter| !letter.is_control());
        service.truncate(service.floor_char_boundary(SERVICE_BYTES_MAX));
        if service.trim().is_empty() { UNKNOWN.to_owned() } else { service }
    }

    /// Its labels: `unit`, `container`, `pod`, `namespace`, `service.name`, as far as there are any.
    pub fn labels(&self) -> BTreeMap<&'static str, String> {
        let (namespace, name) = self.pod.clone().unzip();
        let labels = [
            ("unit", self.workload.unit.clone()),
            ("container", self.workload.container.as_ref().map(|container| container.name())),
            ("pod", name.or_else(|| self.workload.pod.clone())),
            ("namespace", namespace),
            ("service.name", self.service_name.clone()),
        ];
        labels.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
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

/// A value of `KEY=VALUE,KEY=VALUE`.
fn attribute(attributes: &str, key: &str) -> Option<String> {
    let value = attributes.split(',').find_map(|attribute| attribute.trim().strip_prefix(key)?.strip_prefix('='));
    value.map(str::to_owned)
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
    fn resource_attributes_give_a_service_name() {
        assert_eq!(attribute("a=b, service.name=cart,c=d", "service.name").as_deref(), Some("cart"));
        assert_eq!(attribute("service.name.x=cart", "service.name"), None);
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
    }
}
