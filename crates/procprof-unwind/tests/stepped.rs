//! At every instruction of a real program our stack is the true one: that of its calls and signals, and framehop's where framehop has it.

use crate::modules::Module;
use crate::programs::Program;
use crate::tracee::Tracee;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Unwinder};
use procprof_unwind::{Architecture, Cache, Code, End, Lost, Space, Stack, Walker};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

const MOST_FRAMES: usize = 100;

/// A traced process's memory as a stack.
struct Memory<'a>(&'a Tracee);

impl Stack for Memory<'_> {
    fn read(&self, address: u64) -> Option<u64> {
        self.0.word(address)
    }

    fn switch(&mut self, _: u64) -> bool {
        true
    }
}

/// The modules of a process, for both unwinders.
struct Loaded {
    files: Vec<(PathBuf, u64, std::ops::Range<u64>)>,
    space: Space,
    framehop: UnwinderX86_64<Vec<u8>>,
}

fn load(tracee: &Tracee) -> Loaded {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", tracee.pid())).unwrap();
    let mut files: BTreeMap<PathBuf, std::ops::Range<u64>> = BTreeMap::new();
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let Some(path) = fields.get(5).filter(|path| path.starts_with('/') || **path == "[vdso]") else { continue };
        let (start, end) = fields[0].split_once('-').unwrap();
        let (start, end) = (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
        files.entry(path.into()).and_modify(|range| range.end = end).or_insert(start..end);
    }
    let (mut code, mut framehop) = (Vec::new(), UnwinderX86_64::new());
    for (path, range) in &files {
        let module = if path.starts_with("/") { Module::read(path) } else { Module::parse(&tracee.copy(range.clone())) };
        let bias = range.start - module.span.start / 4096 * 4096;
        let source = module.source(Architecture::X86_64);
        let table = Arc::new(module.table(&source));
        code.push(Code { range: range.clone(), bias, table: Some(table) });
        let svma = |section: &(u64, Vec<u8>)| section.0..section.0 + section.1.len() as u64;
        let info = ExplicitModuleSectionInfo {
            base_svma: range.start - bias,
            text_svma: Some(svma(&module.text)),
            text: Some(module.text.1.clone()),
            eh_frame_svma: Some(svma(&module.eh_frame)),
            eh_frame: Some(module.eh_frame.1.clone()),
            eh_frame_hdr_svma: Some(svma(&module.eh_frame_hdr)),
            eh_frame_hdr: Some(module.eh_frame_hdr.1.clone()),
            ..Default::default()
        };
        framehop.add_module(framehop::Module::new(path.display().to_string(), range.clone(), range.start, info));
    }
    let files = files.into_iter().zip(&code).map(|((path, range), code)| (path, code.bias, range)).collect();
    Loaded { files, space: Space::new(code, 1), framehop }
}

impl Loaded {
    fn ours(&self, tracee: &Tracee, cache: &Cache) -> (Vec<u64>, End) {
        let mut addresses = Vec::new();
        let walker = Walker { architecture: Architecture::X86_64, space: &self.space, cache };
        let end = walker.walk(
            tracee.frame(),
            |number| tracee.register(number),
            &mut Memory(tracee),
            |address| {
                addresses.push(address);
                addresses.len() < MOST_FRAMES
            },
        );
        (addresses, end)
    }

    fn framehops(&self, tracee: &Tracee, cache: &mut CacheX86_64) -> Vec<u64> {
        let frame = tracee.frame();
        let mut read = |address| tracee.word(address).ok_or(());
        let registers = UnwindRegsX86_64::new(frame.pc, frame.sp, frame.fp);
        let mut frames = self.framehop.iter_frames(frame.pc, registers, cache, &mut read);
        let mut addresses = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            addresses.push(match frame {
                FrameAddress::InstructionPointer(address) => address,
                FrameAddress::ReturnAddress(address) => address.get(),
            });
            if addresses.len() >= MOST_FRAMES {
                break;
            }
        }
        addresses
    }

    /// `file+0x…` of an address.
    fn name(&self, address: u64) -> String {
        let file = self.files.iter().find(|(_, _, range)| range.contains(&address));
        file.map_or_else(|| format!("{address:#x}"), |(path, bias, _)| format!("{}+{:#x}", path.display(), address - bias))
    }
}

/// What stepping through a program found.
#[derive(Debug, Default)]
struct Outcome {
    steps: usize,
    framehop_wrong: usize,
    /// Stacks that end early and are right so far: a rule is not followed, or there is none.
    cut: usize,
    /// Places where our stack was not the true one, with how often.
    wrong: BTreeMap<String, usize>,
}

