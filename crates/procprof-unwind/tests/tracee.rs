//! A child process that is run one instruction at a time, and its true stack: calls and signals are recorded as they
//! happen.

use procprof_unwind::Frame;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

const BREAKPOINT: u8 = 0xcc;

/// A return address that was pushed, and where.
#[derive(Clone, Copy, Debug)]
struct Pushed {
    address: u64,
    at: u64,
    /// The frame under it is a signal's: its stack may be another one.
    is_interrupted: bool,
}

/// A traced process between its two breakpoints.
pub(crate) struct Tracee {
    child: Child,
    memory: File,
    pub(crate) registers: libc::user_regs_struct,
    pushed: Vec<Pushed>,
    /// The callers of the function that holds the breakpoints.
    pub(crate) base: Vec<u64>,
}

impl Tracee {
    /// Starts a program and runs it up to its first breakpoint.
    pub(crate) fn start(path: &Path, environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(path);
        command.env_clear().envs(environment.iter().copied());
        // SAFETY: the closure only makes a system call.
        unsafe {
            command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let child = command.spawn().unwrap();
        let memory = File::open(format!("/proc/{}/mem", child.id())).unwrap();
        // SAFETY: plain numbers, for which zero is a value.
        let registers = unsafe { std::mem::zeroed() };
        let mut tracee = Self { child, memory, registers, pushed: Vec::new(), base: Vec::new() };
        assert_eq!(tracee.wait(), libc::SIGTRAP);
        tracee.resume(libc::PTRACE_CONT, 0);
        assert_eq!(tracee.wait(), libc::SIGTRAP);
        tracee
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs one instruction; false at the second breakpoint.
    pub(crate) fn step(&mut self) -> bool {
        let before = self.registers;
        let code = self.bytes(before.rip);
        if code[0] == BREAKPOINT {
            return false;
        }
        self.resume(libc::PTRACE_SINGLESTEP, 0);
        let mut signal = self.wait();
        if signal != libc::SIGTRAP {
            // Delivered now: the next stop is at the handler's first instruction.
            let interrupted = self.registers;
            self.resume(libc::PTRACE_SINGLESTEP, signal);
            signal = self.wait();
            self.pushed.push(Pushed { address: interrupted.rip, at: u64::MAX, is_interrupted: true });
            self.push_return_address();
        }
        assert_eq!(signal, libc::SIGTRAP);
        self.follow(&before, &code);
        true
    }

    fn follow(&mut self, before: &libc::user_regs_struct, code: &[u8; 16]) {
        let interrupted = self.pushed.iter().rposition(|pushed| pushed.is_interrupted);
        if let Some(index) = interrupted
            && code.starts_with(&[0x0f, 0x05])
            && before.rax == 15
        {
            self.pushed.truncate(index);
        }
        let sp = self.registers.rsp;
        while self.pushed.last().is_some_and(|pushed| !pushed.is_interrupted && pushed.at < sp) {
            self.pushed.pop();
        }
        if is_call(code) {
            self.push_return_address();
        }
    }

    fn push_return_address(&mut self) {
        let at = self.registers.rsp;
        let address = self.word(at).unwrap();
        self.pushed.push(Pushed { address, at, is_interrupted: false });
    }

    /// The stack as it is: the program counter, then return addresses.
    pub(crate) fn stack(&self) -> Vec<u64> {
        let calls = self.pushed.iter().rev().map(|pushed| pushed.address);
        [self.registers.rip].into_iter().chain(calls).chain(self.base.iter().copied()).collect()
    }

    pub(crate) fn frame(&self) -> Frame {
        Frame { pc: self.registers.rip, sp: self.registers.rsp, fp: self.registers.rbp, ..Frame::default() }
    }

    /// A register by its DWARF number.
    pub(crate) fn register(&self, number: u8) -> Option<u64> {
        let r = &self.registers;
        let by_number = [
            r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14,
            r.r15,
        ];
        by_number.get(usize::from(number)).copied()
    }

    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, address).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// Memory of the process.
    pub(crate) fn copy(&self, range: std::ops::Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.memory.read_exact_at(&mut bytes, range.start).unwrap();
        bytes
    }

    fn bytes(&self, address: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        let _ = self.memory.read_at(&mut bytes, address);
        bytes
    }

    fn resume(&self, request: libc::c_uint, signal: i32) {
        // SAFETY: the child is stopped and traced by this process; the request takes a number only.
        let result = unsafe { libc::ptrace(request, self.child.id(), 0, libc::c_long::from(signal)) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }

    /// Waits for the next stop and reads the registers; returns the signal that stopped it.
    fn wait(&mut self) -> i32 {
        let mut status = 0;
        // SAFETY: `status` is a place to write to.
        let waited = unsafe { libc::waitpid(self.child.id() as i32, &raw mut status, 0) };
        assert_eq!(waited, self.child.id() as i32);
        assert!(libc::WIFSTOPPED(status), "status {status:#x} after {:x?}", self.registers.rip);
        // SAFETY: `registers` is what the request fills.
        unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.child.id(), 0, &raw mut self.registers) };
        libc::WSTOPSIG(status)
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `call rel32` and `call r/m64`, after any prefixes.
fn is_call(code: &[u8; 16]) -> bool {
    let is_prefix = |byte: &u8| matches!(byte, 0x66 | 0x67 | 0xf2 | 0xf3 | 0x2e | 0x3e | 0x40..=0x4f);
    let mut rest = code.iter().skip_while(|byte| is_prefix(byte));
    match rest.next() {
        Some(0xe8) => true,
        Some(0xff) => rest.next().is_some_and(|operand| operand >> 3 & 7 == 2),
        _ => false,
    }
}
