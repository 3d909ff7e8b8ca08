//! The facts of agents, kept within bounds: names that cannot be taken are left out and counted, long texts are cut.

use std::collections::BTreeMap;

use procprof_profile::ProfileType;

use super::protocol::{HostFacts, LIST_MAX, NAME_BYTES_MAX, SERVICES_MAX, ServiceFacts, TEXT_BYTES_MAX};
use crate::{in_one_line, is_plain};

/// Ends a text that was cut.
const CUT: &str = "…";

/// Whether a name of a service can be taken.
pub(super) fn is_service_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && is_plain(name)
}

/// The name of a host, or one made of its id.
pub(super) fn host_name(facts: &HostFacts) -> String {
    match is_service_name(&facts.name) && !facts.name.contains('/') {
        true => facts.name.clone(),
        false => format!("host-{}", facts.id.get(..8).unwrap_or_default()),
    }
}

/// Bounds the facts of a host.
pub(super) fn host(facts: &mut HostFacts) {
    facts.name = host_name(facts);
    text(&mut facts.kernel);
    text(&mut facts.version);
    texts(&mut facts.missing);
    facts.labels = labels(std::mem::take(&mut facts.labels));
}

/// Bounds the services of a heartbeat; how many were left out.
pub(super) fn services(services: &mut Vec<ServiceFacts>) -> u64 {
    let sent = services.len();
    services.retain(|service| is_service_name(&service.name));
    services.truncate(SERVICES_MAX);
    for service in services.iter_mut() {
        text(&mut service.program);
        texts(&mut service.hints);
        service.labels = labels(std::mem::take(&mut service.labels));
        service.types.retain(|offered| offered.profile_type.parse::<ProfileType>().is_ok());
        service.types.truncate(LIST_MAX);
    }
    (sent - services.len()) as u64
}

/// The label that names the host; it is the server's.
pub(super) const HOST_LABEL: &str = "host";

/// Bounds labels. The host is the one that the sender's token speaks for, whatever the sender says.
pub(super) fn labels(labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_key = |key: &str| is_service_name(key) && !key.contains('=') && key != HOST_LABEL;
    let known = labels.into_iter().filter(|(key, _)| is_key(key)).take(LIST_MAX);
    known
        .map(|(key, mut value)| {
            text(&mut value);
            (key, value)
        })
        .collect()
}

/// A text in one line and of bounded length.
pub(super) fn line(mut content: String) -> String {
    text(&mut content);
    content
}

fn texts(list: &mut Vec<String>) {
    list.truncate(LIST_MAX);
    list.iter_mut().for_each(text);
}

fn text(content: &mut String) {
    if !is_plain(content) {
        *content = in_one_line(content);
    }
    if content.len() > TEXT_BYTES_MAX {
        let end = content.floor_char_boundary(TEXT_BYTES_MAX - CUT.len());
        content.truncate(end);
        content.push_str(CUT);
    }
}
