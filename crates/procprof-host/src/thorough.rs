//! A stack that compact rules don't follow to its root: by all that its tables state, by the memory of the process
//! where the copy of the stack ends, and by epilogues and frame pointers in code without tables.
//!
//! A caller counts only if its stack pointer rises and a call precedes its return address.

use std::cell::RefCell;

use procprof_profile::perf_event::{AddressSpace, MappedCode, Sample};
use procprof_unwind::{
    Architecture, Cache, Call, Epilogue, Frame, Lost, NoCaller, Packed, Registers, Rule, Space, StackCopy, Step,
    returns_from_signal, step,
};

use crate::ending::{Ending, MAX_FRAMES};
use crate::images::Images;
use crate::live_memory::{Failure, ProcessMemory, SampledStack};
use crate::registers::{self, UNKNOWN_FRAME_POINTER};
use crate::walk::Walked;

/// Signal frames followed in one stack; more is a loop in overwritten memory.
const MAX_SIGNALS: u32 = 8;

/// An unwound stack, besides its addresses.
#[derive(Debug)]
pub(crate) struct Unwound {
    pub(crate) ending: Ending,
    /// Whether callers were found by frame pointers alone, or by a word in the place of an overwritten one.
    pub(crate) is_guessed: bool,
    /// Whether callers were found by memory that was read after the sample.
    pub(crate) is_completed: bool,
    /// Why memory that the copy lacks could not be read.
    pub(crate) failure: Option<Failure>,
}

/// The code of a process.
#[derive(Debug)]
pub(crate) struct Unwinder<'w> {
    pub(crate) architecture: Architecture,
    pub(crate) space: &'w Space,
    pub(crate) cache: &'w Cache,
    pub(crate) code: &'w AddressSpace,
    pub(crate) images: &'w mut Images,
}

impl Unwinder<'_> {
    /// Takes a walk by compact rules if it reached the root and each caller is sure; else walks again, and replaces
    /// `addresses`.
    pub(crate) fn complete(
        mut self,
        walked: Walked,
        mut memory: Option<&mut ProcessMemory>,
        sample: &Sample<'_>,
        addresses: &mut Vec<u64>,
    ) -> Unwound {
        let mut unwound = Unwound {
            ending: walked.ending,
            is_guessed: false,
            is_completed: walked.read == Some(Ok(())),
            failure: walked.read.and_then(Result::err),
        };
        if walked.is_crossed {
            return unwound;
        }
        let registers = sample.registers.as_ref().and_then(|found| registers::all(self.architecture, found));
        let Some((registers, start)) = registers.and_then(|all| Some((all, all.sp(self.architecture)?))) else {
            return unwound;
        };
        let copy = StackCopy { start, bytes: sample.stack };
        let is_whole = matches!(walked.ending, Ending::Root | Ending::Deep);
        let process = memory.as_deref_mut().map(|memory| (sample.pid, memory));
        if is_whole && self.is_sure(addresses, &walked.interrupted, SampledStack::new(copy, process)) {
            return unwound;
        }
        for follows_all in [false, true] {
            let process = memory.as_deref_mut().map(|memory| (sample.pid, memory));
            let stack = SampledStack::new(copy, process);
            let mut thorough =
                Thorough { unwinder: &mut self, stack, follows_all, is_guessed: false, is_completed: false };
            let (ending, last) = thorough.walk(registers, addresses);
            let Thorough { stack, is_guessed, is_completed, .. } = thorough;
            let (bytes, fp) = (sample.stack.len() as u64, last.fp(self.architecture).unwrap_or(UNKNOWN_FRAME_POINTER));
            unwound = Unwound {
                ending: match ending {
                    Ending::Lost(lost) => Ending::without_caller(lost, fp, bytes, sample.stack_limit, start),
                    ending => ending,
                },
                is_guessed,
                is_completed,
                failure: stack.failure,
            };
            if unwound.ending != Ending::Lost(Lost::Unsupported) {
                break;
            }
        }
        unwound
    }

    /// Whether all code has tables, and each return address follows a call.
    fn is_sure(&mut self, addresses: &[u64], interrupted: &[usize], mut stack: SampledStack<'_>) -> bool {
        addresses.iter().enumerate().all(|(place, address)| {
            let rule = self.cache.rule(self.space, *address).map(|rule| rule.rule());
            let has_table = !matches!(rule, None | Some(Rule::Unknown | Rule::Pending));
            let is_exact = rule == Some(Rule::Signal) || interrupted.contains(&place);
            has_table && (is_exact || self.is_return_address(address.wrapping_add(1), &mut stack))
        })
    }

    /// Whether a thread may return to an address.
    fn is_return_address(&mut self, address: u64, stack: &mut SampledStack<'_>) -> bool {
        let Some(mapped) = self.code.find(address.wrapping_sub(1)) else { return false };
        self.images.is_return_address(mapped, address, |address, into| stack.read_code(address, into))
    }
}

