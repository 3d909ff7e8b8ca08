//! Each source of symbols by itself, and the order in which they are queried.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSymbol};
use procprof_process::{BuildId, Process};
use procprof_profile::Addr;
use procprof_symbolize::{
    Binary, BinaryRole, Failure, FoundBy, Image, ImageOptions, Outcome, Proof, Reason, Source, Sources, SymbolIndex,
    symbolize_profile,
};

use crate::profiles::{
    FLAGS, Running, START, build_id, names, offset_of, only, profile, profile_of, profile_of_running, sources,
};
use crate::programs::{Folder, text_addresses};

/// The program stripped of all it can do without, and its debug file.
struct Stripped {
    folder: Folder,
    program: PathBuf,
    stripped: PathBuf,
    id: String,
}

impl Stripped {
    fn new(flags: &[&str]) -> Self {
        let folder = Folder::new();
        let program = folder.compile("inline.c", "program", flags);
        fs::create_dir_all(folder.path("bin")).unwrap();
        let stripped = folder.strip(&program, "bin/be", &["--strip-all"]);
        let id = build_id(&folder, &program);
        Self { folder, program, stripped, id }
    }

    /// A profile of the stripped program.
    fn profile(&self) -> procprof_profile::Profile {
        profile_of(&self.program, self.stripped.to_str().unwrap(), &self.id)
    }

    fn symbolize(&self, sources: &mut Sources<'_>) -> (Vec<String>, Outcome) {
        let (after, outcome) = symbolize_profile(self.profile(), sources).unwrap();
        (names(&after, 0).into_iter().map(str::to_owned).collect(), outcome)
    }
}

#[test]
fn debug_files_are_found_in_every_layout() {
    let stripped = Stripped::new(&FLAGS);
    let (first, rest) = stripped.id.split_at(2);
    let addresses = text_addresses(&stripped.program);
    let expected = stripped.folder.open(&stripped.program).resolve(&addresses);
    let below = stripped.stripped.strip_prefix("/").unwrap().to_str().unwrap().to_owned();
    let id = &stripped.id;
    for place in [
        format!("debug/.build-id/{first}/{rest}.debug"),
        format!("debug/{first}/{rest}.debug"),
        format!("debug/{id}/be"),
        format!("debug/{id}/debuginfo"),
        "debug/be.debug".to_owned(),
        "debug/be.debuginfo".to_owned(),
        "debug/be".to_owned(),
        "bin/be.debug".to_owned(),
        "bin/be.debuginfo".to_owned(),
        format!("pprof/{id}/be"),
        format!("pprof/{id}/any-name"),
        format!("pprof/{first}/{rest}.debug"),
        "pprof/be".to_owned(),
        format!("pprof/{below}"),
    ] {
        let debug = stripped.folder.keep_debug(&stripped.program, &place);
        let options = ImageOptions { binary_paths: vec![stripped.folder.path("pprof")], ..stripped.folder.options() };
        let image = Image::open(&stripped.stripped, &options).unwrap();
        assert_eq!(image.debug_file().map(|file| file.path.as_path()), Some(&*debug), "{place}");
        assert_eq!(image.resolve(&addresses), expected, "{place}");
        fs::remove_file(debug).unwrap();
    }
}

#[test]
fn a_debug_file_beside_the_binary_is_proven_by_its_checksum_where_there_is_no_build_id() {
    let stripped = Stripped::new(&["-O2", "-g", "-Wl,--build-id=none"]);
    // The link names a file of another folder's, as where symbols are shipped apart.
    let debug = stripped.folder.keep_debug(&stripped.program, "linked.debug");
    let link = format!("--add-gnu-debuglink={}", debug.display());
    let linked = stripped.folder.strip(&stripped.stripped, "bin/linked", &[&link]);
    let shipped = stripped.folder.path("bin/linked.debuginfo");
    fs::rename(&debug, &shipped).unwrap();
    let image = stripped.folder.open(&linked);
    assert_eq!(image.debug_file().map(|file| file.path.as_path()), Some(&*shipped));

    // A byte more, and it is another file; without a link nothing can prove it.
    fs::write(&shipped, [fs::read(&shipped).unwrap(), vec![0]].concat()).unwrap();
    let before = profile_of(&stripped.program, linked.to_str().unwrap(), "");
    for (binary, reason) in [(linked, Reason::ChecksumMismatch), (stripped.stripped.clone(), Reason::Unproven)] {
        let beside = PathBuf::from(format!("{}.debuginfo", binary.display()));
        if beside != shipped {
            fs::copy(&shipped, &beside).unwrap();
        }
        let mut sources = sources(&stripped.folder);
        sources.binaries = vec![Binary { path: binary, role: BinaryRole::Main }];
        let (_, outcome) = symbolize_profile(before.clone(), &mut sources).unwrap();
        let refused: Vec<_> =
            only(&outcome).refused.iter().map(|refused| (refused.path.clone(), refused.reason)).collect();
        // The path the profile has may be looked at before.
        assert_eq!(refused.last(), Some(&(beside, reason)));
    }
}

