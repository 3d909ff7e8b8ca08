//! One row of the table of kinds: what it is called, what it gives, how it is recorded, and what else it can do.

use std::sync::Arc;

use procprof_agent::Agent;
use procprof_collect::frontend::MakeTarget;
use procprof_collect::{CollectError, Endpoints, Offer, Source};
use procprof_profile::ProfileType;

use super::{NodeConfig, NodeOption, Role};

/// What is to know about a kind of node.
#[derive(Clone, Copy, Debug)]
pub struct KindRow {
    /// The name in configuration, URLs and JSON.
    pub(crate) name: &'static str,
    /// What such a node is, for the reference page.
    pub(crate) help: &'static str,
    /// What else the reference page says of its schedule; may be empty.
    pub(crate) remark: &'static str,
    /// The role of a node that is given none.
    pub(crate) default_role: Role,
    /// Whether a `[[node]]` table may name it.
    pub(crate) is_configurable: bool,
    /// What makes its recordings.
    pub(crate) source: KindSource,
    /// Its service over HTTP, where a source of its own reads that.
    pub(crate) pages: Option<&'static Endpoints>,
    /// Top-level keys that set its intervals.
    pub(crate) interval: Interval,
    /// Names that its users know types by, beside ours.
    pub(crate) type_names: &'static [(&'static str, ProfileType)],
    /// Keys of its own in a `[[node]]` table.
    pub(crate) options: &'static [NodeOption],
    /// What is wrong with a node of this kind as it is configured.
    pub(crate) check: fn(&NodeConfig) -> Result<(), String>,
    /// The address that is shown.
    pub(crate) address: fn(&NodeConfig) -> String,
    /// Whether its profilers disturb each other, so that one capture of a node runs at a time.
    pub(crate) takes_turns: bool,
    /// Whether types of the same rhythm are recorded at the same time, by one capture.
    pub(crate) records_together: bool,
    /// Whether asking for a profile that it does not have costs nothing, so that it is asked at every interval.
    pub(crate) asks_freely: bool,
    /// How its heap profiler is controlled.
    pub(crate) heap: HeapControl,
    /// What takes the samples, by the format they come in; an empty format stands for all.
    pub(crate) engines: &'static [(&'static str, &'static str)],
}

/// What makes the recordings of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KindSource {
    /// The process itself, asked over HTTP.
    Http(&'static Endpoints),
    /// Something of its own, which gives these types.
    Custom {
        /// Types and default schedules.
        offers: &'static [Offer],
        /// Makes a node's source; it is kept for as long as the node stays as it is configured.
        make: MakeSource,
    },
}

/// Makes the source of a node.
pub(crate) type MakeSource = fn(&SourceContext<'_>) -> Result<Arc<dyn Source>, CollectError>;

/// What a source may be made of.
#[derive(Clone, Copy)]
pub(crate) struct SourceContext<'a> {
    /// What is configured of the node.
    pub(crate) node: &'a NodeConfig,
    /// Deepest stack that is kept, for engines that can be told.
    pub(crate) stack_depth: u32,
    /// The agent inside this process.
    pub(crate) agent: &'a Agent,
    /// Makes the target of a node that is reached over HTTP.
    pub(crate) target: &'a MakeTarget,
}

/// Top-level configuration keys that set a kind's intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interval {
    /// None: the default schedule holds.
    Default,
    /// This one, unless it is 0, for every type.
    Every(&'static str),
    /// This one for what is recorded without gaps: it is cut that often.
    Cut(&'static str),
}

/// How the heap profiler of a node is switched on and off, and asked for its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeapControl {
    /// By the agent inside this process.
    ThisServer,
    /// By the agent in the node's process, over HTTP.
    Agent,
    /// By brpc's flag `je_prof_active`, where the process has it.
    BrpcFlag,
    /// By the environment it is started with.
    Environment,
    /// Not at all.
    None,
}

impl KindRow {
    /// A kind that may be configured, is called a service, and can do nothing else than give profiles.
    pub(super) const fn new(name: &'static str, help: &'static str, engine: KindSource) -> KindRow {
        KindRow {
            name,
            help,
            remark: "",
            default_role: Role::Service,
            is_configurable: true,
            source: engine,
            pages: None,
            interval: Interval::Default,
            type_names: &[],
            options: &[],
            check: |_| Ok(()),
            address: NodeConfig::http_address,
            takes_turns: false,
            records_together: false,
            asks_freely: false,
            heap: HeapControl::None,
            engines: &[],
        }
    }

    /// The same, collected over HTTP.
    pub(super) const fn over_http(help: &'static str, endpoints: &'static Endpoints) -> KindRow {
        KindRow { check: has_address, ..KindRow::new(endpoints.name, help, KindSource::Http(endpoints)) }
    }

    /// What takes the samples that come in this format.
    pub(crate) fn engine_for(&self, format: &str) -> Option<&'static str> {
        self.engines.iter().find(|(known, _)| known.is_empty() || *known == format).map(|(_, engine)| *engine)
    }

    /// What a node serves over HTTP, whatever reads it.
    pub(crate) fn service(&self) -> Option<&'static Endpoints> {
        match self.source {
            KindSource::Http(endpoints) => Some(endpoints),
            KindSource::Custom { .. } => self.pages,
        }
    }

    /// Whether a node is reached over HTTP, so that the keys for that have a meaning.
    pub(crate) fn is_over_http(&self) -> bool {
        self.service().is_some()
    }
}

/// Whether a node that is collected over HTTP says where it is.
pub(super) fn has_address(node: &NodeConfig) -> Result<(), String> {
    match node.http.is_empty() && node.brpc.is_empty() && node.urls.is_empty() {
        true => Err("the node has no address: give http, brpc or urls".to_owned()),
        false => Ok(()),
    }
}
