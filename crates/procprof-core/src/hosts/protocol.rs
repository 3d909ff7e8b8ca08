//! The protocol between a host agent and the server. The agent makes all requests; the server connects to nobody.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `POST /api/hosts/heartbeat` | [`Heartbeat`] as JSON | [`HeartbeatAnswer`]; held until there is a command, for `wait_seconds` at most |
//! | `POST /api/hosts/push` | frames, see below | [`PushAnswer`] |
//! | `POST /api/symbols/offer`, `POST /api/symbols` | as by `procprof symbols push` | as there |
//!
//! Each request carries the token of its host (`Authorization: Bearer …`), a credential of the role `push`, which may
//! do nothing else.
//!
//! ```text
//! push body = frame*                     Content-Type: application/vnd.procprof.push
//! frame     = header length (u32, little endian) | header (PushedProfile as JSON)
//!           | profile length (u32, little endian) | profile (gzip'd pprof)
//! ```
//!
//! The server takes each frame in before it reads the next one, so that a request of any number of profiles needs the
//! memory of one. A profile has an id of the agent's making (a UUIDv7), so sending it again adds nothing. A profile is
//! the sender's until it is answered as [`Outcome::Stored`], [`Outcome::Known`] or [`Outcome::Refused`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The media type of a push's body.
pub const PUSH_MEDIA_TYPE: &str = "application/vnd.procprof.push";
/// Longest header of a frame, in bytes.
pub const FRAME_HEADER_BYTES_MAX: u32 = 64 << 10;
/// Most frames in a push; the server answers a request with more by an error, having read that many.
pub const FRAMES_MAX: usize = 10_000;
/// Largest body of a heartbeat, in bytes.
pub const HEARTBEAT_BYTES_MAX: usize = 4 << 20;
/// Longest name of a host or service, in bytes, without control characters; one of a host has no `/`. What has a longer
/// name is left out by the server, and counted.
pub const NAME_BYTES_MAX: usize = 128;
/// Most labels of a host or service, most entries of other lists; the server keeps the first ones.
pub const LIST_MAX: usize = 64;
/// Longest text other than a name, in bytes; the server cuts what is longer.
pub const TEXT_BYTES_MAX: usize = 512;
/// Longest time that a heartbeat is held, in seconds.
pub const WAIT_SECONDS_MAX: u32 = 30;
/// Most services in a heartbeat; further ones are counted in [`HostFacts::services_left_out`].
pub const SERVICES_MAX: usize = 1_000;

/// What a host agent reports of itself, at least once a minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The host.
    pub host: HostFacts,
    /// The services that are profiled now.
    pub services: Vec<ServiceFacts>,
    /// The clock of the host as the request was sent, in nanoseconds since 1970 (UTC).
    pub sent_nanos: i64,
    /// Longest time to wait for a command.
    pub wait_seconds: u32,
}

/// A host and its agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Identifies the host over restarts and renames: 32 hexadecimal digits, derived from its machine id.
    pub id: String,
    /// Its name, as `hostname` prints it, or as configured.
    pub name: String,
    /// The kernel's release.
    pub kernel: String,
    /// CPUs online.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The agent's version.
    pub version: String,
    /// When the agent was started, in nanoseconds since 1970.
    pub started_nanos: i64,
    /// Free labels of the agent's configuration.
    pub labels: BTreeMap<String, String>,
    /// Samples for each second of CPU time, now.
    pub hz: u32,
    /// The rate that is configured; more than `hz` while the agent keeps within its limits.
    pub hz_wanted: u32,
    /// What this agent may not do here, and what would permit it; empty if nothing is missing.
    pub missing: Vec<String>,
    /// CPU time that the agent has used since its start, in nanoseconds.
    pub cpu_nanos: u64,
    /// Its resident memory, in bytes.
    pub resident_bytes: u64,
    /// Profiles that wait in the spool, and their bytes.
    pub spooled: (u64, u64),
    /// Profiles that were removed from a full spool since the start, and never sent.
    pub spool_lost: u64,
    /// Samples that were lost since the start.
    pub samples_lost: u64,
    /// Services that have no row in the heartbeat, since there are too many.
    pub services_left_out: u64,
}