#[test]
fn a_debug_file_of_another_build_is_reported() {
    let stripped = Stripped::new(&FLAGS);
    let other = stripped.folder.compile("inline.cpp", "other", &FLAGS);
    let debug = stripped.folder.keep_debug(&other, "bin/be.debuginfo");
    let (found, outcome) = stripped.symbolize(&mut sources(&stripped.folder));
    assert!(found.is_empty());
    assert_eq!(only(&outcome).unresolved, [(Reason::NoSymbols, 1)]);
    let refused = &only(&outcome).refused[0];
    assert_eq!((refused.path.clone(), refused.reason), (debug, Reason::BuildIdMismatch));
    assert_eq!(refused.build_id.as_ref().map(ToString::to_string), Some(build_id(&stripped.folder, &other)));
}

#[test]
fn binaries_that_were_moved_are_found_by_build_id_and_by_name() {
    let stripped = Stripped::new(&FLAGS);
    fs::remove_file(&stripped.stripped).unwrap();
    for (place, proof) in
        [(format!("pprof/{}/moved", stripped.id), Proof::Verified), ("pprof/be".to_owned(), Proof::Unverified)]
    {
        let moved = stripped.folder.path(&place);
        fs::create_dir_all(moved.parent().unwrap()).unwrap();
        fs::copy(&stripped.program, &moved).unwrap();
        let mut sources = sources(&stripped.folder);
        sources.image.binary_paths = vec![stripped.folder.path("pprof")];
        let id = if proof == Proof::Verified { stripped.id.as_str() } else { "" };
        let before = profile_of(&stripped.program, stripped.stripped.to_str().unwrap(), id);
        let (after, outcome) = symbolize_profile(before, &mut sources).unwrap();
        assert!(names(&after, 0).contains(&"outer"), "{outcome:?}");
        assert_eq!((&only(&outcome).used[0].path, only(&outcome).used[0].proof), (&moved, proof));
        // The file at the path is missing now, which is reported.
        assert_eq!(only(&outcome).refused[0].reason, Reason::FileMissing);
        fs::remove_file(moved).unwrap();
    }
    // A debug file does in place of a binary that is gone.
    let (first, rest) = stripped.id.split_at(2);
    stripped.folder.keep_debug(&stripped.program, &format!("debug/.build-id/{first}/{rest}.debug"));
    let (found, outcome) = stripped.symbolize(&mut sources(&stripped.folder));
    assert!(found.contains(&"outer".to_owned()), "{outcome:?}");
}

