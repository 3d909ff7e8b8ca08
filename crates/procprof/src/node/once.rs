//! `procprof node --once`: what would be profiled, and what can't be.

use std::fmt::Write;
use std::time::Duration;

use super::discovery::Discovery;
use super::rules::Treatment;
use super::sampler::attach;
use super::settings::Settings;

/// The time in which CPU use is measured.
const WINDOW: Duration = Duration::from_secs(2);
/// Longest name in the table.
const NAME_CHARS_MAX: usize = 60;

/// The services of this host with their treatment, and what is not permitted.
///
/// # Errors
/// None: text is written to memory.
pub(super) fn text(settings: &Settings, missing: &[String]) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let mut discovery = Discovery::default();
    discovery.scan(settings);
    std::thread::sleep(WINDOW);
    let services = discovery.scan(settings);
    writeln!(text, "{:>9} {:>9}  {:<11} SERVICE", "CPU", "PROCESSES", "PROFILE")?;
    for service in &services {
        let facts = &service.facts;
        let is_above = facts.cpu_milli >= settings.cpu_milli_min;
        let profile = match service.treatment {
            Treatment::Exclude => "excluded",
            Treatment::Host => "host's",
            Treatment::Profile if !is_above => "host's",
            Treatment::Profile | Treatment::Always => "its own",
        };
        let off_cpu = facts.types.iter().any(|offered| offered.profile_type == "off_cpu" && offered.continuous);
        let types = if off_cpu { " (off CPU, too)" } else { "" };
        let name: String = facts.name.chars().take(NAME_CHARS_MAX).collect();
        writeln!(text, "{:>7.1} % {:>9}  {profile:<11} {name}{types}", facts.cpu_milli as f64 / 10.0, facts.processes)?;
        let labels: Vec<String> = facts.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        if !labels.is_empty() {
            writeln!(text, "{:33}{}", "", labels.join(" "))?;
        }
        for hint in facts.hints.iter().filter(|hint| is_above || service.oversized.contains(hint)) {
            writeln!(text, "{:33}{hint}", "")?;
        }
    }
    writeln!(
        text,
        "\nCPU time of {} s; a service from {:.1} % of a CPU on has a profile of its own each {} s, at {} Hz.",
        WINDOW.as_secs(),
        settings.cpu_milli_min as f64 / 10.0,
        settings.cut_seconds,
        settings.hz
    )?;
    match attach(settings.hz) {
        Ok(recorder) if recorder.samples_kernel() => writeln!(text, "All processes can be recorded."),
        Ok(_) => writeln!(text, "Time in the kernel can't be recorded: it takes CAP_PERFMON."),
        Err(error) => writeln!(text, "Nothing can be recorded: {error:#}"),
    }?;
    for missing in missing {
        writeln!(text, "Missing: {missing}")?;
    }
    Ok(text)
}