/// The processes of a host that belong together: those of a systemd unit, a container, or of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceFacts {
    /// Names it on its host over restarts: `mysqld`, `nginx.service`, `docker/0123456789ab`.
    pub name: String,
    /// The pid of its oldest process, and the time of its start in clock ticks since boot.
    pub process: (u32, u64),
    /// Running processes.
    pub processes: u32,
    /// The program of its oldest process.
    pub program: String,
    /// Labels: unit, container, pod, namespace, OpenTelemetry's `service.name`, ….
    pub labels: BTreeMap<String, String>,
    /// The profile types that are recorded, and those that can be asked for.
    pub types: Vec<OfferedType>,
    /// CPU time of the last minute, in thousandths of a CPU.
    pub cpu_milli: u64,
    /// What hides names of functions, and what would show them: "start it with python3 -X perf".
    pub hints: Vec<String>,
    /// Whether it has no profiles of its own now, since it uses too little: its samples are in the profiles of the
    /// host.
    #[serde(default)]
    pub in_host: bool,
}

/// A profile type that a service has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedType {
    /// `cpu`, `off_cpu`, `alloc`, ….
    pub profile_type: String,
    /// Whether it is recorded all the time.
    pub continuous: bool,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeartbeatAnswer {
    /// The server's clock, in nanoseconds since 1970.
    pub server_nanos: i64,
    /// What the agent shall do, each once.
    pub commands: Vec<Command>,
    /// Build ids of files of this host whose symbols the server lacks.
    pub wanted_symbols: Vec<String>,
    /// Least time until the next heartbeat, in seconds: more than 0 if the server could not hold this one, since it
    /// holds as many as it may.
    #[serde(default)]
    pub next_seconds: u32,
}

/// A request of a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Record now; the profile's header has this id as its capture.
    Capture {
        /// The capture's id, a UUID.
        capture: String,
        /// The service, by name; the whole host if there is none.
        service: Option<String>,
        /// `cpu`, `off_cpu`, `wall`, ….
        profile_type: String,
        /// Length of the recording.
        seconds: u32,
        /// Samples for each second of CPU time, if not the agent's rate.
        hz: Option<u32>,
    },
    /// End a capture that was asked for.
    Cancel {
        /// The capture's id.
        capture: String,
    },
    /// Record continuously at this rate from now on; the configured one for `None`.
    Rate {
        /// Samples for each second of CPU time.
        hz: Option<u32>,
    },
}

/// The header of a pushed profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PushedProfile {
    /// The host's id.
    pub host: String,
    /// The service it is of; the whole host, or what is in no service, if there is none.
    pub service: Option<String>,
    /// The profile's id, a UUIDv7.
    pub id: String,
    /// The profile type.
    pub profile_type: String,
    /// When it began, in nanoseconds since 1970 by the host's clock.
    pub start_nanos: i64,
    /// Its length.
    pub duration_nanos: i64,
    /// The capture that asked for it, if one did.
    pub capture: Option<String>,
    /// Labels of the service, as they were then.
    pub labels: BTreeMap<String, String>,
    /// Why there is no profile; then the frame's profile is empty.
    pub failure: Option<String>,
}

/// The answer to a push: an outcome for each frame, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PushAnswer {
    /// What became of each.
    pub profiles: Vec<Pushed>,
    /// Build ids of files whose symbols the server lacks.
    pub wanted_symbols: Vec<String>,
}

/// What became of a pushed profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pushed {
    /// Its id.
    pub id: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// What becomes of a pushed profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It is stored.
    Stored,
    /// It was stored before.
    Known,
    /// It is not stored, and never will be: it is no profile, or too large.
    Refused {
        /// Why.
        reason: String,
    },
    /// It is not stored now: a limit is reached, or the disk is full. It may be sent again.
    Later {
        /// Why.
        reason: String,
        /// When to send it again.
        seconds: u32,
    },
}
