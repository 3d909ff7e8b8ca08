//! Parts of a recording that goes on.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use procprof_profile::Profile;
use procprof_symbolize::ProvenFile;

use super::{Recorder, Target, now};
use crate::error::{Error, Result};
use crate::images::Files;
use crate::kernel::{Event, Trigger};
use crate::measure::Measure;
use crate::membership::Membership;
use crate::own_names::{OwnNames, PerfMaps, UnnamedCode, generated_code, own_names};
use crate::permission::check_rate;
use crate::profile::{Facts, profile};
use crate::session::Statistics;
use crate::stacks::{Owner, Stacks};

/// What was recorded between two cuts.
#[derive(Debug)]
pub struct Cut {
    stacks: Stacks,
    files: Files,
    names: OwnNames,
    unnamed: Vec<UnnamedCode>,
    facts: Facts,
    /// What has happened to the samples.
    pub statistics: Statistics,
    /// When it began.
    pub started: SystemTime,
    /// Its length.
    pub duration: Duration,
}

/// What a process used of the time of a cut.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProcessShare<'a> {
    /// Its pid.
    pub pid: u32,
    /// Its name.
    pub name: &'a str,
    /// What it belongs to.
    pub membership: &'a Membership,
    /// Samples, or waits.
    pub count: u64,
    /// Nanoseconds of the measured time.
    pub nanos: u64,
}

impl Recorder {
    /// Passes what was recorded since the last cut, or the beginning, and goes on without a gap. What ended meanwhile is
    /// forgotten, so that a recording of any length needs bounded memory.
    ///
    /// A wait that lasts is part of both cuts, with the time that it has in each.
    pub fn cut(&mut self) -> Cut {
        let end = now();
        let duration = Duration::from_nanos(end.saturating_sub(self.begun));
        self.read(end);
        self.take_measured(end);
        self.take_unsampled();
        let facts = self.facts(duration);
        self.begun = end;
        self.started = self.started.checked_add(duration).unwrap_or(self.started);
        // The clock of the host may have been set meanwhile.
        let ended = SystemTime::now();
        let apart = ended.duration_since(self.started).unwrap_or_else(|error| error.duration());
        if apart > CLOCK_STEP {
            self.started = ended;
        }
        // The samples of the rate begin anew with the statistics.
        self.rate.samples = 0;
        self.rate.since = Instant::now();
        let (stacks, files, mut statistics) = self.session.cut(end);
        statistics.lost = self.lost(statistics.lost);
        let started = facts.started;
        Cut { stacks, files, names: OwnNames::default(), unnamed: Vec::new(), facts, statistics, started, duration }
    }

    /// Cuts a recording of the whole host, and samples it at another rate from then on; for some microseconds nothing is
    /// sampled.
    ///
    /// # Errors
    /// [`Error::RateTooHigh`]; [`Error::System`], also for another target: the kernel does not tell inherited events.
    pub fn cut_at_rate(&mut self, hz: u32) -> Result<Cut> {
        check_rate(hz)?;
        if self.target != Target::Host {
            let source = std::io::ErrorKind::Unsupported.into();
            return Err(Error::System { what: "change the rate of samples of single processes", source });
        }
        let period = 1_000_000_000 / u64::from(hz.max(1));
        self.for_each_clock(Event::disable)?;
        let cut = self.cut();
        let changed = self.for_each_clock(|event| event.set_period(period));
        self.for_each_clock(Event::enable)?;
        changed?;
        let clocks = self.events.values_mut().filter(|purpose| purpose.trigger == Trigger::CpuTime);
        clocks.for_each(|purpose| purpose.period = period);
        self.options.hz = hz;
        Ok(cut)
    }

    fn for_each_clock(&self, change: impl Fn(&Event) -> std::io::Result<()>) -> Result<()> {
        let is_clock =
            |event: &&Event| self.events.get(&event.id()).is_some_and(|purpose| purpose.trigger == Trigger::CpuTime);
        let changed = self.all_events().filter(is_clock).try_for_each(change);
        changed.map_err(|source| Error::System { what: "change the rate of samples", source })
    }

