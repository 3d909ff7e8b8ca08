//! Reads the text form of a profile as google/pprof's `profile` package prints it.
//!
//! ```text
//! PeriodType: contentions count
//! Period: 100
//! Duration: 4h35
//! Samples:
//! contentions/count delay/nanoseconds
//!        2700  608881724: 1 2
//!                 bytes:[9216]
//! Locations
//!      1: 0xbccc96 M=1 main main.c:3:0 s=1
//!      2: 0xc61201 M=1
//! Mappings
//! 1: 0x400000/0xfcb000/0x0 /home/server_main
//! ```

use std::collections::HashMap;

use anyhow::{Context, Result, bail};

use super::facts::{Facts, FrameFacts, MADE_UP, SampleFacts};

/// Reads the text.
pub(crate) fn parse(text: &str) -> Result<Facts> {
    let (header, rest) = text.split_once("Samples:\n").context("no \"Samples:\"")?;
    let (samples, rest) = rest.split_once("Locations\n").context("no \"Locations\"")?;
    let (locations, mappings) = rest.split_once("Mappings\n").context("no \"Mappings\"")?;
    let (types, samples) = samples.split_once('\n').context("no sample types")?;
    let mut facts = Facts::default();
    for line in header.lines() {
        facts.header.push(if line.starts_with("Time:") { "Time".to_owned() } else { line.to_owned() });
    }
    facts.header.push(types.trim().to_owned());
    let frames = parse_locations(locations, &parse_mappings(mappings)?)?;
    for line in samples.lines() {
        parse_sample(line, &frames, &mut facts.samples).with_context(|| format!("sample {line:?}"))?;
    }
    Ok(facts)
}

fn parse_sample(line: &str, frames: &HashMap<u64, FrameFacts>, samples: &mut Vec<SampleFacts>) -> Result<()> {
    if line.contains(":[") {
        let sample = samples.last_mut().context("labels before any sample")?;
        sample.labels.extend(line.trim().split_inclusive(']').map(|label| label.trim().to_owned()));
        sample.labels.sort();
        return Ok(());
    }
    let (values, stack) = line.split_once(": ").context("no \": \"")?;
    let values = values.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let mut sample = SampleFacts { values, ..SampleFacts::default() };
    for id in stack.split_whitespace() {
        sample.stack.push(frames.get(&id.parse()?).with_context(|| format!("no location {id}"))?.clone());
    }
    samples.push(sample);
    Ok(())
}

fn parse_locations(text: &str, mappings: &HashMap<u64, String>) -> Result<HashMap<u64, FrameFacts>> {
    let mut frames = HashMap::new();
    let mut current = 0;
    for line in text.lines() {
        if let Some(inlined) = line.strip_prefix("             ") {
            let frame: &mut FrameFacts = frames.get_mut(&current).context("a line before any location")?;
            frame.lines.push(inlined.to_owned());
            continue;
        }
        let (id, rest) = line.split_once(": ").with_context(|| format!("location {line:?}"))?;
        current = id.trim().parse()?;
        frames.insert(current, parse_location(rest, mappings).with_context(|| format!("location {line:?}"))?);
    }
    Ok(frames)
}

fn parse_location(text: &str, mappings: &HashMap<u64, String>) -> Result<FrameFacts> {
    let (address, mut rest) = text.split_once(' ').context("no address")?;
    let mut frame = FrameFacts { address: parse_hex(address)?, ..FrameFacts::default() };
    if let Some(mapped) = rest.strip_prefix("M=") {
        let (id, after) = mapped.split_once(' ').context("no mapping")?;
        frame.mapping = mappings.get(&id.parse()?).with_context(|| format!("no mapping {id}"))?.clone();
        rest = after;
    }
    let rest = rest.strip_prefix("[F] ").unwrap_or(rest);
    if !rest.is_empty() {
        frame.lines.push(rest.to_owned());
    }
    Ok(frame)
}

fn parse_mappings(text: &str) -> Result<HashMap<u64, String>> {
    let mut mappings = HashMap::new();
    for line in text.lines() {
        let (id, mapping) = line.split_once(": ").with_context(|| format!("mapping {line:?}"))?;
        let flags = mapping.find("[FN]").or(mapping.find("[FL]")).or(mapping.find("[LN]")).or(mapping.find("[IN]"));
        let mapping = mapping[..flags.unwrap_or(mapping.len())].trim_end();
        let mapping = if mapping == MADE_UP { "" } else { mapping };
        mappings.insert(id.trim().parse()?, mapping.to_owned());
    }
    Ok(mappings)
}

fn parse_hex(text: &str) -> Result<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => Ok(u64::from_str_radix(digits, 16)?),
        None => bail!("{text:?} is not hexadecimal"),
    }
}
