//! The filter of a list of profiles.

use procprof_profile::{Nanos, ProfileId, ProfileType};

use crate::{Error, Result};

/// The filter of a list of profiles. Empty lists and `None` match everything; conditions of different fields must all
/// hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Any of these.
    pub ids: Vec<ProfileId>,
    /// Of any of these nodes.
    pub nodes: Vec<u64>,
    /// Of any of these types.
    pub types: Vec<ProfileType>,
    /// Completed at this moment or later.
    pub from: Option<Nanos>,
    /// Completed before this moment.
    pub to: Option<Nanos>,
    /// In this cluster.
    pub cluster: Option<String>,
    /// With all these labels of the node.
    pub labels: Vec<(String, String)>,
    /// Captured for this reason: `schedule`, `manual`, `import`, …
    pub trigger: Option<String>,
    /// With this text, in any case, in its file name, type, node name, cluster, labels, engine or top functions. One
    /// page searches [`Filter::SEARCHED_MAX`] profiles.
    pub text: Option<String>,
}

impl Filter {
    /// Largest number of ids, nodes, types and labels together.
    pub const VALUES_MAX: usize = 1000;
    /// Largest number of profiles one page searches for [`Filter::text`]; the next page continues behind them.
    pub const SEARCHED_MAX: usize = 5000;

    pub(crate) fn check(&self) -> Result<()> {
        let count = self.ids.len() + self.nodes.len() + self.types.len() + self.labels.len();
        if count > Self::VALUES_MAX {
            return Err(Error::Argument {
                what: "filter",
                text: format!("{count} values"),
                why: "more than 1000 ids, nodes, types and labels",
            });
        }
        Ok(())
    }
}
