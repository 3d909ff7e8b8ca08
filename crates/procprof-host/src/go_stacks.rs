//! Go's change of stacks: from that of a thread, on which the runtime, C and signal handlers run, to the goroutine's.
//!
//! The copy that a sample has is of the stack in use. Of the other one the kernel has followed the frame pointers when
//! it took the sample, which Go's functions keep across the change, and written the return addresses. These count only
//! if all up to that at the change are in the walk, too, in this order, and only as far as they are code of Go.
//!
//! Where C code between has used the frame pointer for data, and where the runtime grows a stack, the goroutine's stack
//! is read from the process, later than the sample. It counts only if the frame at the change is there: of a call of C,
//! the return address is behind a call of the function that changes the stack, and that function was to call the C
//! function of the sample; of a growing stack, the return address is what the runtime has noted.
//!
//! Source: `runtime/traceback.go`, `runtime/stack.go`, `runtime/asm_amd64.s` of Go.

mod growth;

use std::ops::Range;

use procprof_profile::perf_event::{AddressSpace, CONTEXT_MAX, CONTEXT_USER, ImageId, Sample};
use procprof_unwind::{Code, End, Frame, Lost, Stack, StackCopy, Walker};

use crate::ending::{Ending, MAX_FRAMES};
use crate::images::{Images, StackRole};
use crate::live_memory::{Failure, ProcessMemory};

/// The kernel writes at most so many frames, those of its own code included, unless it is set otherwise.
const CHAIN_MAX: usize = 127;

/// Most bytes of a goroutine's stack that are read.
const STACK_BYTES: usize = 64 << 10;

/// A direct call and direct jumps of x86-64: this and the distance, of four bytes and of one.
const CALL: u8 = 0xe8;
const JUMP: u8 = 0xe9;
const SHORT_JUMP: u8 = 0xeb;

/// The code of Go in a process.
#[derive(Debug, Default)]
pub(crate) struct GoStacks {
    text: Vec<GoText>,
    roles: Vec<(Range<u64>, StackRole)>,
}

/// Mapped code of Go.
#[derive(Debug)]
struct GoText {
    range: Range<u64>,
    /// A process address minus this is one of the file.
    bias: u64,
    image: ImageId,
}

impl GoStacks {
    /// The code of Go in an address space whose images were opened.
    pub(crate) fn new(space: &AddressSpace, code: &[Code], images: &Images) -> Self {
        let mut stacks = Self::default();
        for (mapped, code) in space.code().iter().zip(code) {
            let Some(go) = images.go_code(mapped.image) else { continue };
            let placed = |range: &Range<u64>| {
                let place = |address: u64| address.wrapping_add(code.bias);
                place(range.start).max(code.range.start)..place(range.end).min(code.range.end)
            };
            stacks.text.push(GoText { range: placed(&go.text), bias: code.bias, image: mapped.image });
            stacks.roles.extend(go.roles.iter().map(|(range, role)| (placed(range), *role)));
        }
        stacks.roles.retain(|(range, _)| !range.is_empty());
        stacks.roles.sort_by_key(|(range, _)| range.start);
        stacks
    }

    fn role(&self, address: u64) -> Option<(&Range<u64>, StackRole)> {
        let before = self.roles.partition_point(|(range, _)| range.start <= address).checked_sub(1)?;
        self.roles.get(before).filter(|(range, _)| range.contains(&address)).map(|(range, role)| (range, *role))
    }

    fn is_top(&self, address: u64) -> bool {
        matches!(self.role(address), Some((_, StackRole::Top)))
    }

    /// Whether an address is in a function to which nothing returns behind a call.
    pub(crate) fn is_called_back(&self, address: u64) -> bool {
        matches!(self.role(address), Some((_, StackRole::CalledBack)))
    }

    fn text_of(&self, address: u64) -> Option<&GoText> {
        self.text.iter().find(|text| text.range.contains(&address))
    }

    fn is_go(&self, address: u64) -> bool {
        self.text_of(address).is_some()
    }
}

