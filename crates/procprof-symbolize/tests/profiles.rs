//! Whole profiles: which file is used, what is refused, and what is reported.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use object::{Object, ObjectSegment, ObjectSymbol};
use procprof_process::{Identity, Pid, Process};
use procprof_profile::{Addr, Addresses, FileOffset, LocationId, Mapping, Profile, ProfileBuilder};
use procprof_symbolize::{
    Binary, BinaryRole, Error, Failure, MappingOutcome, NameStyle, Outcome, PathUse, Proof, Reason, Source, Sources,
    style_names, symbolize_profile,
};

use crate::programs::Folder;

pub(crate) const FLAGS: [&str; 3] = ["-O2", "-g", "-Wl,--build-id=sha1"];
pub(crate) const START: u64 = 0x5500_0000_0000;

/// A profile with one sample a location, in mappings of `(start, offset, filename, build id)`.
pub(crate) fn profile(mappings: &[(u64, u64, &str, &str)], locations: &[(Option<usize>, u64)]) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let mut ids = Vec::new();
    for (start, offset, filename, build_id) in mappings {
        let mapping = Mapping {
            start: Addr(*start),
            limit: Addr(start + 0x100_0000),
            file_offset: FileOffset(*offset),
            filename: builder.intern(filename),
            build_id: builder.intern(build_id),
            ..Mapping::default()
        };
        ids.push(builder.mapping(mapping));
    }
    for (mapping, address) in locations {
        let location = builder.address(mapping.map(|index| ids[index]), Addr(*address));
        builder.sample(&[location], &[1], &[]);
    }
    builder.finish().unwrap()
}

/// The file offset of a function's second byte.
pub(crate) fn offset_of(program: &Path, function: &str) -> u64 {
    let bytes = fs::read(program).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let address = object.symbol_by_name(function).unwrap().address() + 1;
    let holds = |segment: &object::Segment<'_, '_>| {
        segment.address() <= address && address < segment.address() + segment.size()
    };
    let segment = object.segments().find(holds).unwrap();
    address - segment.address() + segment.file_range().0
}

/// A profile with one location in `outer` of the program, as if loaded at [`START`].
pub(crate) fn profile_of(program: &Path, filename: &str, build_id: &str) -> Profile {
    profile(&[(START, 0, filename, build_id)], &[(Some(0), START + offset_of(program, "outer"))])
}

pub(crate) fn build_id(folder: &Folder, program: &Path) -> String {
    folder.open(program).build_id().map(ToString::to_string).unwrap_or_default()
}

pub(crate) fn sources(folder: &Folder) -> Sources<'static> {
    Sources { image: folder.options(), ..Sources::default() }
}

/// The names at a location, innermost first.
pub(crate) fn names(profile: &Profile, location: usize) -> Vec<&str> {
    let lines = profile.lines(LocationId(location as u32));
    lines.iter().map(|line| profile.string(profile.function(line.function).name)).collect()
}

pub(crate) fn only(outcome: &Outcome) -> &MappingOutcome {
    assert_eq!(outcome.mappings.len(), 1, "{outcome:?}");
    &outcome.mappings[0]
}

pub(crate) struct Running(Child);

impl Running {
    /// Starts a program that prints a line and then waits, and waits for that line.
    pub(crate) fn start(program: &Path) -> Self {
        Self::start_by(program.to_str().unwrap(), &[])
    }

