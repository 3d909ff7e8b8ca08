//! The systemd unit, container and pod of a process, by the paths of its control groups.
//!
//! ```text
//! /system.slice/nginx.service
//! /system.slice/docker-3f4e...64 hex digits.scope
//! /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-3f4e....scope
//! /kubepods/burstable/podUID/3f4e...
//! /system.slice/containerd.service/kubepods-besteffort-podUID.slice:cri-containerd:3f4e...
//! /user.slice/user-1000.slice/user@1000.service/app.slice/backup.service
//! ```
//! UID is a pod's uid, in the names of slices with `_` for `-`. Runtimes' own processes in a container's place
//! (`crio-conmon-ID.scope`) are in no container.

use crate::cgroup::{Cgroup, ContainerId, is_container_id, lxc_name};

/// Units whose control group may have those of containers below it.
const RUNTIME_UNITS: &[&str] = &[
    "containerd.service",
    "cri-docker.service",
    "crio.service",
    "docker.service",
    "k0scontroller.service",
    "k0sworker.service",
    "k3s-agent.service",
    "k3s.service",
    "kubelet.service",
    "podman.service",
    "rke2-agent.service",
    "rke2-server.service",
    "snap.docker.dockerd.service",
];

/// What the name of a container's scope begins with, and the runtime.
const RUNTIMES: &[(&str, &str)] = &[
    ("docker", "docker"),
    ("cri-containerd", "containerd"),
    ("containerd", "containerd"),
    ("nerdctl", "containerd"),
    ("crio", "cri-o"),
    ("libpod", "podman"),
    ("libpod-payload", "podman"),
    ("podman", "podman"),
    ("docker-ce", "docker"),
    ("ecs", "ecs"),
    ("garden", "garden"),
];

/// What a process belongs to; empty for one that nothing manages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Workload {
    /// The systemd unit, a service: `nginx.service`.
    pub unit: Option<String>,
    /// The container.
    pub container: Option<Container>,
    /// The uid of the Kubernetes pod.
    pub pod: Option<String>,
    /// The user whose service manager it is of (`user@1000.service`): whoever that is chose unit and container.
    pub user: Option<u32>,
}

/// A container and what runs it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Container {
    /// `docker`, `containerd`, `cri-o`, `podman`, `lxc`, `nspawn`, …; `container` if the path does not tell.
    pub runtime: &'static str,
    /// Its id.
    pub id: ContainerId,
}

impl Container {
    /// Its name: the runtime and the first 12 characters of the id.
    pub fn name(&self) -> String {
        format!("{}/{}", self.runtime, self.id.short())
    }
}

impl Workload {
    /// What the control groups tell, whichever hierarchy it is in.
    pub fn from_cgroups(cgroups: &[Cgroup]) -> Self {
        let mut workload = Self::default();
        // Service managers name version 2 or the hierarchy `name=systemd`; limits may be in others.
        let is_managers = |cgroup: &&Cgroup| cgroup.hierarchy == 0 || cgroup.controllers == ["name=systemd"];
        let managers = cgroups.iter().filter(is_managers);
        for cgroup in managers.chain(cgroups.iter().filter(|cgroup| !is_managers(cgroup))) {
            let found = Self::from_path(&cgroup.path);
            if workload.container.is_none() && (found.container.is_some() || workload.unit.is_none()) {
                workload.unit = found.unit;
                workload.container = found.container;
                workload.user = found.user;
            }
            workload.pod = workload.pod.or(found.pod);
        }
        workload
    }