/// A walk that has come to its end, perhaps where Go changes the stack.
#[derive(Debug)]
pub(crate) struct Crossing<'a> {
    pub(crate) go: &'a GoStacks,
    pub(crate) images: &'a mut Images,
    pub(crate) walker: Walker<'a>,
    /// The memory of the process, if it can still be read.
    pub(crate) memory: Option<&'a mut ProcessMemory>,
    pub(crate) sample: &'a Sample<'a>,
    /// The first frame of the walk.
    pub(crate) first: Frame,
    /// The last one.
    pub(crate) last: Frame,
    /// The outcome of reading the goroutine's stack, if that was tried: callers that count, or why there are none.
    pub(crate) read: Option<Result<(), Failure>>,
}

impl Crossing<'_> {
    /// Goes on behind the last frame, if that is where Go changes the stack; `None` if it is not.
    pub(crate) fn cross(&mut self, end: End, stack: &mut Vec<u64>) -> Option<Ending> {
        let last = self.last;
        match (end, self.go.role(last.lookup())) {
            (End::Root, Some((_, StackRole::Growth))) => Some(self.leave_growth(stack)),
            (End::Root, Some((_, StackRole::Leaves))) => Some(Ending::Lost(Lost::Unsupported)),
            // Go ends its own stacks where the goroutine may have left the thread.
            (End::Lost(Lost::NotRising), Some((_, StackRole::Park))) if last.is_return => Some(Ending::Root),
            (End::Lost(lost @ (Lost::NotRising | Lost::OutsideStack)), Some((switch, StackRole::Switch))) => {
                let switch = switch.start;
                Some(self.follow(switch, lost, stack))
            }
            (End::Lost(Lost::OutsideStack), None) if !last.is_return && last != self.first => self.leave_signal(stack),
            _ => None,
        }
    }

    /// Adds the callers of the frame of a function that changes the stack, at the frame pointer.
    fn follow(&mut self, switch: u64, lost: Lost, stack: &mut Vec<u64>) -> Ending {
        if let Some(callers) = self.callers_by_kernel(stack) {
            return self.add_callers(&callers, stack);
        }
        self.read_callers(switch, stack).unwrap_or(Ending::Lost(lost))
    }

    /// The return addresses behind those of a walk that the kernel has found.
    fn callers_by_kernel(&self, walked: &[u64]) -> Option<Vec<u64>> {
        let mut chain: Vec<u64> = user_chain(self.sample).collect();
        // What has not saved the frame pointer yet is not in the chain.
        let depth = if self.first.fp == self.last.fp { 1 } else { common_depth(&chain, walked)? };
        (depth <= chain.len()).then(|| chain.split_off(depth))
    }

    fn add_callers(&self, callers: &[u64], stack: &mut Vec<u64>) -> Ending {
        for address in callers {
            let call = address.wrapping_sub(1);
            if !self.go.is_go(call) {
                return Ending::Lost(Lost::NotCode);
            }
            if stack.len() >= MAX_FRAMES {
                return Ending::Deep;
            }
            stack.push(call);
            if self.go.is_top(call) {
                return Ending::Root;
            }
        }
        if self.sample.callchain.len() >= CHAIN_MAX { Ending::Deep } else { Ending::Lost(Lost::NoFramePointer) }
    }

    /// A signal handler has interrupted the goroutine's stack: its frame at that moment is in the handler's.
    fn leave_signal(&self, stack: &mut Vec<u64>) -> Option<Ending> {
        let pc = self.last.pc;
        if !self.go.is_go(pc) || stack.len() >= MAX_FRAMES {
            return None;
        }
        // Without a frame of its own, its caller is at the stack pointer, which the kernel has not read.
        let has_frame = self.walker.space.rule(pc).is_some_and(|rule| rule.saves_frame_pointer());
        let callers = self.callers_by_kernel(stack).filter(|_| has_frame);
        stack.push(pc);
        Some(callers.map_or(Ending::Lost(Lost::OutsideStack), |callers| self.add_callers(&callers, stack)))
    }

    /// Reads the callers of the frame at the frame pointer, if that is one of the function at `switch`, called with the
    /// C function that it has called (`runtime.asmcgocall(function, argument)`).
    fn read_callers(&mut self, switch: u64, stack: &mut Vec<u64>) -> Option<Ending> {
        let fp = self.last.fp;
        let memory = self.read_stack(fp)?;
        let copy = StackCopy { start: fp, bytes: &memory };
        let (saved, pc) = copy.read_pair(fp)?;
        let function = copy.read(fp.checked_add(16)?)?;
        let [.., callee, _] = **stack else { return None };
        (self.called(pc)? == switch && self.leads_to(function, callee)).then_some(())?;
        self.walk_on(Frame { pc, sp: fp.wrapping_add(16), fp: saved, lr: 0, is_return: true }, &memory, fp, stack)
    }

    /// Whether the code of a function, called by Go, has `address`, or ends with a jump to the function that has it.
    fn leads_to(&mut self, function: u64, address: u64) -> bool {
        let Some(&GoText { bias, image, .. }) = self.go.text_of(self.last.lookup()) else { return false };
        let file_address = |address: u64| address.wrapping_sub(bias);
        let (Some(from), Some(to)) = (
            self.images.function_at(image, file_address(function)),
            self.images.function_at(image, file_address(address)),
        ) else {
            return false;
        };
        let end = self.images.code_bytes::<5>(image, from.end.saturating_sub(5));
        let distance = match end {
            Some([JUMP, distance @ ..]) => Some(i64::from(i32::from_le_bytes(distance))),
            Some([_, _, _, SHORT_JUMP, distance]) => Some(i64::from(distance.cast_signed())),
            _ => None,
        };
        let jump = distance.map(|distance| from.end.wrapping_add(distance.cast_unsigned()));
        from.start == file_address(function) && (from == to || jump == Some(to.start))
    }

    /// Adds the stack of a goroutine from `frame` on, by memory that begins at `start`, if that is a whole one.
    fn walk_on(&mut self, frame: Frame, memory: &[u8], start: u64, stack: &mut Vec<u64>) -> Option<Ending> {
        let room = MAX_FRAMES.checked_sub(stack.len())?;
        let (mut callers, mut last) = (Vec::new(), Frame::default());
        let keep = |address: u64| {
            callers.push(address.wrapping_sub(1));
            callers.len() < room
        };
        let mut copy = StackCopy { start, bytes: memory };
        let end = self.walker.walk_noting(frame, |_| None, &mut copy, keep, &mut last);
        let ending = match end {
            End::Root if self.go.is_top(last.lookup()) => Ending::Root,
            End::Full => Ending::Deep,
            End::Lost(Lost::OutsideStack) if memory.len() == STACK_BYTES => Ending::Deep,
            End::Root | End::Lost(_) => return None,
        };
        let is_whole = callers.iter().all(|call| self.go.is_go(*call));
        is_whole.then(|| stack.extend(callers))?;
        self.read = Some(Ok(()));
        Some(ending)
    }

    /// The function that the direct call before an address calls.
    fn called(&self, pc: u64) -> Option<u64> {
        let [CALL, distance @ ..] = self.code::<5>(pc.wrapping_sub(5))? else { return None };
        Some(pc.wrapping_add(i64::from(i32::from_le_bytes(distance)).cast_unsigned()))
    }

    /// The bytes of code of Go at an address.
    fn code<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]> {
        let text = self.go.text_of(address)?;
        self.images.code_bytes(text.image, address.wrapping_sub(text.bias))
    }

    /// The memory of the process from an address on, as far as it is mapped. Before its callers are found, it counts as
    /// read too late.
    fn read_stack(&mut self, address: u64) -> Option<Vec<u8>> {
        let memory = self.memory.as_deref_mut()?;
        let read = memory.read_stack(self.sample.pid, address, STACK_BYTES);
        self.read = Some(Err(*read.as_ref().err().unwrap_or(&Failure::Late)));
        read.ok()
    }
}

/// The length of the kernel's chain up to the last address of a walk, if all of it is in the walk.
fn common_depth(chain: &[u64], walked: &[u64]) -> Option<usize> {
    let (last, others) = walked.split_last()?;
    let depth = chain.iter().skip(1).position(|address| address.wrapping_sub(1) == *last)? + 2;
    let mut others = others.iter();
    let is_walked = |address: &u64| others.any(|walked| *walked == address.wrapping_sub(1));
    chain.get(1..depth - 1)?.iter().all(is_walked).then_some(depth)
}

/// The kernel's chain of user code: the interrupted instruction, then return addresses.
fn user_chain(sample: &Sample<'_>) -> impl Iterator<Item = u64> {
    let words = sample.callchain.iter().map(|word| u64::from_le_bytes(*word));
    words.skip_while(|word| *word != CONTEXT_USER).skip(1).take_while(|word| *word < CONTEXT_MAX)
}

#[cfg(test)]
mod tests;