    /// As `start`, for a program that another one starts in its place.
    pub(crate) fn start_by(program: &str, arguments: &[&str]) -> Self {
        use std::io::BufRead;
        let mut command = Command::new(program);
        command.args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self(child)
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity::read(Pid(self.0.id())).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A profile with one location in `outer` of a running program, whose symbols `unstripped` has.
pub(crate) fn profile_of_running(running: &Running, program: &Path, unstripped: &Path) -> Profile {
    let process = Process::open(running.identity().pid).unwrap();
    let maps = process.maps().unwrap();
    let code = maps.iter().find(|range| range.is_file_code() && *range.path == *program).unwrap();
    let distance = offset_of(unstripped, "outer") - code.file_offset.0;
    let mapping = (code.start.0, code.file_offset.0, program.to_str().unwrap(), "");
    profile(&[mapping], &[(Some(0), code.start.0 + distance)])
}

#[test]
fn a_path_with_the_same_build_id_is_used() {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", &FLAGS);
    let id = build_id(&folder, &program);
    let before = profile_of(&program, program.to_str().unwrap(), &id);
    let (after, outcome) = symbolize_profile(before.clone(), &mut sources(&folder)).unwrap();
    assert_eq!(names(&after, 0).last(), Some(&"outer"));
    let mapping = only(&outcome);
    assert_eq!((mapping.resolved_count(), mapping.unresolved_count()), (1, 0));
    assert_eq!(mapping.used[0].proof, Proof::Verified);
    assert_eq!(after.locations()[0].address, before.locations()[0].address);
    let flags = after.mappings()[0];
    assert!(flags.has_functions && flags.has_filenames && flags.has_line_numbers);
    let line = after.lines(LocationId(0))[0];
    assert!(after.string(after.function(line.function).filename).ends_with("inline.c") && line.line > 0);

    let (again, outcome) = symbolize_profile(after.clone(), &mut sources(&folder)).unwrap();
    assert_eq!(again, after);
    assert_eq!(only(&outcome).already, 1);
}

#[test]
fn a_path_that_is_not_proven_is_refused_and_wanted() {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", &FLAGS);
    let without = folder.compile("inline.c", "without", &["-O2", "-Wl,--build-id=none"]);
    let own = build_id(&folder, &program);
    for (file, id, reason) in [
        (&program, "", Reason::Unproven),
        (&without, own.as_str(), Reason::Unproven),
        (&program, "0123456789abcdef", Reason::BuildIdMismatch),
        (&folder.path("none"), own.as_str(), Reason::FileMissing),
        (&crate::programs::source("inline.c"), own.as_str(), Reason::NotElf),
    ] {
        let before = profile_of(&program, file.to_str().unwrap(), id);
        let (after, outcome) = symbolize_profile(before, &mut sources(&folder)).unwrap();
        let mapping = only(&outcome);
        assert!(names(&after, 0).is_empty());
        assert_eq!(mapping.unresolved, [(reason, 1)], "{}", file.display());
        assert_eq!(mapping.refused[0].reason, reason);
        let wanted = outcome.wanted();
        assert_eq!((wanted[0].filename.as_str(), wanted[0].build_id.as_str()), (file.to_str().unwrap(), id));
    }
}

#[test]
fn a_trusted_path_is_used_where_the_profile_has_no_build_id() {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", &FLAGS);
    let without = folder.compile("inline.c", "without", &["-O2", "-Wl,--build-id=none"]);
    let own = build_id(&folder, &program);
    for (file, id, proof) in [
        (&program, "", Some(Proof::Unverified)),
        (&program, own.as_str(), Some(Proof::Verified)),
        (&without, own.as_str(), None),
        (&program, "0123456789abcdef", None),
    ] {
        let before = profile_of(&program, file.to_str().unwrap(), id);
        let mut sources = Sources { paths: PathUse::Trusted, ..sources(&folder) };
        let (after, outcome) = symbolize_profile(before, &mut sources).unwrap();
        assert_eq!(names(&after, 0).contains(&"outer"), proof.is_some(), "{}", file.display());
        assert_eq!(only(&outcome).used.first().map(|used| used.proof), proof, "{}", file.display());
    }
}

#[test]
fn a_named_binary_is_used_unless_it_is_another_build() {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", &FLAGS);
    let id = build_id(&folder, &program);
    for role in [BinaryRole::Main, BinaryRole::SameName] {
        for (profile_id, proof) in [("", Some(Proof::Unverified)), (&id, Some(Proof::Verified)), ("00ff", None)] {
            let before = profile_of(&program, "/opt/elsewhere/program", profile_id);
            let mut sources = sources(&folder);
            sources.binaries = vec![Binary { path: program.clone(), role }];
            let (after, outcome) = symbolize_profile(before, &mut sources).unwrap();
            let mapping = only(&outcome);
            assert_eq!(mapping.used.first().map(|used| used.proof), proof, "{role:?} {profile_id}");
            assert_eq!(outcome.is_unverified(), proof == Some(Proof::Unverified));
            // Unverified build ids are not written into the profile.
            assert_eq!(after.string(after.mappings()[0].build_id), profile_id);
            if proof.is_none() {
                assert_eq!(mapping.unresolved, [(Reason::BuildIdMismatch, 1)]);
                assert_eq!(mapping.refused[0].build_id.as_ref().unwrap().to_string(), id);
            }
        }
    }
}

#[test]
fn a_named_binary_of_another_name_is_left_alone() {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", &FLAGS);
    let before = profile_of(&program, "/opt/elsewhere/other", "");
    let mut sources = sources(&folder);
    sources.binaries = vec![Binary { path: program.clone(), role: BinaryRole::SameName }];
    let (_, outcome) = symbolize_profile(before, &mut sources).unwrap();
    assert_eq!(only(&outcome).unresolved, [(Reason::FileMissing, 1)]);
}

#[test]
fn a_live_process_proves_its_files_even_replaced_ones() {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", &FLAGS);
    let id = build_id(&folder, &program);
    let running = Running::start(&program);
    let before = profile_of_running(&running, &program, &program);
    let other = folder.compile("inline.cpp", "other", &FLAGS);
    for replaced in [false, true] {
        if replaced {
            fs::rename(&other, &program).unwrap();
        }
        let mut sources = sources(&folder);
        sources.process = Some(running.identity());
        let (after, outcome) = symbolize_profile(before.clone(), &mut sources).unwrap();
        assert_eq!(names(&after, 0).last(), Some(&"outer"), "replaced: {replaced} {outcome:?}");
        assert_eq!(only(&outcome).used[0].proof, Proof::Verified);
        assert_eq!(after.string(after.mappings()[0].build_id), id);
    }
}

#[test]
fn a_restarted_process_proves_nothing() {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", &FLAGS);
    let running = Running::start(&program);
    let before = profile_of_running(&running, &program, &program);
    let mut identity = running.identity();
    identity.start_ticks += 1;
    let mut sources = sources(&folder);
    sources.process = Some(identity);
    let (_, outcome) = symbolize_profile(before, &mut sources).unwrap();
    assert_eq!(only(&outcome).unresolved, [(Reason::Unproven, 1)]);
    assert_eq!(outcome.process_error.unwrap(), format!("process {} is gone", identity.pid));
}

#[test]
fn what_has_no_file_has_a_reason() {
    let mappings = [
        (0x1000_0000, 0, "[vdso]", ""),
        (0x2000_0000, 0, "[vsyscall]", ""),
        (0x3000_0000, 0, "[kernel.kallsyms]", ""),
        (0x4000_0000, 0, "", ""),
        (0x5000_0000, 0, "/memfd:jit (deleted)", ""),
        (0x6000_0000, 0, "[jvm]", ""),
    ];
    let locations = [
        (Some(0), 0x1000_0001),
        (Some(1), 0x2000_0001),
        (Some(2), 0x3000_0001),
        (Some(3), 0x4000_0001),
        (Some(4), 0x5000_0001),
        (Some(5), 0x6000_0001),
        (None, 0x7000_0001),
        (None, 0xffff_ffff_8100_0000),
        (None, 0xffff_ffff_ff60_0400),
    ];
    let (_, outcome) = symbolize_profile(profile(&mappings, &locations), &mut Sources::default()).unwrap();
    let reasons: Vec<Reason> =
        outcome.mappings.iter().flat_map(|mapping| mapping.unresolved.iter().map(|(reason, _)| *reason)).collect();
    use Reason::{Kernel, NoFile, NoMapping, Vdso, Vsyscall};
    assert_eq!(reasons, [Vdso, Vsyscall, Kernel, NoFile, NoFile, NoFile, NoMapping, Kernel, Vsyscall]);
    assert_eq!(outcome.unresolved_count(), 9);
    assert!(outcome.wanted().is_empty());
}

#[test]
fn the_remote_page_names_what_files_do_not() {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", &FLAGS);
    let id = build_id(&folder, &program);
    let outer = START + offset_of(&program, "outer");
    let before = profile(
        &[(START, 0, program.to_str().unwrap(), &id), (0x1000, 0, "/gone/lib.so", "")],
        &[(Some(1), 0x1800), (Some(0), outer), (None, 0x900), (Some(1), 0x1700), (Some(1), 0x1800)],
    );
    let requested = RefCell::new(Vec::new());
    let mut sources = sources(&folder);
    sources.fetch = Some(Box::new(|addresses| {
        requested.borrow_mut().extend_from_slice(addresses);
        Ok(vec![(Addr(0x1800), "main--inlined_one".to_owned()), (Addr(0x900), "stray".to_owned())])
    }));
    let (after, outcome) = symbolize_profile(before, &mut sources).unwrap();
    drop(sources);
    assert_eq!(requested.into_inner(), [Addr(0x900), Addr(0x1700), Addr(0x1800)]);
    assert_eq!(names(&after, 0), ["inlined_one", "main"]);
    assert!(names(&after, 1).contains(&"outer"));
    assert_eq!(names(&after, 2), ["stray"]);
    let library = &outcome.mappings[1];
    assert_eq!((library.resolved.as_slice(), library.unresolved_count()), (&[(Source::SymbolPage, 1)][..], 1));
    assert!(after.mappings()[1].has_inline_frames);
}

#[test]
fn a_failing_remote_page_is_reported_and_costs_nothing_else() {
    let before = profile(&[(0x1000, 0, "/gone/lib.so", "")], &[(Some(0), 0x1800)]);
    let mut sources = Sources { fetch: Some(Box::new(|_| Err(io::Error::other("HTTP 500")))), ..Sources::default() };
    let (_, outcome) = symbolize_profile(before, &mut sources).unwrap();
    assert_eq!(outcome.failures, [Failure { source: Source::SymbolPage, what: "HTTP 500".to_owned() }]);
    assert_eq!(only(&outcome).unresolved, [(Reason::FileMissing, 1)]);
}

#[test]
fn addresses_must_be_call_sites() {
    let mut parts = profile(&[], &[(None, 1)]).into_parts();
    parts.addresses = Addresses::RawCpu;
    let result = symbolize_profile(parts.finish().unwrap(), &mut Sources::default());
    assert!(matches!(result, Err(Error::NotAdjusted)));
}

#[test]
fn odd_mappings_are_survived() {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", &FLAGS);
    let id = build_id(&folder, &program);
    let name: PathBuf = program.clone();
    let name = name.to_str().unwrap();
    for (start, offset, address) in
        [(0x1000, 0, 0x10), (0, u64::MAX, u64::MAX), (0, 0x1000_0000, 5), (u64::MAX - 0x100_0000, 0, u64::MAX)]
    {
        let before = profile(&[(start, offset, name, &id)], &[(Some(0), address)]);
        let (_, outcome) = symbolize_profile(before, &mut sources(&folder)).unwrap();
        assert_eq!(only(&outcome).unresolved, [(Reason::OutsideSegments, 1)]);
    }
}

#[test]
fn a_debug_file_in_place_of_its_binary_names_what_the_binary_does() {
    let folder = Folder::new();
    let program = folder.compile("inline.c", "program", &FLAGS);
    let id = build_id(&folder, &program);
    let debug = folder.keep_debug(&program, "program.debug");
    let outer = offset_of(&program, "outer");
    let code = fs::read(&program).map(|bytes| {
        let object = object::File::parse(&*bytes).unwrap();
        let code = object
            .segments()
            .map(|segment| (segment.file_range(), segment.address()))
            .find(|((start, size), _)| (*start..start + size).contains(&outer));
        code.unwrap()
    });
    let ((code_offset, _), code_address) = code.unwrap();
    let page = |number: u64| number - number % 4096;
    let image = page(code_address) - page(code_offset);
    // Its own mapping, as the kernel makes it, and one from the beginning of the image.
    for (start, offset) in [(START + page(code_offset), page(code_offset)), (START, 0)] {
        let distance = outer - offset + if offset == 0 { image } else { 0 };
        let before = profile(
            &[(start, offset, "/gone/program", &id)],
            &[(Some(0), start + distance), (Some(0), start + 0x50_0000)],
        );
        let mut sources = sources(&folder);
        sources.binaries = vec![Binary { path: debug.clone(), role: BinaryRole::Main }];
        let (after, outcome) = symbolize_profile(before, &mut sources).unwrap();
        assert!(names(&after, 0).contains(&"outer"), "{:?}", names(&after, 0));
        assert_eq!(only(&outcome).used[0].proof, Proof::Verified);
        assert_eq!(only(&outcome).unresolved, [(Reason::OutsideSegments, 1)]);
    }
}

#[test]
fn names_that_a_profile_came_with_are_demangled() {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let names = ["_ZN4shop5Store4findERKi", "_RNvC6_123foo3bar", "a@b", "-[A b]", "main"];
    for name in names {
        let frame = builder.frame(name);
        builder.sample(&[frame], &[1], &[]);
    }
    let profile = builder.finish().unwrap();
    let names_of = |profile: &Profile| -> Vec<String> {
        profile.functions().iter().map(|function| profile.string(function.name).to_owned()).collect()
    };
    let (full, _) = symbolize_profile(profile, &mut Sources::default()).unwrap();
    assert_eq!(names_of(&full), ["shop::Store::find(int const&)", "123foo::bar", "a@b", "-[A b]", "main"]);
    let short = style_names(full.clone(), NameStyle::WithoutParameters).unwrap();
    assert_eq!(names_of(&short)[..2], ["shop::Store::find", "123foo::bar"]);
    assert_eq!(names_of(&style_names(short.clone(), NameStyle::Mangled).unwrap()), names);
    assert_eq!(names_of(&style_names(short, NameStyle::Full).unwrap()), names_of(&full));
}
