//! Names for this process's addresses, from its own files; without the feature `symbolize` there are none.
//!
//! Files read for a request are dropped after it: an idle agent costs no memory. One request is processed at a time,
//! within `MEMORY` bytes; addresses that would take more stay without names or lines, and the profile records it:
//!
//! ```text
//! #procprof:unnamed=1200 addresses: naming them would take more than 64 MiB; symbolize=0 leaves it to the reader
//! ```
//!
//! Naming also takes pages of the files that it reads, which count in a memory control group. Where less than
//! `ROOM_NEEDED` is left below a limit there, nothing is named here: readers name addresses by the mappings and build
//! ids in the profile.
//!
//! ```text
//! #procprof:unnamed=all addresses: naming them may take 16 MiB, and 9 MiB are left below /sys/fs/cgroup/memory.max
//! ```

use crate::error::Result;
use procprof_profile::Profile;

/// Whether this build can name addresses.
pub(crate) const AVAILABLE: bool = cfg!(all(feature = "symbolize", target_os = "linux"));

/// A profile whose addresses are call sites, with functions, lines and inlined frames as far as they can be found.
#[cfg(not(all(feature = "symbolize", target_os = "linux")))]
pub(crate) fn name_all(profile: Profile) -> Result<Profile> {
    Ok(profile)
}

/// For each address the functions there, callers before those inlined into them, separated by `--`; empty where
/// unknown.
#[cfg(not(all(feature = "symbolize", target_os = "linux")))]
pub(crate) fn names(addresses: &[u64]) -> Result<impl Iterator<Item = String>> {
    Ok(addresses.iter().map(|_| String::new()))
}

#[cfg(all(feature = "symbolize", target_os = "linux"))]
pub(crate) use of_own_files::{name_all, names};

#[cfg(all(feature = "symbolize", target_os = "linux"))]
mod of_own_files {
    use super::{Profile, Result};
    use crate::error::Error;
    use crate::memory_cgroup::{self, MemoryLimit};
    use crate::meta;
    use crate::modules::Modules;
    use procprof_process::{Identity, Pid};
    use procprof_profile::{Addr, LocationId, Meta, ProfileBuilder};
    use procprof_symbolize::{ImageOptions, MemoryBudget, Sources, in_one_thread, symbolize_profile};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    /// Most memory that naming addresses takes, besides the profile they are in, bytes.
    const MEMORY: u64 = 64 << 20;

    /// Memory that naming addresses may take with the pages of files that it reads, bytes: of redis 12 to 18 MB.
    const ROOM_NEEDED: u64 = 16 << 20;

    /// Between two looks whether it is one's turn.
    const PAUSE: Duration = Duration::from_millis(5);

    /// The process that is naming addresses, 0 if none.
    static NAMING: AtomicU32 = AtomicU32::new(0);

    /// The turn to name addresses; it ends when this is dropped.
    struct Turn;

    impl Turn {
        /// Waits for it. A turn that a thread of the parent had at a fork is void in the child.
        fn wait() -> Self {
            let own = std::process::id();
            loop {
                let other = NAMING.load(Ordering::Relaxed);
                if other != own && NAMING.compare_exchange(other, own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return Self;
                }
                std::thread::sleep(PAUSE);
            }
        }
    }

    impl Drop for Turn {
        fn drop(&mut self) {
            NAMING.store(0, Ordering::Release);
        }
    }

    /// A profile whose addresses are call sites, with functions, lines and inlined frames as far as they can be found.
    ///
    /// Where there is no room for it in the process's memory control group the profile is returned as it is, with a
    /// note.
    pub(crate) fn name_all(profile: Profile) -> Result<Profile> {
        let _turn = Turn::wait();
        name_below(profile, memory_cgroup::tightest().as_ref())
    }

    /// Names addresses where the limit leaves room for it.
    fn name_below(profile: Profile, limit: Option<&MemoryLimit>) -> Result<Profile> {
        match limit {
            Some(limit) if limit.left < ROOM_NEEDED => meta::add(profile, &without_room(limit)),
            Some(limit) => name_within(profile, MEMORY.min(limit.left / 2)),
            None => name_within(profile, MEMORY),
        }
    }

    fn without_room(limit: &MemoryLimit) -> Meta {
        let text = format!(
            "all addresses: naming them may take {} MiB, and {} MiB are left below {}",
            ROOM_NEEDED >> 20,
            limit.left >> 20,
            limit.file.display()
        );
        Meta { more: [("unnamed".to_owned(), text)].into(), ..Meta::default() }
    }

