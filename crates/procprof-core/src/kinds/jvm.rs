//! Java processes of this host, recorded from outside by the Flight Recorder of their JDK, or by async-profiler.

use std::path::PathBuf;
use std::sync::Arc;

use procprof_collect::jvm::{FlightSettings, JvmEngine, JvmOptions, JvmSource, JvmTarget};
use procprof_collect::{CollectError, Offer};
use procprof_process::Pid;
use procprof_profile::ProfileType;

use super::{Interval, KindRow, KindSource, NodeConfig, NodeOption, OptionType, OptionValue, PidLookup, SourceContext};

const MAIN_CLASS: &str = "main_class";
const COMMAND_LINE: &str = "command_line";
const ENGINE: &str = "engine";
const LIBRARY: &str = "async_profiler";
const ALLOCATION_BYTES: &str = "alloc_interval_bytes";
const KEEP: &str = "keep_jfr";

/// Recorded together and without gaps.
const OFFERS: &[Offer] = &[offer(ProfileType::Cpu), offer(ProfileType::Alloc), offer(ProfileType::Contention)];

const fn offer(profile_type: ProfileType) -> Offer {
    let mut offer = Offer::sampled(profile_type).seconds(120).continuous().on();
    offer.schedule.interval_seconds = 120;
    offer
}

const OPTIONS: &[NodeOption] = &[
    NodeOption {
        name: MAIN_CLASS,
        option_type: OptionType::Text,
        default: "",
        help: "The JVM of this host with that main class (with or without its package) or that jar; only one may match.",
    },
    NodeOption {
        name: COMMAND_LINE,
        option_type: OptionType::Text,
        default: "",
        help: "The JVM of this host whose command line contains this text; only one may match.",
    },
    NodeOption {
        name: ENGINE,
        option_type: OptionType::OneOf(JvmEngine::WORDS),
        default: "auto",
        help: "The profiler: the JDK's Flight Recorder (`jfr`), `async-profiler`, or (`auto`) async-profiler if its \
            library is configured, else the Flight Recorder.",
    },
    NodeOption {
        name: LIBRARY,
        option_type: OptionType::Text,
        default: "",
        help: "Path of `libasyncProfiler.so` or of a jar of async-profiler, 4.0 or later; by default that in the \
            environment variable `ASYNC_PROFILER_LIB`.",
    },
    NodeOption {
        name: ALLOCATION_BYTES,
        option_type: OptionType::Count(1 << 10, 1 << 40),
        default: "524288",
        help: "Bytes allocated between two samples of async-profiler; larger values reduce the overhead of programs that \
            allocate much.",
    },
    NodeOption {
        name: KEEP,
        option_type: OptionType::Boolean,
        default: "false",
        help: "Whether the recordings (`.jfr`, type `recording`) are kept in addition to the profiles made from them; \
            retention counts them, too.",
    },
];

/// Whether the recordings of a node are kept beside the profiles that are made of them.
pub(crate) fn keeps_recordings(node: &NodeConfig) -> bool {
    node.options.get(KEEP) == Some(&OptionValue::Boolean(true))
}

pub(super) static ROW: KindRow = KindRow {
    remark: "all at once and without gaps, cut every `proc_profile_collect_time_s`; JDK 11 or later, of the server's \
        user, or of any user if the server runs as root",
    interval: Interval::Cut("proc_profile_collect_time_s"),
    options: OPTIONS,
    records_together: true,
    check: |node| target(node).and_then(|_| engine(node)).map(drop),
    address: |node| target(node).map_or_else(|_| String::new(), |target| shown(&target)),
    ..KindRow::new(
        "jvm",
        "Java process of this host",
        KindSource::Custom { offers: OFFERS, make: |context| Ok(Arc::new(source(context)?)) },
    )
};

fn source(context: &SourceContext<'_>) -> Result<JvmSource, CollectError> {
    // A node without a target was refused when it was configured.
    let target = target(context.node).unwrap_or_else(|_| JvmTarget::CommandLine(String::new()));
    let engine = engine(context.node).map_err(|why| CollectError::Engine { code: "jvm_library", why })?;
    Ok(JvmSource::new(JvmOptions { target, engine, settings: settings(context) }))
}

