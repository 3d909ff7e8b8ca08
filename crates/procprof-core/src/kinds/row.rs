//! One row of the table of kinds: what it is called, what it gives, how it is recorded, and what else it can do.

use std::sync::Arc;

use procprof_agent::Agent;
use procprof_collect::frontend::MakeTarget;
use procprof_collect::{CollectError, Endpoints, Offer, Source};
use procprof_profile::ProfileType;

use super::{NodeConfig, NodeOption, Role};

/// The properties of a kind of node.
#[derive(Clone, Copy, Debug)]
pub struct KindRow {
    /// The name in configuration, URLs and JSON.
    pub(crate) name: &'static str,
    /// The description of such a node, for the reference page.
    pub(crate) help: &'static str,
    /// A remark on its schedule for the reference page; may be empty.
    pub(crate) remark: &'static str,
    /// The default role of its nodes.
    pub(crate) default_role: Role,
    /// Whether a `[[node]]` table may name it.
    pub(crate) is_configurable: bool,
    /// The source of its recordings.
    pub(crate) source: KindSource,
    /// Its service over HTTP, where a source of its own reads that.
    pub(crate) pages: Option<&'static Endpoints>,
    /// Top-level keys that set its intervals.
    pub(crate) interval: Interval,
    /// Its users' names for types, in addition to ours.
    pub(crate) type_names: &'static [(&'static str, ProfileType)],
    /// Keys of its own in a `[[node]]` table.
    pub(crate) options: &'static [NodeOption],
    /// Checks the configuration of a node of this kind.
    pub(crate) check: fn(&NodeConfig) -> Result<(), String>,
    /// The address that is shown.
    pub(crate) address: fn(&NodeConfig) -> String,
    /// Whether its profilers disturb each other, so that one capture of a node runs at a time.
    pub(crate) takes_turns: bool,
    /// Whether types of the same rhythm are recorded at the same time, by one capture.
    pub(crate) records_together: bool,
    /// Whether a request for an unavailable profile costs nothing, so that it is repeated at every interval.
    pub(crate) asks_freely: bool,
    /// How its heap profiler is controlled.
    pub(crate) heap: HeapControl,
    /// The sampler, by the format of its profiles; an empty format matches all.
    pub(crate) engines: &'static [(&'static str, &'static str)],
}

/// The source of a kind's recordings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KindSource {
    /// The process itself, over HTTP.
    Http(&'static Endpoints),
    /// A source of its own, which has these types.
    Custom {
        /// Types and default schedules.
        offers: &'static [Offer],
        /// Makes a node's source; it is kept for as long as the node stays as it is configured.
        make: MakeSource,
    },
    /// Something that records these types by itself and sends them.
    Pushed(&'static [Offer]),
}

/// Makes the source of a node.
pub(crate) type MakeSource = fn(&SourceContext<'_>) -> Result<Arc<dyn Source>, CollectError>;

/// The parts from which a source may be made.
#[derive(Clone, Copy)]
pub(crate) struct SourceContext<'a> {
    /// The configuration of the node.
    pub(crate) node: &'a NodeConfig,
    /// Deepest stack that is kept, for engines with such an option.
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

/// How the heap profiler of a node is switched on and off, and its state queried.
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

    /// The sampler of profiles in this format.
    pub(crate) fn engine_for(&self, format: &str) -> Option<&'static str> {
        self.engines.iter().find(|(known, _)| known.is_empty() || *known == format).map(|(_, engine)| *engine)
    }

    /// The endpoints of a node over HTTP, whatever reads them.
    pub(crate) fn service(&self) -> Option<&'static Endpoints> {
        match self.source {
            KindSource::Http(endpoints) => Some(endpoints),
            KindSource::Custom { .. } | KindSource::Pushed(_) => self.pages,
        }
    }

    /// Whether a node is reached over HTTP, so that the keys for that have a meaning.
    pub(crate) fn is_over_http(&self) -> bool {
        self.service().is_some()
    }
}

/// Checks that a node that is collected over HTTP has an address.
pub(super) fn has_address(node: &NodeConfig) -> Result<(), String> {
    match node.http.is_empty() && node.brpc.is_empty() && node.urls.is_empty() {
        true => Err("the node has no address: give http, brpc or urls".to_owned()),
        false => Ok(()),
    }
}
