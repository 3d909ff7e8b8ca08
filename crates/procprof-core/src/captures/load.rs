//! Whether a schedule can be kept: how many captures it needs at a time, beside how many may run.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::nodes::Node;

/// The load of one cluster's schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Need {
    nodes: usize,
    /// Captures running at a time, on average: the sum of seconds / every.
    captures: f64,
}

/// A sentence for every cluster whose schedule needs more captures at a time than `limit`.
pub(super) fn warnings(nodes: &[Arc<Node>], limit: u64) -> Vec<String> {
    let too_much = needs(nodes).into_iter().filter(|(_, need)| need.captures - limit as f64 > 1e-6);
    too_much
        .map(|(cluster, Need { nodes, captures })| {
            format!(
                "cluster {cluster}: the schedule of its {nodes} nodes needs {captures:.1} captures at a time, but max_concurrent_captures is \
                 {limit}: captures start late and some are left out"
            )
        })
        .collect()
}

fn needs(nodes: &[Arc<Node>]) -> BTreeMap<&str, Need> {
    let mut needs: BTreeMap<&str, Need> = BTreeMap::new();
    for node in nodes {
        let need = needs.entry(&node.cluster).or_default();
        // What is continuous runs beside all captures.
        let captured =
            node.schedule.iter().filter(|planned| planned.on && !node.kind().is_continuous(&planned.profile_type));
        let share: f64 = captured.map(|planned| planned.seconds as f64 / planned.every as f64).sum();
        if share > 0.0 {
            need.nodes += 1;
            need.captures += share;
        }
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::nodes::Registry;

    #[test]
    fn a_schedule_that_cannot_be_kept_is_reported_with_its_numbers() {
        let node = |number: u32, cluster: &str| {
            format!(
                "[[node]]\nname = \"n{number}\"\nkind = \"go\"\nhttp = \"127.0.0.1:{number}\"\ncluster = \"{cluster}\"\n"
            )
        };
        let warned = |count: u32| {
            let text: String = (1..=count).map(|number| node(number, "blue")).chain([node(9999, "green")]).collect();
            let config = Config::parse(&text, "f").unwrap();
            let data = tempfile::tempdir().unwrap();
            let registry = Registry::open(data.path(), &config, Vec::new(), "127.0.0.1:8030", None).unwrap();
            warnings(&registry.all(), config.max_concurrent_captures)
        };
        assert_eq!(warned(48), Vec::<String>::new(), "eight at a time is not more than eight");
        let sentence = "cluster blue: the schedule of its 100 nodes needs 16.7 captures at a time, but max_concurrent_captures is 8: captures \
                        start late and some are left out";
        assert_eq!(warned(100), [sentence]);
    }
}