/// The inputs of a walk, and what it found besides addresses.
#[derive(Debug)]
struct Thorough<'t, 'w, 's> {
    unwinder: &'t mut Unwinder<'w>,
    stack: SampledStack<'s>,
    /// Whether all registers are followed from frame to frame, which takes longer.
    follows_all: bool,
    is_guessed: bool,
    is_completed: bool,
}

impl Thorough<'_, '_, '_> {
    /// Replaces `addresses` by those of the stack, leaf first; of callers that of the call. With the ending comes the
    /// frame whose caller can't be found.
    pub(crate) fn walk(&mut self, interrupted: Registers, addresses: &mut Vec<u64>) -> (Ending, Registers) {
        addresses.clear();
        addresses.push(interrupted.pc);
        let (mut frame, mut signals) = (interrupted, 0);
        loop {
            let caller = match self.caller(&frame) {
                Ok(caller) => caller,
                Err(NoCaller::Root) => return (Ending::Root, frame),
                Err(NoCaller::NoEntry) => return (Ending::Lost(Lost::NoFramePointer), frame),
                Err(NoCaller::Lost(lost)) => return (Ending::Lost(lost), frame),
            };
            if !caller.is_return {
                signals += 1;
                let sp = caller.sp(self.unwinder.architecture).unwrap_or(0);
                if signals > MAX_SIGNALS || !self.stack.switch(sp) {
                    return (Ending::Lost(Lost::OutsideStack), frame);
                }
            }
            self.is_completed |= self.stack.is_completed;
            // What a handler returns to was never called: its first instruction is meant.
            addresses.push(if self.is_signal_frame(&caller) { caller.pc } else { caller.lookup() });
            if addresses.len() >= MAX_FRAMES {
                return (Ending::Deep, frame);
            }
            frame = caller;
        }
    }

    fn caller(&mut self, frame: &Registers) -> Result<Registers, NoCaller> {
        let caller = self.checked_caller(frame);
        match caller {
            Err(NoCaller::Lost(_)) if !frame.is_return && self.stack.has_read_below() => {
                self.caller_by_pointer(frame).map_or(caller, Ok)
            }
            _ => caller,
        }
    }

    fn checked_caller(&mut self, frame: &Registers) -> Result<Registers, NoCaller> {
        let caller = match self.rule(frame.lookup()) {
            Some(packed) => match packed.rule() {
                rule if rule != Rule::Signal && self.is_signal_frame(frame) => {
                    self.by_compact_rule(frame, Packed::new(Rule::Signal))
                }
                Rule::Root => Err(NoCaller::Root),
                Rule::Unknown | Rule::Pending => self.without_table(frame),
                Rule::Unsupported | Rule::Signal | Rule::Frame { .. } => self.by_table(frame, packed),
            },
            None => self.without_table(frame),
        }?;
        self.check(frame, &caller)?;
        Ok(caller)
    }

    /// The caller by a rule that needs a word below the stack pointer, which has been overwritten since the sample. The
    /// code has copied that word from a place above, where it still is: the only one with which the rule leads to a
    /// return address.
    fn caller_by_pointer(&mut self, frame: &Registers) -> Option<Registers> {
        let mut found: Option<Registers> = None;
        for pointer in self.stack.pointers() {
            self.stack.substitute(pointer);
            let Ok(caller) = self.checked_caller(frame) else { continue };
            if found.is_some_and(|found| found != caller) {
                return None;
            }
            found = Some(caller);
        }
        self.is_guessed |= found.is_some();
        found
    }

    /// Whether a frame is what the handler of a signal returns to: by its table, or where it has none by its code.
    fn is_signal_frame(&mut self, frame: &Registers) -> bool {
        if !frame.is_return {
            return false;
        }
        match self.rule(frame.lookup()).map(|rule| rule.rule()) {
            Some(Rule::Signal) => true,
            // The byte before may be that of a function with a table.
            Some(Rule::Unknown) => self.returns_from_signal(frame.pc),
            Some(_) => {
                self.rule(frame.pc).is_some_and(|rule| rule.rule() == Rule::Unknown)
                    && self.returns_from_signal(frame.pc)
            }
            None => false,
        }
    }

    fn returns_from_signal(&mut self, address: u64) -> bool {
        let Some(mapped) = self.unwinder.code.find(address) else { return false };
        let stack = &mut self.stack;
        let code = self.unwinder.images.code_around(mapped, address, |address, into| stack.read_code(address, into));
        code.is_some_and(|code| returns_from_signal(self.unwinder.architecture, code.behind()))
    }

    /// The compact rule at an address, compiled if it was not.
    fn rule(&mut self, address: u64) -> Option<Packed> {
        let rule = self.unwinder.cache.rule(self.unwinder.space, address)?;
        match self.unwinder.code.find(address) {
            Some(mapped) if rule.rule() == Rule::Pending && self.unwinder.images.compile_wanted(mapped.image) => {
                self.unwinder.cache.rule(self.unwinder.space, address)
            }
            _ => Some(rule),
        }
    }

    /// The caller by the compact rule, or by all that the entry states where that does not tell.
    fn by_table(&mut self, frame: &Registers, rule: Packed) -> Result<Registers, NoCaller> {
        if !self.follows_all {
            let found = self.by_compact_rule(frame, rule);
            if found != Err(NoCaller::Lost(Lost::Unsupported)) {
                return found;
            }
        }
        let unsupported = NoCaller::Lost(Lost::Unsupported);
        let mapped = self.unwinder.code.find(frame.lookup()).ok_or(unsupported)?;
        let stack = &mut self.stack;
        let found = self.unwinder.images.with_source(mapped, frame.lookup(), |source, bias| {
            source.caller(frame, bias, &mut |address| stack.read(address))
        });
        match found {
            Some(found) => found.map(|caller| caller.registers),
            None => self.by_compact_rule(frame, rule),
        }
    }

    fn by_compact_rule(&mut self, registers: &Registers, rule: Packed) -> Result<Registers, NoCaller> {
        let stack = RefCell::new(&mut self.stack);
        let read = |address| stack.borrow_mut().read(address);
        let register = |number: u8| registers.get(number.into());
        let frame = frame(self.unwinder.architecture, registers).ok_or(NoCaller::Lost(Lost::Unsupported))?;
        match step(self.unwinder.architecture, &frame, rule, read, register) {
            Step::Caller(caller) => Ok(from_frame(self.unwinder.architecture, &caller)),
            Step::Root => Err(self.zero_return_address()),
            Step::Lost(lost) => Err(NoCaller::Lost(lost)),
        }
    }

    /// A return address of zero is that of a thread's first frame, unless it was read later: pages that nothing has
    /// touched read as zeros.
    fn zero_return_address(&self) -> NoCaller {
        if self.stack.is_completed { NoCaller::Lost(Lost::OutsideStack) } else { NoCaller::Root }
    }

    /// The caller of code without tables: where its next instructions return, by these; else by the frame pointer.
    fn without_table(&mut self, frame: &Registers) -> Result<Registers, NoCaller> {
        let lost = |lost| NoCaller::Lost(lost);
        let sp = frame.sp(self.unwinder.architecture).ok_or(lost(Lost::Unsupported))?;
        if let Some(epilogue) = self.epilogue(frame) {
            let mut word = |offset: u64| self.stack.read(sp.wrapping_add(offset)).ok_or(lost(Lost::OutsideStack));
            let pc = word(epilogue.return_address)?;
            let fp = match epilogue.frame_pointer {
                Some(offset) => Some(word(offset)?),
                None => frame.fp(self.unwinder.architecture),
            };
            let caller_sp = sp.wrapping_add(epilogue.return_address).wrapping_add(8);
            return Ok(frame.caller(self.unwinder.architecture, pc, caller_sp, fp));
        }
        self.is_guessed = true;
        self.by_compact_rule(frame, Packed::default())
    }

    fn epilogue(&mut self, frame: &Registers) -> Option<Epilogue> {
        let mapped = self.unwinder.code.find(frame.lookup())?;
        let stack = &mut self.stack;
        let code =
            self.unwinder.images.code_around(mapped, frame.pc, |address, into| stack.read_code(address, into))?;
        Epilogue::parse(self.unwinder.architecture, code.behind())
    }

    /// Whether a caller counts.
    fn check(&mut self, frame: &Registers, caller: &Registers) -> Result<(), NoCaller> {
        let lost = |lost| Err(NoCaller::Lost(lost));
        if caller.pc == 0 {
            return Err(self.zero_return_address());
        }
        let (sp, caller_sp) = (frame.sp(self.unwinder.architecture), caller.sp(self.unwinder.architecture));
        // A function that has not pushed anything, or has popped its return address, has its caller's stack pointer.
        let rises = caller_sp > sp || (caller_sp == sp && !frame.is_return) || !caller.is_return;
        if !rises {
            return lost(Lost::NotRising);
        }
        let Some(mapped) = self.unwinder.code.find(caller.lookup()) else { return lost(Lost::NotCode) };
        if !caller.is_return || self.is_signal_frame(caller) {
            return Ok(());
        }
        if !self.unwinder.is_return_address(caller.pc, &mut self.stack) {
            return lost(Lost::NotCode);
        }
        if self.stack.is_unproven() {
            if !self.calls(mapped, caller.pc, frame) {
                self.stack.fail(Failure::Late);
                return lost(Lost::OutsideStack);
            }
            self.stack.prove();
        }
        Ok(())
    }

    /// Whether the call before a return address is one of the function of a frame.
    fn calls(&mut self, mapped: &MappedCode, return_address: u64, frame: &Registers) -> bool {
        let stack = &mut self.stack;
        let code =
            self.unwinder.images.code_around(mapped, return_address, |address, into| stack.read_code(address, into));
        let Some(Call::Direct(distance)) = code.and_then(|code| code.call(self.unwinder.architecture)) else {
            return false;
        };
        let lookup = frame.lookup();
        let function = self.unwinder.code.find(lookup).and_then(|mapped| {
            self.unwinder.images.with_source(mapped, lookup, |source, bias| {
                source.function(lookup.wrapping_sub(bias)).map(|function| function.start.wrapping_add(bias))
            })
        });
        function.flatten() == Some(return_address.wrapping_add_signed(distance))
    }
}

/// The frame that compact rules step from.
fn frame(architecture: Architecture, registers: &Registers) -> Option<Frame> {
    let lr = match architecture {
        Architecture::Aarch64 if !registers.is_return => registers.get(30).unwrap_or(0),
        _ => 0,
    };
    let fp = registers.fp(architecture).unwrap_or(UNKNOWN_FRAME_POINTER);
    Some(Frame { pc: registers.pc, sp: registers.sp(architecture)?, fp, lr, is_return: registers.is_return })
}

fn from_frame(architecture: Architecture, frame: &Frame) -> Registers {
    let fp = Some(frame.fp).filter(|fp| *fp != UNKNOWN_FRAME_POINTER);
    let mut registers = Registers::new(frame.pc, true).caller(architecture, frame.pc, frame.sp, fp);
    registers.is_return = frame.is_return;
    if architecture == Architecture::Aarch64 && !frame.is_return {
        registers.set(30, Some(frame.lr));
    }
    registers
}