#[test]
fn of_several_named_binaries_each_is_taken_for_its_own() {
    let stripped = Stripped::new(&FLAGS);
    let debug = stripped.folder.keep_debug(&stripped.program, "be.debuginfo");
    let library =
        stripped.folder.compile("inline.cpp", "libother.so", &["-O2", "-g", "-shared", "-fPIC", "-Wl,--build-id=sha1"]);
    let any = |path: &Path| Binary { path: path.to_owned(), role: BinaryRole::Any };
    let text = stripped.folder.path("text");
    fs::write(&text, "no binary").unwrap();
    // No build ids, as in jemalloc's dumps, and the program has another name now.
    for (filename, id) in [("/opt/be", ""), ("/opt/renamed", ""), ("/opt/renamed", stripped.id.as_str())] {
        let before = profile_of(&stripped.program, filename, id);
        let mut sources = sources(&stripped.folder);
        sources.binaries = vec![any(&stripped.stripped), any(&debug), any(&text)];
        sources.image.debug_files = sources.binaries.iter().map(|binary| binary.path.clone()).collect();
        let (after, outcome) = symbolize_profile(before, &mut sources).unwrap();
        assert!(
            names(&after, 0).contains(&"inlined_one") || names(&after, 0).contains(&"outer"),
            "{filename} {outcome:?}"
        );
        let unused: Vec<_> = outcome.unused_binaries.iter().map(|unused| unused.path.as_path()).collect();
        assert_eq!(unused.last(), Some(&&*text), "{outcome:?}");
    }
    let mut sources = sources(&stripped.folder);
    sources.binaries = vec![any(&library)];
    let (_, outcome) = stripped.symbolize(&mut sources);
    assert_eq!(outcome.unused_binaries.len(), 1);
    assert_eq!(outcome.unused_binaries[0].reason, Reason::BuildIdMismatch);
}

#[test]
fn code_made_at_run_time_is_named_by_perf_maps() {
    let folder = Folder::new();
    let map = folder.path("perf.map");
    fs::write(&map, "7000 100 first\n7080 20 LazyCompile:*fib /app/main.js:3\nnonsense\n9000 10 _ZN3foo3barEi\n")
        .unwrap();
    let mappings = [(0x7000, 0, "", ""), (0x8000, 0, "/memfd:jit (deleted)", "")];
    let before = profile(
        &mappings,
        &[(Some(0), 0x7010), (Some(0), 0x7090), (Some(0), 0x7fff), (Some(1), 0x9005), (None, 0x9009)],
    );
    let named = || Sources { perf_maps: vec![map.clone(), folder.path("none")], ..Sources::default() };
    let (after, outcome) = symbolize_profile(before, &mut named()).unwrap();
    let all: Vec<_> = (0..5).map(|location| names(&after, location)).collect();
    assert_eq!(
        all,
        [vec!["first"], vec!["LazyCompile:*fib /app/main.js:3"], vec![], vec!["foo::bar(int)"], vec!["foo::bar(int)"]]
    );
    assert_eq!(outcome.unresolved_by_reason().into_iter().collect::<Vec<_>>(), [(Reason::NoFile, 1)]);
    assert_eq!(outcome.resolved_by_source().into_iter().collect::<Vec<_>>(), [(Source::PerfMap, 4)]);
    assert_eq!(outcome.unverified().map(|used| &used.path).collect::<Vec<_>>(), [&map]);
    assert_eq!(outcome.failures.len(), 1, "{outcome:?}");
}

/// A file in the folder all processes share, removed when dropped.
struct Shared(PathBuf);

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_live_process_brings_its_perf_map_along() {
    let folder = Folder::new();
    let running = Running::start(&folder.compile("inline.c", "program", &FLAGS));
    let map = Shared(PathBuf::from(format!("/tmp/perf-{}.map", running.identity().pid)));
    let before = profile(&[], &[(None, 0x7010)]);
    let elsewhere = folder.path("target");
    fs::write(&elsewhere, "7000 100 led_astray\n").unwrap();
    std::os::unix::fs::symlink(&elsewhere, &map.0).unwrap();
    for expected in [vec![], vec!["made_at_run_time"]] {
        let mut sources = Sources { process: Some(running.identity()), ..Sources::default() };
        let (after, outcome) = symbolize_profile(before.clone(), &mut sources).unwrap();
        assert_eq!(names(&after, 0), expected, "{outcome:?}");
        assert!(!outcome.is_unverified() && outcome.failures.is_empty());
        fs::remove_file(&map.0).unwrap();
        fs::write(&map.0, "7000 100 made_at_run_time\n").unwrap();
    }
}