    fn name_within(profile: Profile, bytes: u64) -> Result<Profile> {
        let memory = MemoryBudget::new(bytes);
        let image = ImageOptions { memory: Some(memory.clone()), ..ImageOptions::default() };
        let process = Identity::read(Pid::current()).ok();
        let mut sources = Sources { process, image, ..Sources::default() };
        let (profile, _) = in_one_thread(|| symbolize_profile(profile, &mut sources))?;
        match memory.left_out() {
            0 => Ok(profile),
            left_out => meta::add(profile, &unnamed(left_out, bytes)),
        }
    }

    fn unnamed(left_out: u64, bytes: u64) -> Meta {
        let text = format!(
            "{left_out} addresses: naming them would take more than {} MiB; symbolize=0 leaves it to the reader",
            bytes.div_ceil(1 << 20)
        );
        Meta { more: [("unnamed".to_owned(), text)].into(), ..Meta::default() }
    }

    /// For each address the functions there, callers before those inlined into them, separated by `--`; empty where
    /// unknown.
    ///
    /// # Errors
    /// [`Error::NoRoomForNames`].
    pub(crate) fn names(addresses: &[u64]) -> Result<impl Iterator<Item = String>> {
        if let Some(MemoryLimit { file, left }) = memory_cgroup::tightest().filter(|limit| limit.left < ROOM_NEEDED) {
            return Err(Error::NoRoomForNames { file, left, needed: ROOM_NEEDED });
        }
        let modules = Modules::of_this_process();
        let mut builder = ProfileBuilder::new(&[("addresses", "count")]);
        let mappings = modules.add_to(&mut builder);
        let place =
            |address: &u64| builder.address(modules.find(*address).map(|index| mappings[index]), Addr(*address));
        let places: Vec<LocationId> = addresses.iter().map(place).collect();
        let profile = name_all(builder.finish()?)?;
        Ok(places.into_iter().map(move |place| {
            let names: Vec<&str> = profile
                .lines(place)
                .iter()
                .rev()
                .map(|line| profile.string(profile.function(line.function).name))
                .collect();
            names.join("--")
        }))
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use procprof_profile::{Grammar, Profile};

        /// Functions of this program, one of each of many units.
        fn profile() -> Profile {
            let functions: [*const (); 4] = [
                profile as *const (),
                name_all as *const (),
                crate::legacy::encode as *const (),
                std::fs::read::<&str> as *const (),
            ];
            let modules = Modules::of_this_process();
            let mut builder = ProfileBuilder::new(&[("addresses", "count")]);
            let mappings = modules.add_to(&mut builder);
            for function in functions {
                let address = function as u64 + 1;
                let place = builder.address(modules.find(address).map(|index| mappings[index]), Addr(address));
                builder.sample(&[place], &[1], &[]);
            }
            builder.finish().unwrap().adjusted(Grammar::Pprof).unwrap()
        }

        fn note_of(profile: &Profile) -> Option<&str> {
            profile.comments().find_map(|comment| comment.strip_prefix("#procprof:unnamed="))
        }

        fn with_lines(profile: &Profile) -> usize {
            let has_line = |id: &usize| profile.lines(LocationId(*id as u32)).iter().any(|line| line.line > 0);
            (0..profile.locations().len()).filter(has_line).count()
        }

        #[test]
        fn what_takes_too_much_memory_stays_without_lines_and_is_reported() {
            let named = name_within(profile(), MEMORY).unwrap();
            assert_eq!((note_of(&named), with_lines(&named)), (None, 4));
            let unnamed = name_within(profile(), 1 << 10).unwrap();
            let text = "4 addresses: naming them would take more than 1 MiB; symbolize=0 leaves it to the reader";
            assert_eq!((note_of(&unnamed), with_lines(&unnamed)), (Some(text), 0));
        }

        #[test]
        fn addresses_are_named_elsewhere_where_a_limit_leaves_no_room() {
            let limit = |left| Some(MemoryLimit { file: "/sys/fs/cgroup/a/memory.max".into(), left });
            let unnamed = name_below(profile(), limit(ROOM_NEEDED - 1).as_ref()).unwrap();
            let text =
                "all addresses: naming them may take 16 MiB, and 15 MiB are left below /sys/fs/cgroup/a/memory.max";
            assert_eq!((note_of(&unnamed), with_lines(&unnamed)), (Some(text), 0));
            assert!(unnamed.locations().len() == 4 && unnamed.mappings().iter().any(|mapping| mapping.build_id.0 != 0));
            let named = name_below(profile(), limit(4 * MEMORY).as_ref()).unwrap();
            assert_eq!((note_of(&named), with_lines(&named)), (None, 4));
            assert_eq!(with_lines(&name_all(profile()).unwrap()), 4);
            // Neither turn is still going on.
            assert_eq!(NAMING.load(Ordering::Relaxed), 0);
        }
    }
}
