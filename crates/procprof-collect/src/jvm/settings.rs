//! Settings of the Flight Recorder for each version of the JDK.

use std::fmt::Write;
use std::time::Duration;

/// Kinds of events that are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events {
    /// CPU: samples of CPU time from JDK 25 on; before, samples of threads that run Java code.
    pub cpu: bool,
    /// Allocations.
    pub alloc: bool,
    /// Waits for monitors, and parked threads.
    pub lock: bool,
}

/// The parameters of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlightSettings {
    /// Time between two samples of CPU, 1 ms or more.
    pub cpu_interval: Duration,
    /// Most samples of allocations that the Flight Recorder takes, per second.
    pub allocations_per_second: u32,
    /// Bytes allocated between two samples of async-profiler.
    pub allocation_bytes: u64,
    /// Shortest wait that is recorded.
    pub lock_threshold: Duration,
    /// Most frames of a stack; takes effect only in a JVM that has not recorded before.
    pub stack_depth: u32,
    /// Most bytes of a recording.
    pub bytes_max: u64,
    /// Most bytes of memory that async-profiler takes for stacks, from its version 4.4 on.
    pub memory_max: u64,
}

impl Default for FlightSettings {
    fn default() -> Self {
        FlightSettings {
            cpu_interval: Duration::from_millis(10),
            allocations_per_second: 300,
            allocation_bytes: 512 << 10,
            lock_threshold: Duration::ZERO,
            stack_depth: 128,
            bytes_max: 64 << 20,
            memory_max: 128 << 20,
        }
    }
}

/// The first version that takes single settings in the command that starts a recording.
const INLINE_FROM: u32 = 17;

/// Events with their settings.
pub(super) type Rows = Vec<(&'static str, Vec<(&'static str, String)>)>;

fn on() -> (&'static str, String) {
    ("enabled", "true".to_owned())
}

/// Whether the first sample of a thread's allocations includes all that the thread has allocated before.
pub(super) fn needs_baseline(jdk: u32, events: Events) -> bool {
    events.alloc && jdk >= 16
}

/// The events of a baseline: its name, by which it is recognized, and what each thread has allocated so far.
///
/// Each thread that allocates meanwhile has its first sample there. Virtual threads need that: their samples count what
/// the threads that carry them have allocated, which the baseline has under the numbers of those.
pub(super) fn baseline() -> Rows {
    let unthrottled = vec![on(), ("stackTrace", "false".to_owned()), ("throttle", "off".to_owned())];
    vec![
        ("jdk.ActiveRecording", vec![on()]),
        ("jdk.ThreadAllocationStatistics", vec![on()]),
        ("jdk.ObjectAllocationSample", unthrottled),
    ]
}

/// The events of a version of the JDK with their settings.
pub(super) fn rows(jdk: u32, events: Events, settings: &FlightSettings) -> Rows {
    let stacks = || ("stackTrace", "true".to_owned());
    // The settings themselves are what a sample's weight is read from.
    let mut rows = vec![("jdk.ActiveSetting", vec![on()]), ("jdk.DataLoss", vec![on()])];
    let interval = format!("{}ms", settings.cpu_interval.as_millis().max(1));
    match jdk {
        _ if !events.cpu => {}
        25.. => {
            rows.push(("jdk.CPUTimeSample", vec![on(), ("throttle", interval)]));
            rows.push(("jdk.CPUTimeSamplesLost", vec![on()]));
        }
        _ => rows.push(("jdk.ExecutionSample", vec![on(), ("period", interval)])),
    }
    match jdk {
        _ if !events.alloc => {}
        16.. => {
            let throttle = format!("{}/s", settings.allocations_per_second.max(1));
            rows.push(("jdk.ObjectAllocationSample", vec![on(), stacks(), ("throttle", throttle)]));
            rows.push(("jdk.ThreadAllocationStatistics", vec![on()]));
        }
        _ => {
            rows.push(("jdk.ObjectAllocationInNewTLAB", vec![on(), stacks()]));
            rows.push(("jdk.ObjectAllocationOutsideTLAB", vec![on(), stacks()]));
        }
    }
    if events.lock {
        let threshold = format!("{}us", settings.lock_threshold.as_micros());
        for name in ["jdk.JavaMonitorEnter", "jdk.ThreadPark"] {
            rows.push((name, vec![on(), stacks(), ("threshold", threshold.clone())]));
        }
    }
    rows
}

/// Whether the command takes single settings; otherwise a file of settings is needed.
pub(super) fn are_inline(jdk: u32) -> bool {
    jdk >= INLINE_FROM
}

/// As arguments of `JFR.start`.
pub(super) fn inline(rows: &Rows) -> String {
    let mut words = "settings=none".to_owned();
    for (event, settings) in rows {
        for (name, value) in settings {
            let _ = write!(words, " +{event}#{name}={value}");
        }
    }
    words
}

/// The events of a version of the JDK as a file of settings (`.jfc`).
pub fn file(jdk: u32, events: Events, settings: &FlightSettings) -> String {
    document(&rows(jdk, events, settings))
}

/// As a file of settings (`.jfc`).
pub(super) fn document(rows: &Rows) -> String {
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<configuration version=\"2.0\" label=\"procprof\" \
         provider=\"procprof\">\n"
        .to_owned();
    for (event, settings) in rows {
        let _ = writeln!(text, "  <event name=\"{event}\">");
        for (name, value) in settings {
            let _ = writeln!(
                text,
                "    <setting name=\"{name}\">{}</setting>",
                value.replace("us", " us").replace("ms", " ms")
            );
        }
        text.push_str("  </event>\n");
    }
    text.push_str("</configuration>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Events = Events { cpu: true, alloc: true, lock: true };

    #[test]
    fn each_version_gets_its_own_events() {
        let names = |jdk, events| {
            rows(jdk, events, &FlightSettings::default()).into_iter().map(|(name, _)| name).skip(2).collect::<Vec<_>>()
        };
        assert_eq!(names(8, ALL)[..2], ["jdk.ExecutionSample", "jdk.ObjectAllocationInNewTLAB"]);
        assert_eq!(
            names(17, ALL),
            [
                "jdk.ExecutionSample",
                "jdk.ObjectAllocationSample",
                "jdk.ThreadAllocationStatistics",
                "jdk.JavaMonitorEnter",
                "jdk.ThreadPark"
            ]
        );
        assert_eq!(
            names(25, Events { alloc: false, lock: false, ..ALL }),
            ["jdk.CPUTimeSample", "jdk.CPUTimeSamplesLost"]
        );
    }

    #[test]
    fn settings_fit_into_a_command_and_into_a_file() {
        let words = inline(&rows(17, ALL, &FlightSettings::default()));
        assert!(
            words.contains(" +jdk.ExecutionSample#period=10ms ") && words.len() < 800,
            "{} bytes: {words}",
            words.len()
        );
        let text = file(17, ALL, &FlightSettings::default());
        assert!(
            text.contains("<event name=\"jdk.ThreadPark\">")
                && text.contains("<setting name=\"threshold\">0 us</setting>"),
            "{text}"
        );
    }
}