fn settings(context: &SourceContext<'_>) -> FlightSettings {
    let mut settings = FlightSettings { stack_depth: context.stack_depth, ..FlightSettings::default() };
    if let Some(OptionValue::Count(bytes)) = context.node.options.get(ALLOCATION_BYTES) {
        settings.allocation_bytes = *bytes;
    }
    settings
}

/// What records a node.
fn engine(node: &NodeConfig) -> Result<JvmEngine, String> {
    let library = text(node, LIBRARY).map(PathBuf::from);
    let library = library
        .or_else(|| std::env::var_os(JvmEngine::LIBRARY_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from));
    JvmEngine::chosen(text(node, ENGINE).as_deref().unwrap_or("auto"), library)
}

/// The text that a node is given for a key, unless it is empty.
fn text(node: &NodeConfig, name: &str) -> Option<String> {
    match node.options.get(name) {
        Some(OptionValue::Text(text)) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}

/// Which process a node is.
fn target(node: &NodeConfig) -> Result<JvmTarget, String> {
    let by_pid = match &node.pid_lookup {
        PidLookup::Pid(pid) => Some(JvmTarget::Pid(Pid(*pid))),
        PidLookup::File(path) => Some(JvmTarget::PidFile(path.clone())),
        PidLookup::Port | PidLookup::Off => None,
    };
    let by_class = text(node, MAIN_CLASS).map(JvmTarget::MainClass);
    let by_line = text(node, COMMAND_LINE).map(JvmTarget::CommandLine);
    let mut targets = [by_pid, by_class, by_line].into_iter().flatten();
    match (targets.next(), targets.next()) {
        (Some(target), None) => Ok(target),
        (None, _) => {
            Err(format!("a JVM is found by pid_lookup (a pid or a pid file), {MAIN_CLASS} or {COMMAND_LINE}: give one"))
        }
        (Some(_), Some(_)) => Err(format!("give one of pid_lookup, {MAIN_CLASS} and {COMMAND_LINE}")),
    }
}

fn shown(target: &JvmTarget) -> String {
    match target {
        JvmTarget::Pid(pid) => format!("pid {pid}"),
        JvmTarget::PidFile(path) => format!("pid file {}", path.display()),
        JvmTarget::MainClass(class) => class.clone(),
        JvmTarget::CommandLine(part) => format!("JVM with {part:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(lookup: PidLookup, options: &[(&'static str, &str)]) -> NodeConfig {
        let options = options.iter().map(|(name, value)| (*name, OptionValue::Text((*value).to_owned()))).collect();
        NodeConfig { pid_lookup: lookup, options, ..NodeConfig::default() }
    }

    #[test]
    fn a_library_in_the_configuration_chooses_the_engine() {
        let by = |options: &[(&'static str, &str)]| engine(&node(PidLookup::Pid(7), options));
        let library = (LIBRARY, "/opt/async-profiler.jar");
        assert_eq!(by(&[library]), Ok(JvmEngine::AsyncProfiler("/opt/async-profiler.jar".into())));
        assert_eq!(by(&[library, (ENGINE, "jfr")]), Ok(JvmEngine::FlightRecorder));
        let by_name = node(PidLookup::Pid(7), &[(ENGINE, "perf"), library]);
        assert!((ROW.check)(&by_name).unwrap_err().contains("is no engine"));
    }

    #[test]
    fn a_jvm_is_named_in_one_way() {
        let by_class = node(PidLookup::Port, &[(MAIN_CLASS, "StarRocksFE")]);
        assert_eq!(
            (target(&by_class), (ROW.address)(&by_class)),
            (Ok(JvmTarget::MainClass("StarRocksFE".to_owned())), "StarRocksFE".to_owned())
        );
        assert_eq!(target(&node(PidLookup::Pid(7), &[])), Ok(JvmTarget::Pid(Pid(7))));
        assert_eq!(
            target(&node(PidLookup::File("/run/fe.pid".into()), &[])),
            Ok(JvmTarget::PidFile("/run/fe.pid".into()))
        );
        for wrong in [
            node(PidLookup::Port, &[]),
            node(PidLookup::Off, &[(MAIN_CLASS, "")]),
            node(PidLookup::Pid(7), &[(COMMAND_LINE, "fe")]),
        ] {
            assert!((ROW.check)(&wrong).unwrap_err().contains("give one"), "{wrong:?}");
        }
    }
}