#[test]
fn kernel_addresses_are_named_by_kallsyms() {
    const KERNEL: u64 = 0xffff_ffff_8100_0000;
    let folder = Folder::new();
    let file = folder.path("kallsyms");
    let line = |address: u64, rest: &str| format!("{address:016x} {rest}\n");
    let text = [
        line(KERNEL, "T _stext"),
        line(KERNEL, "t __first"),
        line(KERNEL + 0x100, "t do_work"),
        line(KERNEL + 0x180, "D some_data"),
        line(KERNEL + 0x0800_0000, "t in_module\t[nf_tables]"),
    ];
    fs::write(&file, text.concat()).unwrap();
    let locations = [1, 0x17f, 0x181, 0x0800_0010, 0x0900_0000].map(|offset| (None, KERNEL + offset));
    let mut sources = Sources { kallsyms: Some(file.clone()), ..Sources::default() };
    let (after, outcome) = symbolize_profile(profile(&[], &locations), &mut sources).unwrap();
    let all: Vec<_> = (0..5).map(|location| names(&after, location).first().copied()).collect();
    assert_eq!(all, [Some("_stext"), Some("do_work"), None, Some("in_module"), None]);
    assert_eq!(outcome.unresolved_by_reason().into_iter().collect::<Vec<_>>(), [(Reason::NotCovered, 2)]);
    assert!(outcome.is_unverified());

    fs::write(&file, line(0, "T _stext") + &line(0, "t do_work")).unwrap();
    let (_, outcome) = symbolize_profile(profile(&[], &locations), &mut sources).unwrap();
    assert_eq!(outcome.unresolved_by_reason().into_iter().collect::<Vec<_>>(), [(Reason::KernelHidden, 5)]);
    let what = format!("{}: all addresses are hidden (kernel.kptr_restrict)", file.display());
    assert_eq!(outcome.failures, [Failure { source: Source::Kallsyms, what }]);
}

#[test]
fn the_kernel_of_a_live_process_is_this_one() {
    let folder = Folder::new();
    let running = Running::start(&folder.compile("inline.c", "program", &FLAGS));
    let own = fs::read_to_string("/proc/kallsyms").unwrap();
    let (address, name) = own
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|words| words[2] == "_stext")
        .map(|words| (u64::from_str_radix(words[0], 16).unwrap(), words[2].to_owned()))
        .unwrap();
    let before = profile(&[], &[(None, address.max(0xffff_ffff_8100_0000) + 1)]);
    // Without a process nothing proves that the addresses are of this boot.
    let (_, outcome) = symbolize_profile(before.clone(), &mut Sources::default()).unwrap();
    assert_eq!(only(&outcome).unresolved, [(Reason::Kernel, 1)]);
    let mut sources = Sources { process: Some(running.identity()), ..Sources::default() };
    let (after, outcome) = symbolize_profile(before, &mut sources).unwrap();
    if address == 0 {
        assert_eq!(only(&outcome).unresolved, [(Reason::KernelHidden, 1)]);
    } else {
        let found = names(&after, 0);
        assert!(found.len() == 1 && !found[0].is_empty(), "{name} {outcome:?}");
        assert_eq!(only(&outcome).used[0].proof, Proof::Verified);
    }
}

#[test]
fn the_vdso_of_a_live_process_is_named() {
    use std::os::unix::fs::FileExt;
    let folder = Folder::new();
    let running = Running::start(&folder.compile("inline.c", "program", &FLAGS));
    let maps = Process::open(running.identity().pid).unwrap().maps().unwrap();
    let range = maps.iter().find(|range| range.path.as_os_str() == "[vdso]").unwrap();
    let mut bytes = vec![0; (range.limit.0 - range.start.0) as usize];
    let memory = fs::File::open(format!("/proc/{}/mem", running.identity().pid)).unwrap();
    memory.read_exact_at(&mut bytes, range.start.0).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let symbol = object.dynamic_symbols().find(|symbol| symbol.name() == Ok("__vdso_clock_gettime")).unwrap();
    let address = range.start.0 + symbol.address() + 1;
    let id = BuildId::of_bytes(&bytes).unwrap().to_string();
    for (build_id, process, expected) in
        [("", true, true), (&*id, false, true), ("", false, false), ("0123", true, false)]
    {
        let before = profile(&[(range.start.0, 0, "[vdso]", build_id)], &[(Some(0), address)]);
        let mut sources = Sources { process: process.then(|| running.identity()), ..Sources::default() };
        let (after, outcome) = symbolize_profile(before, &mut sources).unwrap();
        let found = names(&after, 0);
        assert_eq!(
            found.first().is_some_and(|name| name.ends_with("clock_gettime")),
            expected,
            "{build_id} {process} {outcome:?}"
        );
    }
}

