//! Heap dumps of jemalloc in the formats that peers read, without names, and the addresses in them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use procprof_profile::Grammar;
use procprof_profile::format::{self, Limits, pprof};

/// Records of the CPU profile.
const CPU_RECORDS: usize = 50_000;
const CPU_PERIOD_MICROSECONDS: u64 = 10_000;

/// pprof's own format, by pprof's rules.
pub(super) fn to_pprof(heap: &Path, file: &Path) -> Result<()> {
    let limits = Limits { unpacked_bytes: u64::MAX, depth: usize::MAX };
    let profile = format::decode(&fs::read(heap).context("read a heap dump")?, &limits)?.profile;
    fs::write(file, pprof::encode_gzip(&profile.adjusted(Grammar::Pprof)?)?).context("write a profile")
}

/// The text of tcmalloc, which google-pprof reads.
pub(super) fn to_legacy_text(heap: &Path, file: &Path) -> Result<()> {
    let dump = Dump::read(heap)?;
    let mut out = BufWriter::new(fs::File::create(file).context("make a file")?);
    writeln!(out, "heap profile: {} @ heap_v2/{}", dump.total()?, dump.rate()?)?;
    for (stack, counts) in dump.samples() {
        writeln!(out, "{counts} @{stack}")?;
    }
    write!(out, "\nMAPPED_LIBRARIES:\n{}", dump.maps()?)?;
    out.flush().context("write a profile")
}

/// The CPU profiler's binary format of gperftools, a record for each of the first stacks.
pub(super) fn to_cpu_profile(heap: &Path, file: &Path) -> Result<()> {
    let dump = Dump::read(heap)?;
    let mut out = BufWriter::new(fs::File::create(file).context("make a file")?);
    let mut words = |words: &[u64]| words.iter().try_for_each(|word| out.write_all(&word.to_le_bytes()));
    words(&[0, 3, 0, CPU_PERIOD_MICROSECONDS, 0])?;
    for (index, (stack, _)) in dump.samples().take(CPU_RECORDS).enumerate() {
        let stack = addresses(stack)?;
        words(&[1 + index as u64 % 7, stack.len() as u64])?;
        words(&stack)?;
    }
    words(&[0, 1, 0])?;
    out.write_all(dump.maps()?.as_bytes())?;
    out.flush().context("write a profile")
}

/// The different addresses of the program's own code, as its symbols count them, one call site a line.
pub(super) fn to_addresses(heap: &Path, program: &Path, file: &Path) -> Result<()> {
    let dump = Dump::read(heap)?;
    let ranges = dump.ranges_of(program)?;
    let base = ranges.first().context("the program is not among the dump's mappings")?.0;
    let mut found = BTreeSet::new();
    for (stack, _) in dump.samples() {
        found.extend(addresses(stack)?);
    }
    let mut out = BufWriter::new(fs::File::create(file).context("make a file")?);
    for address in found.iter().filter(|address| ranges.iter().any(|(start, end)| start < address && *address <= end)) {
        writeln!(out, "{:#x}", address - base - 1)?;
    }
    out.flush().context("write the addresses")
}

/// The dump as if another file with the same code had run.
pub(super) fn rename_program(heap: &Path, from: &Path, to: &Path, file: &Path) -> Result<()> {
    let dump = Dump::read(heap)?;
    let (before, maps) = dump.0.split_at(dump.0.len() - dump.maps()?.len());
    let [from, to] = [from, to].map(|path| path.display().to_string());
    ensure!(maps.contains(&from), "{} does not mention {from}", heap.display());
    fs::write(file, [before, &maps.replace(&from, &to)].concat()).context("write a heap dump")
}

/// The text of a heap dump of jemalloc.
struct Dump(String);

impl Dump {
    fn read(heap: &Path) -> Result<Dump> {
        Ok(Dump(fs::read_to_string(heap).with_context(|| format!("read {}", heap.display()))?))
    }

    /// Average distance of samples, bytes.
    fn rate(&self) -> Result<&str> {
        self.0.lines().next().and_then(|line| line.strip_prefix("heap_v2/")).context("not a heap dump of jemalloc")
    }

    /// `objects: bytes [objects: bytes]` of all stacks.
    fn total(&self) -> Result<&str> {
        self.0.lines().nth(1).and_then(|line| line.trim().strip_prefix("t*: ")).context("no total in a heap dump")
    }

    /// The memory map at its end.
    fn maps(&self) -> Result<&str> {
        Ok(self.0.split_once("\nMAPPED_LIBRARIES:\n").context("no memory map in a heap dump")?.1)
    }

    /// The mappings of a file, from its beginning on: start and end of each.
    fn ranges_of(&self, program: &Path) -> Result<Vec<(u64, u64)>> {
        let name = program.display().to_string();
        let lines = self.maps()?.lines().filter(|line| line.ends_with(&name));
        lines.map(|line| range(line).with_context(|| format!("mapping {line:?}"))).collect()
    }

    /// Each stack, as a text of addresses, and `objects: bytes [objects: bytes]` of it.
    fn samples(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut lines = self.0.lines();
        std::iter::from_fn(move || {
            let stack = lines.find_map(|line| line.strip_prefix('@'))?;
            Some((stack, lines.next()?.trim().strip_prefix("t*: ")?))
        })
    }
}

fn range(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

fn addresses(stack: &str) -> Result<Vec<u64>> {
    let number = |word: &str| {
        u64::from_str_radix(word.trim_start_matches("0x"), 16).with_context(|| format!("address {word:?}"))
    };
    stack.split_whitespace().map(number).collect()
}

#[cfg(test)]
mod tests;
