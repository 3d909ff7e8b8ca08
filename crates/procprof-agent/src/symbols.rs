//! Names for this process's addresses, from its own files; without the feature `symbolize` there are none.
//!
//! What is read for a request is dropped after it: an agent that is not asked costs no memory.

use crate::error::Result;
use procprof_profile::Profile;

/// Whether this build can name addresses.
pub(crate) const AVAILABLE: bool = cfg!(all(feature = "symbolize", target_os = "linux"));

/// A profile whose addresses are call sites, with functions, lines and inlined frames as far as they can be found.
#[cfg(not(all(feature = "symbolize", target_os = "linux")))]
pub(crate) fn name_all(profile: Profile) -> Result<Profile> {
    Ok(profile)
}

/// For each address the functions there, callers before those inlined into them; empty where unknown.
#[cfg(not(all(feature = "symbolize", target_os = "linux")))]
pub(crate) fn names(addresses: &[u64]) -> Result<Vec<Vec<String>>> {
    Ok(vec![Vec::new(); addresses.len()])
}

#[cfg(all(feature = "symbolize", target_os = "linux"))]
pub(crate) use of_own_files::{name_all, names};

#[cfg(all(feature = "symbolize", target_os = "linux"))]
mod of_own_files {
    use super::{Profile, Result};
    use crate::modules::Modules;
    use procprof_process::{Identity, Pid};
    use procprof_profile::{Addr, LocationId, ProfileBuilder};
    use procprof_symbolize::{Sources, symbolize_profile};

    /// A profile whose addresses are call sites, with functions, lines and inlined frames as far as they can be found.
    pub(crate) fn name_all(profile: Profile) -> Result<Profile> {
        let process = Identity::of(Pid::current()).ok();
        let mut sources = Sources { process, ..Sources::default() };
        let (profile, _) = symbolize_profile(profile, &mut sources)?;
        Ok(profile)
    }

    /// For each address the functions there, callers before those inlined into them; empty where unknown.
    pub(crate) fn names(addresses: &[u64]) -> Result<Vec<Vec<String>>> {
        let modules = Modules::of_this_process();
        let mut builder = ProfileBuilder::new(&[("addresses", "count")]);
        let mappings = modules.add_to(&mut builder);
        let place = |address: &u64| builder.address(modules.find(*address).map(|index| mappings[index]), Addr(*address));
        let places: Vec<LocationId> = addresses.iter().map(place).collect();
        let profile = name_all(builder.finish()?)?;
        let name = |line: &procprof_profile::Line| profile.string(profile.function(line.function).name).to_owned();
        Ok(places.into_iter().map(|place| profile.lines(place).iter().rev().map(name).collect()).collect())
    }
}