fn run(program: &Program, environment: &[(&str, &str)]) -> Outcome {
    let mut tracee = Tracee::start(program.path(), environment);
    let loaded = load(&tracee);
    let (cache, mut framehop_cache) = (Cache::new(), CacheX86_64::new());
    let (base, end) = loaded.ours(&tracee, &cache);
    assert!(end == End::Root && base.len() >= 3, "{base:x?} {end:?}");
    tracee.base = base[1..].to_vec();
    let mut outcome = Outcome::default();
    while tracee.step() {
        outcome.steps += 1;
        let truth = tracee.stack();
        let (ours, end) = loaded.ours(&tracee, &cache);
        let framehops = loaded.framehops(&tracee, &mut framehop_cache);
        outcome.framehop_wrong += usize::from(framehops != truth);
        if matches!(end, End::Lost(Lost::Unsupported | Lost::NoFramePointer)) && truth.starts_with(&ours) {
            outcome.cut += 1;
        } else if ours != truth || end != End::Root {
            if outcome.wrong.is_empty() {
                let name = |addresses: &[u64]| addresses.iter().map(|address| loaded.name(*address)).collect::<Vec<_>>().join("\n  ");
                println!("{end:?}\nours:\n  {}\ntruth:\n  {}\nframehop:\n  {}", name(&ours), name(&truth), name(&framehops));
            }
            *outcome.wrong.entry(loaded.name(ours[0])).or_default() += 1;
        }
    }
    println!("{}: {outcome:?}", program.path().display());
    outcome
}

fn build(name: &str, options: &[&str]) -> Program {
    Program::build(name, "gcc", &[options, &["-fexceptions"]].concat(), &["shapes.c", "frames.s"])
}

/// Steps through a program that binds its symbols at the start: every stack must be right.
fn check(name: &str, options: &[&str]) {
    let outcome = run(&build(name, options), &[("LD_BIND_NOW", "1")]);
    assert!(outcome.steps > 3000 && outcome.cut == 0, "{outcome:?}");
    assert!(outcome.wrong.is_empty(), "{outcome:?}");
}

#[test]
fn optimized() {
    check("stepped-O2", &["-O2"]);
}

#[test]
fn unoptimized() {
    check("stepped-O0", &["-O0"]);
}

#[test]
fn with_frame_pointers() {
    check("stepped-frame-pointers", &["-O3", "-fno-omit-frame-pointer"]);
}

#[test]
fn rust_as_it_is_released() {
    let program = Program::build("stepped-rust", "rustc", &["--edition=2024", "-Copt-level=3"], &["shapes.rs"]);
    let outcome = run(&program, &[]);
    assert!(outcome.steps > 3000 && outcome.cut == 0 && outcome.wrong.is_empty(), "{outcome:?}");
}

#[test]
fn rust_with_frame_pointers() {
    let options = ["--edition=2024", "-Copt-level=1", "-Cforce-frame-pointers=yes"];
    let outcome = run(&Program::build("stepped-rust-frame-pointers", "rustc", &options, &["shapes.rs"]), &[]);
    assert!(outcome.steps > 3000 && outcome.cut == 0 && outcome.wrong.is_empty(), "{outcome:?}");
}

/// A static program's stubs for functions chosen at the start (`.iplt`) have no entries: only in them stacks end early or lack a caller.
#[test]
fn small_and_static() {
    let outcome = run(&build("stepped-static", &["-Os", "-static"]), &[]);
    let wrong: usize = outcome.wrong.values().sum();
    assert!(outcome.steps > 3000 && (outcome.cut + wrong) * 100 < outcome.steps, "{outcome:?}");
}

/// gcc's entries of realigned functions still say that the frame pointer is on the stack when their last instructions have restored it.
#[test]
fn with_realigned_stacks() {
    let outcome = run(&build("stepped-realigned", &["-O2", "-mstackrealign", "-mavx"]), &[("LD_BIND_NOW", "1")]);
    let wrong: usize = outcome.wrong.values().sum();
    assert!(outcome.steps > 3000 && outcome.cut == 0 && wrong * 1000 < outcome.steps, "{outcome:?}");
}

/// glibc's symbol resolver keeps its frame in rbx, which is not followed: there, and in what it calls, stacks end early, but are not wrong.
#[test]
fn lazily_bound() {
    let outcome = run(&build("stepped-lazy", &["-O1", "-Wl,-z,lazy"]), &[]);
    assert!(outcome.cut > 0 && outcome.wrong.is_empty(), "{outcome:?}");
}