#[test]
fn uploaded_symbols_name_what_was_stripped() {
    let stripped = Stripped::new(&FLAGS);
    let expected = {
        let mut sources = sources(&stripped.folder);
        sources.binaries = vec![Binary { path: stripped.program.clone(), role: BinaryRole::Main }];
        stripped.symbolize(&mut sources).0
    };
    let index = |program: &Path| SymbolIndex::build(&stripped.folder.open(program)).unwrap();
    let (own, other) = (index(&stripped.program), index(&stripped.folder.compile("inline.cpp", "other", &FLAGS)));
    for is_there in [true, false] {
        // The stripped binary contains where its bytes are; without it the index does.
        if !is_there {
            fs::remove_file(&stripped.stripped).unwrap();
        }
        let mut sources = sources(&stripped.folder);
        sources.uploaded = Some(Box::new(|wanted| {
            assert_eq!(wanted.build_id.map(ToString::to_string).as_ref(), Some(&stripped.id));
            assert_eq!(wanted.layout_key.is_some(), is_there);
            SymbolIndex::from_bytes(own.clone()).into_iter().collect()
        }));
        let (found, outcome) = stripped.symbolize(&mut sources);
        assert_eq!(found, expected, "{outcome:?}");
        assert_eq!(only(&outcome).resolved, [(Source::Uploaded, 1)]);
        sources.uploaded = Some(Box::new(|_| SymbolIndex::from_bytes(other.clone()).into_iter().collect()));
        let (found, outcome) = stripped.symbolize(&mut sources);
        assert!(found.is_empty());
        assert_eq!(only(&outcome).refused.last().unwrap().reason, Reason::BuildIdMismatch);
    }
}

#[test]
fn a_fetched_debug_file_is_proven_before_it_is_used() {
    let stripped = Stripped::new(&FLAGS);
    let debug = stripped.folder.keep_debug(&stripped.program, "fetched");
    let other = stripped.folder.compile("inline.cpp", "other", &FLAGS);
    for is_there in [true, false] {
        if !is_there {
            fs::remove_file(&stripped.stripped).unwrap();
        }
        let mut sources = sources(&stripped.folder);
        sources.debuginfod =
            Some(Box::new(|build_id| Ok((build_id.to_string() == stripped.id).then(|| debug.clone()))));
        let (found, outcome) = stripped.symbolize(&mut sources);
        assert!(found.contains(&"outer".to_owned()), "{outcome:?}");
        assert_eq!(only(&outcome).resolved, [(Source::Debuginfod, 1)]);
        assert_eq!(only(&outcome).used[0].path, debug);
        sources.debuginfod = Some(Box::new(|_| Ok(Some(other.clone()))));
        let (found, outcome) = stripped.symbolize(&mut sources);
        assert!(found.is_empty());
        assert_eq!(only(&outcome).refused.last().unwrap().reason, Reason::BuildIdMismatch);
        sources.debuginfod = Some(Box::new(|_| Err(std::io::Error::other("no route"))));
        let (_, outcome) = stripped.symbolize(&mut sources);
        assert_eq!(outcome.failures, [Failure { source: Source::Debuginfod, what: "no route".to_owned() }]);
    }
}

/// One source after the other; a worse one is not queried for addresses that a better one has named.
#[test]
fn sources_are_queried_in_order() {
    let stripped = Stripped::new(&FLAGS);
    let with_symbols = stripped.folder.strip(&stripped.program, "bin/be", &["--strip-debug"]);
    assert_eq!(with_symbols, stripped.stripped);
    let index = SymbolIndex::build(&stripped.folder.open(&stripped.program)).unwrap();
    let debug = stripped.folder.keep_debug(&stripped.program, "fetched");
    let page = |addresses: &[Addr]| Ok(addresses.iter().map(|address| (*address, "page".to_owned())).collect());
    let mut expected = vec![Source::SymbolTable, Source::Debuginfod, Source::Uploaded, Source::DebugInfo];
    let mut all = sources(&stripped.folder);
    for step in 0..4 {
        all.fetch = Some(Box::new(page));
        match step {
            1 => all.debuginfod = Some(Box::new(|_| Ok(Some(debug.clone())))),
            2 => all.uploaded = Some(Box::new(|_| SymbolIndex::from_bytes(index.clone()).into_iter().collect())),
            3 => all.image.debug_files = vec![debug.clone()],
            _ => {}
        }
        let (_, outcome) = stripped.symbolize(&mut all);
        assert_eq!(only(&outcome).resolved, [(expected.remove(0), 1)], "step {step}: {outcome:?}");
    }
}

