//! [`Lease`]: one compaction at a time, also after one that died.
//!
//! ```text
//! leases/compaction-0000000007      "1:6f0c1b9a2d3e4f50 1763677534000"
//! ```
//! The words are the version and the holder, and until when it has it, in milliseconds since 1970. The first releases
//! wrote no version.
//!
//! Who takes it creates the object with the next number once the last one has expired; only one can. The holder renews
//! its own object, and gives up when there is a higher number. A clock that goes wrong may make two holders: that costs
//! work only, since each change is created under a number that none has used (see `changes`). One that
//! would last longer than a day, or whose number no compaction has, is passed over.

use procprof_files::DiskFormat;
use procprof_profile::Nanos;

use crate::objects::Objects;
use crate::{Error, Result};

/// Programs that do not know the version take it for a part of the holder, which nobody reads.
const FORMAT: DiskFormat = DiskFormat { name: "lease", version: 1 };
const FOLDER: &str = "leases";
const START: &str = "leases/compaction-";
/// Bytes of the object, at most.
const BYTES_MAX: u64 = 100;
/// The highest number that a compaction takes: one a second for 31 years. An object with a higher one is none of ours.
const NUMBER_MAX: u64 = 1_000_000_000;
/// A lease that lasts longer than this, in nanoseconds, and than the own one would, is of a clock that was wrong.
const LEFT_MAX: i64 = 86_400_000_000_000;

/// A lease that is held.
pub(crate) struct Lease<'a> {
    objects: &'a dyn Objects,
    clock: &'a dyn Fn() -> Nanos,
    length: Nanos,
    holder: u64,
    number: u64,
    until: Nanos,
}

impl<'a> Lease<'a> {
    /// Takes the lease for a time.
    ///
    /// # Errors
    /// [`Error::Busy`] when another holder has it; [`Error::Files`] when the last one is of a newer version.
    pub(crate) fn take(
        objects: &'a dyn Objects,
        clock: &'a dyn Fn() -> Nanos,
        length: Nanos,
        holder: u64,
    ) -> Result<Lease<'a>> {
        let terms = terms(objects)?;
        if let Some(last) = terms.last() {
            let until = expiry(objects, *last)?;
            let left = Nanos(until.0.saturating_sub(clock().0));
            if left.0 > 0 && left.0 <= length.0.max(LEFT_MAX) {
                return Err(Error::Busy { left });
            }
        }
        let number = terms.last().map_or(1, |last| last.saturating_add(1));
        let until = Nanos(clock().0.saturating_add(length.0));
        let lease = Lease { objects, clock, length, holder, number, until };
        if !objects.create(&path(number), lease.text(until).as_bytes())? {
            return Err(Error::Busy { left: length });
        }
        terms.into_iter().try_for_each(|term| objects.delete(&path(term)))?;
        Ok(lease)
    }

    fn text(&self, until: Nanos) -> String {
        format!("{}:{:016x} {}", FORMAT.version, self.holder, until.0.div_euclid(1_000_000))
    }

    /// Makes sure that it is still held; renews it when half of its time has passed.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] when it is not.
    pub(crate) fn hold(&mut self) -> Result<()> {
        let now = (self.clock)();
        if now >= self.until {
            return Err(Error::LeaseLost);
        }
        if self.until.0.saturating_sub(now.0) > self.length.0 / 2 {
            return Ok(());
        }
        if terms(self.objects)?.last() != Some(&self.number) {
            return Err(Error::LeaseLost);
        }
        let until = Nanos(now.0.saturating_add(self.length.0));
        self.objects.put(&path(self.number), self.text(until).as_bytes())?;
        self.until = until;
        Ok(())
    }

    /// Ends it; its number stays, so that numbers rise.
    pub(crate) fn release(self) -> Result<()> {
        if (self.clock)() >= self.until {
            return Ok(());
        }
        self.objects.put(&path(self.number), self.text(Nanos(0)).as_bytes())
    }
}

fn path(number: u64) -> String {
    format!("{START}{number:010}")
}

/// The numbers that are there, rising.
fn terms(objects: &dyn Objects) -> Result<Vec<u64>> {
    let number = |path: &str| path.strip_prefix(START)?.parse().ok().filter(|number| *number <= NUMBER_MAX);
    let mut terms: Vec<u64> = objects.list(FOLDER)?.iter().filter_map(|object| number(&object.path)).collect();
    terms.sort_unstable();
    Ok(terms)
}

/// Until when a lease is held; one that cannot be understood, or that is gone, is not.
fn expiry(objects: &dyn Objects, number: u64) -> Result<Nanos> {
    let path = path(number);
    let bytes = match objects.size(&path) {
        Ok(size) if size <= BYTES_MAX => objects.read(&path, 0, size as usize),
        Ok(_) => return Ok(Nanos(0)),
        Err(error) => Err(error),
    };
    let bytes = match bytes {
        Err(error) if error.is_not_found() => return Ok(Nanos(0)),
        bytes => bytes?,
    };
    let text = String::from_utf8_lossy(&bytes);
    FORMAT.check(&path, text.split_once(':').and_then(|(version, _)| version.parse().ok()))?;
    let millis: Option<i64> = text.split_once(' ').and_then(|(_, millis)| millis.trim().parse().ok());
    Ok(Nanos(millis.unwrap_or(0).saturating_mul(1_000_000)))
}
