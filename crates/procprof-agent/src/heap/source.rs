//! The process's heap profiler: jemalloc where its profiler runs, else our own sampler where it is the allocator.

use super::dump::Dumper;
use super::jemalloc::HeapStatus;
#[cfg(feature = "heap")]
use super::sampler::{Found, HeapSampler};
use crate::error::{Error, Result};
#[cfg(feature = "heap")]
use procprof_profile::{Addr, Function, FunctionId, Line, Location};
use procprof_profile::{Meta, Profile};

/// A heap profiler of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heap<'a> {
    /// jemalloc's own.
    Jemalloc(&'a Dumper),
    /// The wrapper around the program's allocator.
    #[cfg(feature = "heap")]
    Sampler,
}

impl<'a> Heap<'a> {
    /// The heap profiler of this process; `dumper` if it has a jemalloc.
    pub(crate) fn of_this_process(dumper: Option<&'a Dumper>) -> Result<Self> {
        #[cfg(feature = "heap")]
        if HeapSampler::is_installed() && !dumper.is_some_and(|dumper| dumper.jemalloc.status().available) {
            return Ok(Self::Sampler);
        }
        dumper.map(Self::Jemalloc).ok_or(Error::NoJemalloc)
    }

    /// Its name in answers.
    pub(crate) fn allocator(self) -> &'static str {
        match self {
            Self::Jemalloc(_) => "jemalloc",
            #[cfg(feature = "heap")]
            Self::Sampler => "procprof-agent",
        }
    }

    /// The variable that configures it at start, if one does.
    pub(crate) fn variable(self) -> Option<&'static str> {
        match self {
            Self::Jemalloc(dumper) => Some(dumper.jemalloc.naming().variable()),
            #[cfg(feature = "heap")]
            Self::Sampler => None,
        }
    }

    /// The heap now, as `heap_v2` text.
    pub(crate) fn text(self) -> Result<Vec<u8>> {
        match self {
            Self::Jemalloc(dumper) => dumper.dump(),
            #[cfg(feature = "heap")]
            Self::Sampler => HeapSampler::text(),
        }
    }

    /// Adds what is known about the samples.
    pub(crate) fn describe(self, meta: &mut Meta) {
        match self {
            Self::Jemalloc(_) => meta.engine = "jemalloc".into(),
            #[cfg(feature = "heap")]
            Self::Sampler => {
                meta.engine = "agent-heap".into();
                meta.lost = Some(HeapSampler::lost());
                meta.truncated = Some(HeapSampler::samples(Found::Truncated));
                let more = [("samples-without-root", Found::Part), ("samples-without-stack", Found::Nothing)];
                meta.more.extend(more.map(|(key, found)| (key.to_owned(), HeapSampler::samples(found).to_string())));
                if HeapSampler::left_out() > 0 {
                    meta.more.insert("samples-left-out-for-seccomp".to_owned(), HeapSampler::left_out().to_string());
                }
            }
        }
    }

    /// Names the frame that marks unknown stacks, which has an address until then.
    pub(crate) fn name_unknown(self, profile: Profile) -> Result<Profile> {
        match self {
            Self::Jemalloc(_) => Ok(profile),
            #[cfg(feature = "heap")]
            Self::Sampler => {
                let (address, name) = HeapSampler::unknown_frame();
                name_frame(profile, Addr(address), name)
            }
        }
    }

    /// Its state.
    pub(crate) fn status(self) -> HeapStatus {
        match self {
            Self::Jemalloc(dumper) => dumper.jemalloc.status(),
            #[cfg(feature = "heap")]
            Self::Sampler => {
                let lg_sample = Some(HeapSampler::sample_bytes().ilog2() as usize);
                HeapStatus { compiled_in: true, available: true, active: HeapSampler::is_active(), lg_sample }
            }
        }
    }

    /// A function that switches it, for any thread and later.
    pub(crate) fn switch(self) -> Box<dyn Fn(bool) -> Result<()> + Send> {
        match self {
            Self::Jemalloc(dumper) => {
                let jemalloc = dumper.jemalloc;
                Box::new(move |active| jemalloc.set_active(active))
            }
            #[cfg(feature = "heap")]
            Self::Sampler => Box::new(|active| {
                if active {
                    HeapSampler::enable()
                } else {
                    HeapSampler::disable()
                };
                Ok(())
            }),
        }
    }

    /// Forgets all samples; sets the base-2 logarithm of the rate where one is given.
    pub(crate) fn reset(self, lg_sample: Option<usize>) -> Result<()> {
        match self {
            Self::Jemalloc(dumper) => dumper.jemalloc.reset(lg_sample),
            #[cfg(feature = "heap")]
            Self::Sampler => {
                HeapSampler::reset(lg_sample.map(|lg_sample| 1 << lg_sample.min(62)));
                Ok(())
            }
        }
    }

    /// Refuses where no totals of all allocations are kept.
    pub(crate) fn require_totals(self) -> Result<()> {
        match self {
            Self::Jemalloc(dumper) => dumper.require_totals(),
            #[cfg(feature = "heap")]
            Self::Sampler => Ok(()),
        }
    }
}

/// Names the frame at an address, if there is one, and takes the address away.
#[cfg(feature = "heap")]
fn name_frame(profile: Profile, address: Addr, name: &str) -> Result<Profile> {
    let Some(index) = profile.locations().iter().position(|location| location.address == address) else {
        return Ok(profile);
    };
    let mut parts = profile.into_parts();
    let name = parts.intern(name)?;
    let function = FunctionId(parts.functions.len() as u32);
    parts.functions.push(Function { name, system_name: name, ..Function::default() });
    parts.push_location(Location::default(), &[Line { function, ..Line::default() }])?;
    parts.locations.swap_remove(index);
    Ok(parts.finish()?)
}

#[cfg(all(test, feature = "heap"))]
mod tests {
    use super::*;
    use procprof_profile::ProfileBuilder;

    #[test]
    fn only_the_frame_at_that_address_is_named() {
        let mut builder = ProfileBuilder::new(&[("inuse_space", "bytes")]);
        let places = [1, 2, 3].map(|address| builder.address(None, Addr(address)));
        places.iter().for_each(|place| builder.sample(&[*place], &[1], &[]));
        let profile = name_frame(builder.finish().unwrap(), Addr(2), "[unknown]").unwrap();
        let names: Vec<Vec<&str>> = profile
            .samples()
            .map(|sample| {
                profile
                    .lines(sample.stack[0])
                    .iter()
                    .map(|line| profile.string(profile.function(line.function).name))
                    .collect()
            })
            .collect();
        assert_eq!(names, [vec![], vec!["[unknown]"], vec![]]);
        assert_eq!(
            profile.samples().map(|sample| profile.location(sample.stack[0]).address.0).collect::<Vec<_>>(),
            [1, 0, 3]
        );
    }
}
