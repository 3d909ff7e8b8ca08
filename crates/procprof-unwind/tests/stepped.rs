//! At every instruction of a real program, the unwound stack is the true one: that of its calls and signals, and
//! framehop's where framehop has it.

use crate::mapped::Mapped;
use crate::programs::Program;
use crate::tracee::Tracee;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64};
use framehop::{FrameAddress, Unwinder};
use procprof_unwind::{Architecture, Cache, End, Lost, NoCaller, Registers, Source, Space, Stack, Walker};
use std::collections::BTreeMap;

const MOST_FRAMES: usize = 100;
/// Steps between two stacks by all rules, besides those that compact rules don't lead to the root.
const FULL_INTERVAL: usize = 8;

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
    mapped: Mapped,
    space: Space,
}

fn load(tracee: &Tracee) -> Loaded {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", tracee.pid())).unwrap();
    let mapped = Mapped::read(&maps, |range| tracee.copy(range));
    let space = Space::new(mapped.code.clone(), 1);
    Loaded { mapped, space }
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

    /// The stack by all rules of the entries.
    fn full(&self, tracee: &Tracee, sources: &[Source<'_>]) -> (Vec<u64>, Option<NoCaller>) {
        let frame = tracee.frame();
        let mut registers = Registers::new(frame.pc, false);
        (0..16).for_each(|number| registers.set(number.into(), tracee.register(number)));
        let mut addresses = vec![frame.pc];
        while addresses.len() < MOST_FRAMES {
            let modules = self.mapped.code.iter().zip(sources);
            let found = modules.into_iter().find(|(code, _)| code.range.contains(&registers.lookup()));
            let Some((code, source)) = found else { return (addresses, Some(NoCaller::NoEntry)) };
            match source.caller(&registers, code.bias, &mut |address| tracee.word(address)) {
                Ok(caller) => registers = caller.registers,
                Err(end) => return (addresses, Some(end)),
            }
            addresses.push(registers.pc);
        }
        (addresses, None)
    }

    fn framehops(&self, tracee: &Tracee, cache: &mut CacheX86_64) -> Vec<u64> {
        let frame = tracee.frame();
        let mut read = |address| tracee.word(address).ok_or(());
        let registers = UnwindRegsX86_64::new(frame.pc, frame.sp, frame.fp);
        let mut frames = self.mapped.framehop.iter_frames(frame.pc, registers, cache, &mut read);
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
        let found = self.mapped.files.iter().zip(&self.mapped.code).find(|((_, range), _)| range.contains(&address));
        found.map_or_else(
            || format!("{address:#x}"),
            |((path, _), code)| format!("{}+{:#x}", path.display(), address - code.bias),
        )
    }
}

/// The result of stepping through a program.
#[derive(Debug, Default)]
struct Outcome {
    steps: usize,
    framehop_wrong: usize,
    /// Places where the stack by all rules was not the true one, with counts; but for those where there is no entry.
    full_wrong: BTreeMap<String, usize>,
    /// Stacks that end early and are right so far: a rule is not followed, or there is none.
    cut: usize,
    /// Places where the unwound stack was not the true one, with counts.
    wrong: BTreeMap<String, usize>,
}

fn run(program: &Program, environment: &[(&str, &str)]) -> Outcome {
    let mut tracee = Tracee::start(program.path(), environment);
    let loaded = load(&tracee);
    let (cache, mut framehop_cache) = (Cache::new(), CacheX86_64::new());
    let (base, end) = loaded.ours(&tracee, &cache);
    assert!(end == End::Root && base.len() >= 3, "{base:x?} {end:?}");
    tracee.base = base[1..].to_vec();
    let sources: Vec<Source<'_>> = loaded.mapped.modules.iter().map(|module| module.source()).collect();
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
                let name = |addresses: &[u64]| {
                    addresses.iter().map(|address| loaded.name(*address)).collect::<Vec<_>>().join("\n  ")
                };
                println!(
                    "{end:?}\nours:\n  {}\ntruth:\n  {}\nframehop:\n  {}",
                    name(&ours),
                    name(&truth),
                    name(&framehops)
                );
            }
            *outcome.wrong.entry(loaded.name(ours[0])).or_default() += 1;
        }
        if outcome.steps % FULL_INTERVAL != 0 && matches!(end, End::Root) {
            continue;
        }
        let (full, full_end) = loaded.full(&tracee, &sources);
        let is_right = full_end == Some(NoCaller::Root) && full == truth;
        if !is_right && full_end != Some(NoCaller::NoEntry) {
            *outcome.full_wrong.entry(format!("{} {full_end:?}", loaded.name(full[0]))).or_default() += 1;
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
    assert!(outcome.wrong.is_empty() && outcome.full_wrong.is_empty(), "{outcome:?}");
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
    assert!(outcome.steps > 3000 && outcome.cut == 0, "{outcome:?}");
    assert!(outcome.wrong.is_empty() && outcome.full_wrong.is_empty(), "{outcome:?}");
}

#[test]
fn rust_with_frame_pointers() {
    let options = ["--edition=2024", "-Copt-level=1", "-Cforce-frame-pointers=yes"];
    let outcome = run(&Program::build("stepped-rust-frame-pointers", "rustc", &options, &["shapes.rs"]), &[]);
    assert!(outcome.steps > 3000 && outcome.cut == 0, "{outcome:?}");
    assert!(outcome.wrong.is_empty() && outcome.full_wrong.is_empty(), "{outcome:?}");
}

/// A static program's stubs for functions chosen at the start (`.iplt`) have no entries: only in them stacks end early
/// or lack a caller.
#[test]
fn small_and_static() {
    let outcome = run(&build("stepped-static", &["-Os", "-static"]), &[]);
    let wrong: usize = outcome.wrong.values().sum();
    assert!(outcome.steps > 3000 && (outcome.cut + wrong) * 100 < outcome.steps, "{outcome:?}");
}

/// gcc's entries of realigned functions still declare the frame pointer on the stack when their last instructions have
/// restored it.
#[test]
fn with_realigned_stacks() {
    let outcome = run(&build("stepped-realigned", &["-O2", "-mstackrealign", "-mavx"]), &[("LD_BIND_NOW", "1")]);
    let wrong: usize = outcome.wrong.values().sum();
    assert!(outcome.steps > 3000 && outcome.cut == 0 && wrong * 1000 < outcome.steps, "{outcome:?}");
}

/// glibc's symbol resolver keeps its frame in rbx, which compact rules do not follow: there, and in what it calls, their
/// stacks end early, but are not wrong.
#[test]
fn lazily_bound() {
    let outcome = run(&build("stepped-lazy", &["-O1", "-Wl,-z,lazy"]), &[]);
    assert!(outcome.cut > 0 && outcome.wrong.is_empty() && outcome.full_wrong.is_empty(), "{outcome:?}");
}