    /// What the path of one control group tells.
    pub fn from_path(path: &str) -> Self {
        let mut workload = Self::default();
        let mut parents = "";
        for segment in path.split(['/', ':']) {
            // In a container, users are the container's.
            if workload.container.is_none() && workload.user.is_none() {
                workload.user = manager_of(segment).filter(|_| !path.starts_with("/lxc"));
            }
            if let Some(pod) = pod_uid(segment) {
                workload.pod = Some(pod);
            }
            if let Some(container) = container(segment, parents) {
                // What is in a container names the process better than what is around it, unless that is a service that
                // is there for this container alone.
                workload.unit = workload.unit.filter(|_| container.runtime == "podman");
                workload.container = Some(container);
            } else if let Some(unit) = unit(segment) {
                workload.unit = Some(unit);
            }
            parents = segment;
        }
        if workload.container.is_none() {
            let id = lxc_name(path);
            workload.container = id.map(|id| Container { runtime: "lxc", id });
        }
        if workload.unit.is_none() && workload.container.is_none() {
            workload.user = None;
        }
        workload
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The name of the service that processes of this workload belong to; `None` if it has none of its own.
    pub fn service(&self) -> Option<String> {
        match (&self.container, &self.unit) {
            (Some(container), Some(unit)) if container.runtime != "podman" => {
                Some(format!("{}/{unit}", container.name()))
            }
            (_, Some(unit)) => Some(unit.clone()),
            (Some(container), None) => Some(container.name()),
            (None, None) => None,
        }
    }
}

/// The service that a group's name is of.
fn unit(segment: &str) -> Option<String> {
    let is_service = segment.len() > ".service".len() && segment.ends_with(".service");
    // A user's manager has services and applications of its own below it.
    let has_others = RUNTIME_UNITS.contains(&segment) || segment.starts_with("user@");
    // systemd marks names that would be control files with an underscore.
    (is_service && !has_others).then(|| segment.strip_prefix('_').unwrap_or(segment).to_owned())
}

/// The user whose service manager a group is of: `user@UID.service`.
fn manager_of(segment: &str) -> Option<u32> {
    segment.strip_prefix("user@")?.strip_suffix(".service")?.parse().ok()
}

/// The container that a group's name is of.
fn container(segment: &str, parent: &str) -> Option<Container> {
    let name = segment.strip_suffix(".scope").unwrap_or(segment);
    let name = name.strip_suffix(".service").unwrap_or(name);
    if let Some(machine) = name.strip_prefix("systemd-nspawn@").filter(|machine| !machine.is_empty()) {
        return Some(Container { runtime: "nspawn", id: ContainerId::new(machine) });
    }
    let (prefix, id) = name.rsplit_once('-').unwrap_or(("", name));
    if !is_container_id(id) || prefix.ends_with("conmon") {
        return None;
    }
    let of_prefix = |prefix: &str| RUNTIMES.iter().find(|(known, _)| *known == prefix).map(|(_, runtime)| *runtime);
    let parent = parent.strip_suffix("_parent").unwrap_or(parent);
    let runtime = of_prefix(prefix).or_else(|| of_prefix(parent)).unwrap_or("container");
    Some(Container { runtime, id: ContainerId::new(id) })
}

/// The uid of the pod that a group's name is of: `podUID`, `kubepods-podUID.slice`, `kubepods-burstable-podUID.slice`.
fn pod_uid(segment: &str) -> Option<String> {
    let name = segment.strip_suffix(".slice").unwrap_or(segment);
    let uid = name.strip_prefix("pod").or_else(|| name.rsplit_once("-pod").map(|(_, uid)| uid))?.replace('_', "-");
    let is_digits =
        |length: usize| uid.len() == length && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    (is_digits(36) || is_digits(32)).then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f4e5d6c7b8a99887766554433221100ffeeddccbbaa00112233445566778899";
    const POD: &str = "1d0f3c5e-8a1b-4c2d-9e3f-0123456789ab";
    const POD_SLICE: &str = "pod1d0f3c5e_8a1b_4c2d_9e3f_0123456789ab";

    /// Service, unit, container and pod of a path; empty for none.
    fn found(path: &str) -> [String; 4] {
        let workload = Workload::from_path(path);
        let container = workload.container.as_ref().map(Container::name);
        [workload.service(), workload.unit, container, workload.pod].map(Option::unwrap_or_default)
    }

    #[test]
    fn paths_of_service_managers_and_runtimes_tell_unit_container_and_pod() {
        let short = &ID[..12];
        let [docker, containerd, crio, podman] =
            ["docker", "containerd", "cri-o", "podman"].map(|runtime| format!("{runtime}/{short}"));
        let (docker, containerd, crio, podman) = (&*docker, &*containerd, &*crio, &*podman);
        let unknown = &*format!("container/{short}");
        let kube = format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-{POD_SLICE}.slice");
        for (path, expected) in [
            // systemd
            ("/system.slice/nginx.service".to_owned(), ["nginx.service", "nginx.service", "", ""]),
            ("/system.slice/system-getty.slice/getty@tty1.service".into(), ["getty@tty1.service", "getty@tty1.service", "", ""]),
            (r"/system.slice/system-postgresql.slice/postgresql@16-main.service".into(), ["postgresql@16-main.service", "postgresql@16-main.service", "", ""]),
            (r"/system.slice/my\x2dapp.service/worker".into(), [r"my\x2dapp.service", r"my\x2dapp.service", "", ""]),
            ("/system.slice/_memory.service".into(), ["memory.service", "memory.service", "", ""]),
            ("/user.slice/user-1000.slice/user@1000.service/app.slice/backup.service".into(), ["backup.service", "backup.service", "", ""]),
            ("/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.gnome.Terminal.slice/vte-spawn-1.scope".into(), ["", "", "", ""]),
            ("/user.slice/user-0.slice/session-1.scope".into(), ["", "", "", ""]),
            ("/init.scope".into(), ["", "", "", ""]),
            ("/".into(), ["", "", "", ""]),
            ("/../../system.slice/cron.service".into(), ["cron.service", "cron.service", "", ""]),
            // Docker
            (format!("/docker/{ID}"), [docker, "", docker, ""]),
            (format!("/system.slice/docker-{ID}.scope"), [docker, "", docker, ""]),
            (format!("/system.slice/docker.service/docker/{ID}"), [docker, "", docker, ""]),
            ("/system.slice/docker.service".into(), ["", "", "", ""]),
            (format!("/docker/{ID}/system.slice/sshd.service"), [&*format!("{docker}/sshd.service"), "sshd.service", docker, ""]),
            (format!("/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope"), [docker, "", docker, ""]),
            (format!("/docker/{}/docker/{ID}", "0".repeat(64)), [docker, "", docker, ""]),
            // Kubernetes
            (format!("{kube}/cri-containerd-{ID}.scope"), [containerd, "", containerd, POD]),
            (format!("{kube}/docker-{ID}.scope"), [docker, "", docker, POD]),
            (format!("{kube}/crio-{ID}.scope"), [crio, "", crio, POD]),
            (format!("{kube}/crio-{ID}.scope/container"), [crio, "", crio, POD]),
            (format!("{kube}/crio-conmon-{ID}.scope"), ["", "", "", POD]),
            (kube.clone(), ["", "", "", POD]),
            (format!("/kubepods.slice/kubepods-{POD_SLICE}.slice/cri-containerd-{ID}.scope"), [containerd, "", containerd, POD]),
            (format!("/kubepods/burstable/pod{POD}/{ID}"), [unknown, "", unknown, POD]),
            (format!("/kubepods/pod{POD}/{ID}"), [unknown, "", unknown, POD]),
            (format!("/kubepods/besteffort/pod{}/{ID}", "0".repeat(32)), [unknown, "", unknown, &"0".repeat(32)]),
            (format!("/kubepods/besteffort/pod{POD}/crio-{ID}"), [crio, "", crio, POD]),
            (format!("/system.slice/containerd.service/kubepods-besteffort-{POD_SLICE}.slice:cri-containerd:{ID}"), [containerd, "", containerd, POD]),
            (format!("/system.slice/k3s.service/kubepods/pod{POD}/{ID}"), [unknown, "", unknown, POD]),
            (format!("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-{POD_SLICE}.slice/cri-containerd-{ID}.scope"), [containerd, "", containerd, POD]),
            ("/system.slice/kubelet.service".into(), ["", "", "", ""]),
            // Podman: a unit made for a container has the better name.
            (format!("/machine.slice/libpod-{ID}.scope"), [podman, "", podman, ""]),
            (format!("/machine.slice/libpod-{ID}.scope/container"), [podman, "", podman, ""]),
            (format!("/machine.slice/libpod-conmon-{ID}.scope"), ["", "", "", ""]),
            (format!("/system.slice/web.service/libpod-payload-{ID}"), ["web.service", "web.service", podman, ""]),
            (format!("/libpod_parent/libpod-{ID}"), [podman, "", podman, ""]),
            (format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope"), [podman, "", podman, ""]),
            // Others
            (format!("/ecs/0123/{ID}"), [unknown, "", unknown, ""]),
            ("/lxc/web/init.scope".into(), ["lxc/web", "", "lxc/web", ""]),
            ("/lxc.payload.web/system.slice/nginx.service".into(), ["lxc/web/nginx.service", "nginx.service", "lxc/web", ""]),
            ("/machine.slice/systemd-nspawn@build.service/payload/system.slice/dbus.service".into(), ["nspawn/build/dbus.service", "dbus.service", "nspawn/build", ""]),
            ("/docker/3f4e".into(), ["", "", "", ""]),
            ("/kubepods/podx/3f4e".into(), ["", "", "", ""]),
        ] {
            assert_eq!(found(&path), expected, "{path}");
        }
    }

    #[test]
    fn what_a_users_service_manager_runs_is_that_users() {
        let manager = "/user.slice/user-1000.slice/user@1000.service";
        for (path, user) in [
            (format!("{manager}/app.slice/nginx.service"), Some(1000)),
            (format!("{manager}/docker-{ID}.scope/user@5.service/x.service"), Some(1000)),
            (format!("{manager}/app.slice/vte-spawn-1.scope"), None),
            (format!("/docker/{ID}{manager}/app.slice/nginx.service"), None),
            (format!("/lxc/web{manager}/app.slice/nginx.service"), None),
            ("/system.slice/nginx.service".to_owned(), None),
            ("/user.slice/user@x.service/app.slice/nginx.service".to_owned(), None),
        ] {
            assert_eq!(Workload::from_path(&path).user, user, "{path}");
        }
    }

    #[test]
    fn any_hierarchy_may_tell() {
        let group = |hierarchy: u32, controllers: &str, path: &str| Cgroup {
            hierarchy,
            controllers: controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            path: path.to_owned(),
        };
        let docker = format!("/docker/{ID}");
        for (groups, expected) in [
            (
                vec![group(0, "", "/"), group(1, "name=systemd", "/system.slice/a.service"), group(4, "memory", "/x")],
                "a.service",
            ),
            (
                vec![group(4, "memory", &docker), group(1, "name=systemd", &docker), group(0, "", "/")],
                "docker/3f4e5d6c7b8a",
            ),
            (
                vec![group(4, "memory", &docker), group(0, "", "/system.slice/containerd.service")],
                "docker/3f4e5d6c7b8a",
            ),
            (vec![group(4, "memory", "/jobs/812ea036a6ee8a94de921f1339c1bab9"), group(0, "", "/")], ""),
            (vec![], ""),
        ] {
            assert_eq!(Workload::from_cgroups(&groups).service().unwrap_or_default(), expected, "{groups:?}");
        }
    }
}
