//! Words of the command line as files: profiles of processes are fetched first.

use std::path::Path;

use anyhow::{Context, Result};
use procprof_jeprof::{Environment, Files, Granularity, Loaded, Request, Unnamed, brings_names};
use regex::Regex;

use super::remote::{self, Address, SymbolPage};
use crate::fetch::Fetcher;

/// Loads the requested profiles; the inner error is a mistake in the words.
pub(super) fn load(request: &Request, environment: &Environment) -> Result<std::result::Result<Loaded, &'static str>> {
    let words = remote::expanded(&request.words)?;
    let Some(first) = words.first() else { return Ok(Err("Did not specify program")) };
    let by_process = if Path::new(first).is_file() { None } else { Address::parse(first) };
    let is_lines = request.settings.granularity == Granularity::Lines;
    let brings_names = by_process.is_none() && brings_names(first, environment)?;
    if (by_process.is_some() || brings_names) && is_lines {
        return Ok(Err("--lines cannot be used without a binary"));
    }
    let (program, profiles) = if by_process.is_some() || brings_names {
        (None, words)
    } else {
        (Some(words[0].clone()), words[1..].to_vec())
    };
    if profiles.is_empty() {
        return Ok(Err("Did not specify profile file"));
    }
    if by_process.is_some() {
        return from_processes(request, &profiles, environment).map(Ok);
    }
    let (profiles, fetched) = gathered(request, profiles, program.as_deref())?;
    let files = Files { program, profiles, fetched };
    Ok(Ok(Unnamed::read(request, files, environment)?.named(request, environment)?))
}

/// The profiles as files, and those that were fetched for it: profiles of processes are saved.
fn gathered(request: &Request, words: Vec<String>, program: Option<&str>) -> Result<(Vec<String>, Vec<String>)> {
    let addresses: Vec<Option<Address>> =
        words.iter().map(|word| if Path::new(word).is_file() { None } else { Address::parse(word) }).collect();
    if addresses.iter().all(Option::is_none) {
        return Ok((words, Vec::new()));
    }
    let remote_addresses: Vec<Address> = words
        .iter()
        .zip(&addresses)
        .filter(|(_, address)| address.is_some())
        .filter_map(|(word, _)| Address::parse(word))
        .collect();
    let fetched = remote::gather(&Fetcher::new()?, &remote_addresses, program.unwrap_or("(unknown)"), request.seconds)?;
    let mut saved = fetched.iter();
    let place = |(word, address): (String, Option<Address>)| match address {
        Some(_) => saved.next().cloned().unwrap_or(word),
        None => word,
    };
    Ok((words.into_iter().zip(addresses).map(place).collect(), fetched))
}

/// Profiles of processes that name their own addresses; the last process names those of all.
fn from_processes(request: &Request, profiles: &[String], environment: &Environment) -> Result<Loaded> {
    let fetcher = Fetcher::new()?;
    let last = profiles.last().filter(|last| !Path::new(last).is_file()).and_then(|last| Address::parse(last));
    let last = last.context("the last profile must be one of a process, which is queried for names")?;
    let page = SymbolPage::open(&fetcher, &last)?;
    let (profiles, fetched) = gathered(request, profiles.to_vec(), Some(&page.program))?;
    let files = Files { program: None, profiles, fetched };
    let unnamed = Unnamed::read(request, files, environment)?;
    let filter = |key, pattern: &'_ Option<Regex>| pattern.clone().map(|pattern| (key, pattern));
    let filters = [filter("retain", &request.settings.retain), filter("exclude", &request.settings.exclude)];
    let filters: Vec<(&str, &Regex)> = filters.iter().flatten().map(|(key, pattern)| (*key, pattern)).collect();
    let names = page.names(&fetcher, unnamed.addresses(), &filters)?;
    Ok(unnamed.named_by(&names, page.program))
}