#[test]
fn a_process_in_a_container_has_its_own_files() {
    let stripped = Stripped::new(&FLAGS);
    let (first, rest) = stripped.id.split_at(2);
    let inside = stripped.folder.path("inside");
    fs::create_dir_all(&inside).unwrap();
    let debug = stripped.folder.keep_debug(&stripped.program, "kept.debug");
    let script = format!(
        "mount -t tmpfs none {0} && cp {1} {0}/be && mkdir -p {0}/debug/.build-id/{first} && cp {2} {0}/debug/.build-id/{first}/{rest}.debug && exec {0}/be",
        inside.display(),
        stripped.stripped.display(),
        debug.display()
    );
    // Without privileges a user namespace gives those that mounting needs.
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let users: &[&str] = if is_root { &[] } else { &["--map-root-user"] };
    let running = Running::start_by("unshare", &[users, &["--mount", "sh", "-c", &script]].concat());
    let program = inside.join("be");
    assert!(!program.exists(), "the folder is not in a mount namespace of its own");
    let before = profile_of_running(&running, &program, &stripped.program);
    let mut sources = sources(&stripped.folder);
    sources.process = Some(running.identity());
    sources.image.debug_dirs = vec![inside.join("debug")];
    let (after, outcome) = symbolize_profile(before, &mut sources).unwrap();
    assert!(names(&after, 0).contains(&"outer"), "{outcome:?}");
    assert_eq!(only(&outcome).used[0].proof, Proof::Verified);
    assert_eq!(only(&outcome).used[0].debug_file.as_ref().map(|debug| debug.found_by), Some(FoundBy::BuildId));
    assert_eq!(after.string(after.mappings()[0].build_id), stripped.id);
}

/// Profiles of old Go and hand-made ones have no mappings.
#[test]
fn addresses_without_mappings_are_those_of_a_program_linked_to_fixed_ones() {
    let folder = Folder::new();
    for (flags, is_fixed) in [(["-O2", "-g", "-no-pie"], true), (["-O2", "-g", "-pie"], false)] {
        let program = folder.compile("inline.c", "program", &flags);
        let bytes = fs::read(&program).unwrap();
        let address = object::File::parse(&*bytes).unwrap().symbol_by_name("outer").unwrap().address() + 1;
        let mut sources = sources(&folder);
        sources.binaries = vec![Binary { path: program, role: BinaryRole::Any }];
        let (after, outcome) = symbolize_profile(profile(&[], &[(None, address)]), &mut sources).unwrap();
        assert_eq!(names(&after, 0).contains(&"outer"), is_fixed, "{outcome:?}");
        assert_eq!(outcome.is_unverified(), is_fixed);
        assert_eq!(outcome.unused_binaries.is_empty(), is_fixed);
    }
}

/// A file that was replaced since, and a process that is gone: nothing is guessed.
#[test]
fn a_replaced_file_is_refused() {
    let stripped = Stripped::new(&FLAGS);
    let other = stripped.folder.compile("inline.cpp", "other", &FLAGS);
    fs::copy(&other, &stripped.stripped).unwrap();
    let (found, outcome) = stripped.symbolize(&mut sources(&stripped.folder));
    assert!(found.is_empty());
    assert_eq!(only(&outcome).unresolved, [(Reason::BuildIdMismatch, 1)]);
    assert_eq!(
        only(&outcome).refused[0].build_id.as_ref().map(ToString::to_string),
        Some(build_id(&stripped.folder, &other))
    );
    assert_eq!(START + offset_of(&stripped.program, "outer"), stripped.profile().locations()[0].address.0);
}
