//! Reports against pprof, byte for byte, on the same file; what differs is in [`DIFFERENCES`] with its cause.

use std::collections::BTreeMap;
use std::path::Path;

use procprof_profile::{Profile, format};
use procprof_report::{Options, Report, Sources, source_candidates};

use crate::{pprof, samples};

/// A report, and options as given to pprof; those of procprof are the same unless noted.
type Case = (&'static str, &'static [&'static str]);

/// The reports of every profile.
const KINDS: &[Case] = &[
    ("top", &[]),
    ("tree", &[]),
    ("peek=.", &[]),
    ("traces", &[]),
    ("tags", &[]),
    ("raw", &[]),
    ("dot", &[]),
    ("callgrind", &[]),
    ("list=.", &[]),
    ("comments", &[]),
];

/// Options, on profiles where they have something to do.
const OPTIONS: &[Case] = &[
    ("tree", &["granularity=lines", "nodecount=20"]),
    ("tree", &["sort=cum", "nodefraction=0.05", "edgefraction=0.02"]),
    ("tree", &["focus=json|main", "ignore=gzip", "unit=ms"]),
    ("tree", &["hide=runtime|std::", "compact_labels=true"]),
    ("tree", &["show=main|json|shop", "relative_percentages=true", "focus=main"]),
    ("tree", &["show_from=main|serve", "noinlines=true"]),
    ("tree", &["prune_from=json|sort", "granularity=files", "nodecount=0"]),
    ("tree", &["trim=false", "granularity=addresses"]),
    ("peek=main|sort|mutex", &["granularity=filefunctions"]),
    ("peek=main|sort", &["trim_path=/usr/include:/usr/local/go/src", "granularity=files"]),
    ("top", &["divide_by=7", "nodecount=10"]),
    ("top", &["mean=true"]),
    ("top", &["noinlines=true", "granularity=addresses"]),
    ("tree", &["mean=true"]),
    ("tree", &["divide_by=3"]),
    ("traces", &["granularity=lines", "mean=true"]),
    ("traces", &["granularity=addresses", "noinlines=true", "divide_by=2"]),
    ("traces", &["focus=main", "hide=runtime"]),
    ("dot", &["nodecount=12"]),
    ("dot", &["granularity=lines", "nodecount=30", "nodefraction=0.01", "edgefraction=0.01"]),
    ("dot", &["focus=main|serve", "nodecount=25", "unit=ms", "divide_by=2"]),
    ("dot", &["mean=true", "nodecount=15"]),
    ("dot", &["granularity=files", "noinlines=true"]),
    ("dot", &["trim=false"]),
    ("dot", &["call_tree=true", "nodecount=0", "nodefraction=0.01"]),
    ("dot", &["call_tree=true", "nodecount=0", "nodefraction=0.02", "granularity=lines"]),
    ("callgrind", &["call_tree=true"]),
    ("callgrind", &["noinlines=true", "sort=cum"]),
    ("callgrind", &["focus=main", "unit=us"]),
    ("list=main|sort", &["unit=ms", "noinlines=true"]),
    ("raw", &["sample_index=0"]),
    ("top", &["drop_negative=true", "unit=s"]),
    ("tree", &["granularity=lines", "showcolumns=true"]),
    ("traces", &["granularity=lines", "showcolumns=true", "noinlines=true"]),
    ("peek=main|sort", &["granularity=lines", "noinlines=true"]),
    ("top", &["unit=auto", "compact_labels=true", "granularity=files"]),
    ("top", &["granularity=filefunctions", "trim_path=/usr/local/go"]),
    ("list=main|sort", &["divide_by=3", "mean=true"]),
    ("tags", &["unit=ms"]),
    ("raw", &["noinlines=true"]),
];

/// Options on a profile with source columns.
const OPTIONS_OF_COLUMNS: &[Case] = &[
    ("top", &["granularity=lines"]),
    ("top", &["granularity=lines", "showcolumns=true"]),
    ("top", &["granularity=addresses"]),
    ("top", &["granularity=addresses", "noinlines=true"]),
    ("top", &["granularity=addresses", "noinlines=true", "showcolumns=true"]),
    ("top", &["granularity=functions", "showcolumns=true"]),
    ("tree", &["granularity=lines", "showcolumns=true", "noinlines=true"]),
    ("traces", &["granularity=lines", "showcolumns=true"]),
    ("dot", &["granularity=lines", "showcolumns=true"]),
    ("list=.", &["showcolumns=true"]),
    ("callgrind", &["showcolumns=true"]),
    ("raw", &["noinlines=true", "showcolumns=true"]),
];

/// Options on profiles of waiting.
const OPTIONS_OF_WAITS: &[Case] = &[
    ("top", &["sample_index=contentions"]),
    ("top", &["sample_index=delay", "mean=true"]),
    ("top", &["sort=cum", "granularity=lines"]),
    ("tree", &["sample_index=contentions", "noinlines=true"]),
    ("peek=sync|runtime", &["unit=us"]),
    ("traces", &["granularity=lines"]),
    ("dot", &["sample_index=contentions"]),
    ("dot", &["divide_by=10"]),
];

/// Options on profiles that count.
const OPTIONS_OF_COUNTS: &[Case] = &[
    ("top", &["sort=cum"]),
    ("tree", &["granularity=lines"]),
    ("top", &["tagroot=pool"]),
    ("traces", &["tagleaf=pool", "granularity=files"]),
    ("tags", &["tagfocus=reader"]),
    ("raw", &["tagroot=pool", "tagleaf=nothing"]),
    ("callgrind", &["tagroot=pool"]),
];

/// Options on profiles of allocations.
const OPTIONS_OF_ALLOCATIONS: &[Case] = &[
    ("top", &["sample_index=alloc_space"]),
    ("top", &["sample_index=alloc_objects", "sort=cum"]),
    ("top", &["sample_index=inuse_objects"]),
    ("tree", &["sample_index=inuse_space", "unit=kB"]),
    ("top", &["sample_index=alloc_space", "mean=true"]),
    ("dot", &["sample_index=alloc_objects", "granularity=lines"]),
    ("traces", &["sample_index=alloc_objects"]),
    ("peek=main", &["sample_index=alloc_space", "granularity=lines"]),
];

/// Options on a profile with labels.
const OPTIONS_OF_LABELS: &[Case] = &[
    ("tags", &["tagfocus=class=b", "unit=kB"]),
    ("tags", &["tagignore=alpha", "divide_by=2"]),
    ("tags", &["tagshow=class|bytes", "relative_percentages=true"]),
    ("tags", &["tagfocus=bytes=1kb:4kb", "taghide=request"]),
    ("top", &["tagfocus=class:a"]),
    ("tags", &["tagfocus=alpha", "sample_index=samples"]),
    ("traces", &["tagignore=tenant=two"]),
    ("raw", &["tagshow=class"]),
    ("dot", &["nodecount=12"]),
    ("dot", &["tagfocus=bytes", "unit=kB", "divide_by=2"]),
    ("dot", &["mean=true", "taghide=class"]),
    ("tree", &["tagignore=bytes=:300b"]),
    ("top", &["tagroot=class"]),
    ("tree", &["tagroot=tenant,class", "tagleaf=wait"]),
    ("traces", &["tagroot=bytes", "tagleaf=request", "unit=kB"]),
    ("dot", &["tagroot=class", "tagfocus=class=b"]),
    ("top", &["tagleaf=class,nothing", "granularity=files"]),
    ("top", &["tagroot=class", "focus=alpha"]),
    ("peek=alpha", &["tagleaf=class", "granularity=filefunctions"]),
    ("callgrind", &["tagroot=tenant"]),
];

/// The allowed differences of a report.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Allowed {
    /// The lines are the same in another order, and so the running sums differ.
    Order,
    /// The lines of DOT may be in another order and its nodes have other numbers.
    Numbers,
    /// The lines of callgrind may be in another order, and so names and addresses be numbered and relative otherwise;
    /// the costs of calls are the same.
    Costs,
    /// The lines of DOT may be in another order, its nodes have other numbers, and other dotted edges be left out as
    /// redundant.
    Dotted,
    /// The sum of a function's calls in the head of its listing may differ.
    Sums,
    /// Not compared.
    All,
}

/// Profile, kind (its options may follow), what may differ, and why.
const DIFFERENCES: &[(&str, &str, Allowed, &str)] = &[
    ("*", "tree prune_from=json|sort granularity=files nodecount=0", Allowed::Order, ALIKE),
    ("*", "peek=main|sort trim_path=/usr/include:/usr/local/go/src granularity=files", Allowed::Order, ALIKE),
    ("*", "top unit=auto compact_labels=true granularity=files", Allowed::Order, ALIKE),
    ("*", "dot granularity=files noinlines=true", Allowed::Dotted, ALIKE),
    ("cpp.cpu", "list", Allowed::Sums, ONCE),
    ("go.cpu", "list=.", Allowed::Sums, ONCE),
    ("*", "dot call_tree=true", Allowed::Numbers, PATHS),
    ("*", "callgrind call_tree=true", Allowed::Costs, PATHS),
    (
        "go.heap",
        "dot mean=true",
        Allowed::All,
        "a call of weight 0 makes pprof's score of a node not a number, and that node the last; here such calls don't count",
    ),
    (
        "rust.heap",
        "raw",
        Allowed::All,
        "pprof keeps and numbers locations that no sample uses since drop_frames cut them; here they are gone",
    ),
];

/// Why functions of several lines in one stack have another sum.
const ONCE: &str = "pprof adds up the lines of a function, so that a sample counts as often as it has lines of it";

/// Why call trees are in another order.
const PATHS: &str = "pprof leaves the order of a function's nodes to chance where they differ only in what called them";

/// Why files of functions that begin at different lines are in another order.
const ALIKE: &str = "pprof keeps the functions of a file apart, shows nothing that tells them apart, and leaves the order of those with equal values to chance";

fn profiles() -> Vec<(&'static str, Profile)> {
    vec![
        ("mixed", samples::mixed()),
        ("labels", samples::labels()),
        ("sizes", samples::sizes()),
        ("go.cpu", samples::file("go.cpu.pb.gz")),
        ("go.heap", samples::file("go.heap.pb.gz")),
        ("go.mutex", samples::file("go.mutex.pb.gz")),
        ("go.block", samples::file("go.block.pb.gz")),
        ("go.allocs", samples::file("go.allocs.pb.gz")),
        ("go.goroutine", samples::file("go.goroutine.pb.gz")),
        ("go.threadcreate", samples::file("go.threadcreate.pb.gz")),
        ("columns", samples::columns()),
        ("cpp.cpu", samples::file("cpp.cpu.pb.gz")),
        ("rust.heap", samples::file("rust.heap.pb.gz")),
        ("walk", samples::walk(300, 40)),
        ("negative", samples::stacks(&[(&["a", "b"], -5_000_000), (&["a", "c"], 3_000_000), (&["d"], 7_000_000)])),
    ]
}

fn theirs(path: &Path, case: &Case) -> String {
    let (kind, options) = case;
    let mut command = pprof::command(path.parent().unwrap());
    command.args(["-symbolize=none", "-source_path=/nowhere", "-output=/dev/stdout"]).arg(format!("-{kind}"));
    for option in *options {
        match option.strip_prefix("granularity=") {
            Some(granularity) => command.arg(format!("-{granularity}")),
            None => command.arg(format!("-{}", option.strip_prefix("sort=").unwrap_or(option))),
        };
    }
    let output = command.arg(path).output().expect("pprof can be started");
    let failure = || String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned();
    if output.status.success() {
        String::from_utf8_lossy(&output.stdout).into_owned()
    } else {
        panic!("pprof {case:?}: {}", failure())
    }
}

fn ours(profile: &Profile, case: &Case) -> String {
    let (kind, symbol) = case.0.split_once('=').unwrap_or((case.0, ""));
    let pairs = case.1.iter().filter_map(|option| option.split_once('='));
    let options = Options::parse(pairs.chain([("symbol", symbol), ("source_path", "/nowhere")])).unwrap();
    let report = Report::named(kind).unwrap();
    let mut sources = Sources::default();
    for path in report.source_files(profile, &options).unwrap_or_default() {
        let why = if path.starts_with('/') {
            format!("open {path}: no such file or directory")
        } else {
            format!("could not find file {path} on path /nowhere")
        };
        let found = source_candidates(&path, &options, Path::new("/"))
            .iter()
            .find_map(|path| std::fs::read_to_string(path).ok());
        match found {
            Some(text) => sources.files.insert(path, text),
            None => sources.missing.insert(path, why),
        };
    }
    match report.render(profile, &options, &sources) {
        Ok(bytes) => String::from_utf8(bytes).unwrap(),
        Err(error) => error.to_string(),
    }
}

/// The text without the parts that may differ.
fn reduced(text: &str, allowed: Allowed) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut replace = |regex: &str, by: &str| {
        let regex = regex::Regex::new(regex).unwrap();
        lines = lines.iter().map(|line| regex.replace_all(line, by).into_owned()).collect();
    };
    match allowed {
        Allowed::Order => replace(r"^(\s*\S+\s+\S+%)\s+\S+%(\s+\S+\s+\S+%\s+)", "$1$2"),
        Allowed::Numbers | Allowed::Dotted => replace(r#"\bN\d+\b|id="node\d+""#, "N"),
        Allowed::Sums => replace(r"^( *\S+) +\S+ \(flat, cum\).*$", "$1 (flat, cum)"),
        Allowed::Costs | Allowed::All => {}
    }
    lines.retain(|line| match allowed {
        Allowed::Costs => line.starts_with("* * "),
        Allowed::Dotted => !line.contains("style=\"dotted\""),
        _ => true,
    });
    lines.sort_unstable();
    lines
}

fn difference(name: &str, case: &Case, profile: &Profile, path: &Path) -> Option<String> {
    let spelled = format!("{} {}", case.0, case.1.join(" "));
    let listed = DIFFERENCES
        .iter()
        .find(|(profile, kind, ..)| (*profile == name || *profile == "*") && spelled.trim().starts_with(kind));
    let allowed = listed.map(|(_, _, allowed, _)| *allowed);
    if allowed == Some(Allowed::All) {
        return None;
    }
    let (expected, got) = (theirs(path, case), ours(profile, case));
    let equal = allowed.map_or(expected == got, |allowed| reduced(&expected, allowed) == reduced(&got, allowed));
    let folder = std::env::var_os("PPROF_DIFFERENCES");
    if let (false, Some(folder)) = (equal, folder) {
        let stem = format!("{name}.{}", spelled.trim().replace([' ', '/', '|'], "_"));
        std::fs::write(Path::new(&folder).join(format!("{stem}.ours")), &got).unwrap();
        std::fs::write(Path::new(&folder).join(format!("{stem}.pprof")), &expected).unwrap();
    }
    let first = got.lines().zip(expected.lines()).find(|(got, expected)| got != expected);
    (!equal).then(|| {
        format!(
            "{name} {spelled}\n    ours:  {}\n    pprof: {}",
            first.map_or("", |pair| pair.0),
            first.map_or("", |pair| pair.1)
        )
    })
}

fn compare(cases: &[Case], chosen: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let profiles: BTreeMap<&str, Profile> =
        profiles().into_iter().filter(|(name, _)| chosen.is_empty() || chosen.contains(name)).collect();
    let mut differences = Vec::new();
    for (name, profile) in &profiles {
        let path = folder.path().join(format!("{name}.pb.gz"));
        std::fs::write(&path, format::pprof::encode_gzip(profile).unwrap()).unwrap();
        differences.extend(cases.iter().filter_map(|case| difference(name, case, profile, &path)));
    }
    assert!(
        differences.is_empty(),
        "{} differ from pprof; PPROF_DIFFERENCES=FOLDER keeps both\n{}",
        differences.len(),
        differences.join("\n")
    );
}

#[test]
fn every_kind_is_what_pprof_prints() {
    compare(KINDS, &[]);
}

#[test]
fn options_do_what_they_do_in_pprof() {
    compare(OPTIONS, &["go.cpu", "go.heap", "cpp.cpu"]);
}

#[test]
fn options_about_labels_and_columns_do_what_they_do_in_pprof() {
    compare(OPTIONS_OF_LABELS, &["labels"]);
    compare(&[("dot", &["mean=true"]), ("dot", &["unit=\u{3bc}s", "divide_by=3"])], &["sizes"]);
    compare(&[("top", &["unit=\u{3bc}s"]), ("tree", &["unit=\u{3bc}s"])], &["walk"]);
    compare(OPTIONS_OF_COLUMNS, &["columns"]);
}

/// The kinds of Go's runtime besides CPU and heap.
#[test]
fn waits_and_counts_are_shown_as_in_pprof() {
    compare(OPTIONS_OF_WAITS, &["go.mutex", "go.block"]);
    compare(OPTIONS_OF_COUNTS, &["go.goroutine", "go.threadcreate"]);
    compare(OPTIONS_OF_ALLOCATIONS, &["go.allocs", "go.heap"]);
}