    /// CPU time since the last cut for opening files with code and making their tables, which the rate of samples does
    /// not change.
    pub fn preparation(&self) -> Duration {
        self.session.images.preparation
    }

    /// Gives the memory of unwind tables back; they are made again as stacks need them.
    pub fn forget_tables(&mut self) {
        self.session.forget_tables();
    }

    /// The file of a process that has samples, by its build id in hexadecimal; `None` if none has it now.
    pub fn file(&self, build_id: &str) -> Option<ProvenFile> {
        self.session.images.file(build_id)
    }
}

/// Difference of the clocks from which the host's clock is taken to have been set.
const CLOCK_STEP: Duration = Duration::from_secs(1);

impl Cut {
    /// What each process used; one that executed another program, or changed its control group, several times.
    pub fn processes(&self) -> Vec<ProcessShare<'_>> {
        let totals = self.stacks.totals();
        totals
            .into_iter()
            .map(|(owner, amount)| ProcessShare {
                pid: owner.pid,
                name: &owner.process,
                membership: &owner.membership,
                count: amount.count,
                nanos: amount.nanos,
            })
            .collect()
    }

    /// The profile of the processes that `takes` chooses by pid, name and membership, without names of functions;
    /// `None` if they have no samples. Its facts are those of the whole cut, with what was lost of it.
    ///
    /// # Errors
    /// [`Error::Profile`] if the samples do not fit into a profile.
    pub fn profile(&self, takes: impl Fn(u32, &str, &Membership) -> bool, subject: &str) -> Result<Option<Profile>> {
        self.profile_with(Some(&self.statistics), takes, subject)
    }

    /// The profile of a part of the processes, as [`Cut::profile`], without what is known of the whole cut alone: lost
    /// records can be of any process, and would be counted once for each part.
    ///
    /// # Errors
    /// [`Error::Profile`] if the samples do not fit into a profile.
    pub fn part(&self, takes: impl Fn(u32, &str, &Membership) -> bool, subject: &str) -> Result<Option<Profile>> {
        self.profile_with(None, takes, subject)
    }

    fn profile_with(
        &self,
        statistics: Option<&Statistics>,
        takes: impl Fn(u32, &str, &Membership) -> bool,
        subject: &str,
    ) -> Result<Option<Profile>> {
        let facts = Facts { subject: subject.to_owned(), ..self.facts.clone() };
        let takes = |owner: &Owner| takes(owner.pid, &owner.process, &owner.membership);
        let profile = profile(&self.stacks, &self.files, &self.names, takes, statistics, &facts)?;
        Ok((profile.sample_count() > 0).then_some(profile))
    }

    /// The processes with samples in code that was generated at run time, by pid, those with most of it first.
    pub fn generated_code(&self) -> Vec<u32> {
        generated_code(&self.stacks, &self.files).into_iter().map(|(pid, _)| pid).collect()
    }

    /// Names what only this host can name: the kernel's functions, the vdso, and code that running processes list in
    /// perf maps, their own and those given. The profiles made later have these names. The kernel's symbols are those of
    /// `/proc/kallsyms`, or of a copy of it where this process may no longer read it.
    pub fn name_own(&mut self, kallsyms: Option<&Path>, maps: &PerfMaps) {
        (self.names, self.unnamed) = own_names(&self.stacks, &self.files, kallsyms, maps);
    }

    /// Generated code that [`Cut::name_own`] has left without names beyond a limit.
    pub fn unnamed(&self) -> &[UnnamedCode] {
        &self.unnamed
    }

    /// The build ids, in hexadecimal, of files with samples.
    pub fn build_ids(&self) -> Vec<&str> {
        self.files.values().map(|file| &*file.build_id).filter(|id| !id.is_empty()).collect()
    }

    /// What was measured.
    pub fn measure(&self) -> Measure {
        self.facts.measure
    }

    /// Samples for each second of CPU time.
    pub fn hz(&self) -> u32 {
        self.facts.hz
    }
}
