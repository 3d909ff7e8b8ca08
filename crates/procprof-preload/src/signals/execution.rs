//! `execve` and its kin: the sampler stops before the process becomes another program, and goes on where that fails.
//!
//! Those with the arguments in a list come with assembly in front: it puts the arguments that came in registers before
//! those on the stack, and so makes an array of all of them.

use crate::next::keeping_errno;
use libc::{c_char, c_int};
use procprof_agent::sigprof_hook::before_exec;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

mod next {
    use libc::{c_char, c_int};

    crate::next::next! {
        execvp(file: *const c_char, arguments: *const *const c_char) -> c_int, or -1;
        execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int, or -1;
        fexecve(descriptor: c_int, arguments: *const *const c_char, environment: *const *const c_char) -> c_int, or -1;
    }
}

/// Words of a program: its arguments or its environment, with a null at the end.
type Words = *const *const c_char;

/// The C library's `environ`.
static ENVIRONMENT: AtomicPtr<Words> = AtomicPtr::new(std::ptr::null_mut());

pub(super) fn look_up() {
    next::look_all_up();
    environment();
}

/// The program's environment as it is now.
fn environment() -> Words {
    let mut place = ENVIRONMENT.load(Ordering::Relaxed);
    if place.is_null() {
        // The program's copy, where it has one.
        // SAFETY: looks a name up in what is loaded.
        place = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"environ".as_ptr()) }.cast();
        ENVIRONMENT.store(place, Ordering::Relaxed);
    }
    if place.is_null() {
        return std::ptr::null();
    }
    // SAFETY: the C library's variable, which is there as long as the process.
    unsafe { place.read() }
}

/// Executes by `execute`, which returns only if that has failed.
fn execute(execute: impl FnOnce() -> c_int) -> c_int {
    let leaving = before_exec();
    keeping_errno(execute, || drop(leaving))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn execve(path: *const c_char, arguments: Words, environment: Words) -> c_int {
    // SAFETY: by the caller's promise; it is nothing but its system call, which may be made in a child of `vfork`.
    execute(|| unsafe { libc::syscall(libc::SYS_execve, path, arguments, environment) as c_int })
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn execv(path: *const c_char, arguments: Words) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { execve(path, arguments, environment()) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(file: *const c_char, arguments: Words) -> c_int {
    // SAFETY: by the caller's promise.
    execute(|| unsafe { next::execvp(file, arguments) })
}

/// # Safety
/// As in glibc.
#[unsafe(no_mangle)]
unsafe extern "C" fn execvpe(file: *const c_char, arguments: Words, environment: Words) -> c_int {
    // SAFETY: by the caller's promise.
    execute(|| unsafe { next::execvpe(file, arguments, environment) })
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn fexecve(descriptor: c_int, arguments: Words, environment: Words) -> c_int {
    // SAFETY: by the caller's promise.
    execute(|| unsafe { next::fexecve(descriptor, arguments, environment) })
}

/// # Safety
/// As in glibc.
#[unsafe(no_mangle)]
unsafe extern "C" fn execveat(
    folder: c_int,
    path: *const c_char,
    arguments: Words,
    environment: Words,
    flags: c_int,
) -> c_int {
    // SAFETY: by the caller's promise; it is nothing but its system call.
    execute(|| unsafe { libc::syscall(libc::SYS_execveat, folder, path, arguments, environment, flags) as c_int })
}

unsafe extern "C" fn execute_list(path: *const c_char, list: Words) -> c_int {
    // SAFETY: by the promise of `execl`'s caller.
    unsafe { execve(path, list, environment()) }
}

unsafe extern "C" fn execute_found_list(file: *const c_char, list: Words) -> c_int {
    // SAFETY: by the promise of `execlp`'s caller.
    unsafe { execvp(file, list) }
}

/// The environment is in the list, behind the null.
unsafe extern "C" fn execute_list_with_environment(path: *const c_char, list: Words) -> c_int {
    let mut count = 0;
    // SAFETY: by the promise of `execle`'s caller.
    unsafe {
        while !(*list.add(count)).is_null() {
            count += 1;
        }
        execve(path, list, (*list.add(count + 1)).cast())
    }
}

/// Functions whose arguments are a list: the path, then words up to a null.
macro_rules! lists {
    ($($name:ident $array:ident;)*) => {$(
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name(_path: *const c_char, _first: *const c_void) -> c_int {
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!(
                // The registers' arguments take the place of the return address and what is below it.
                "pop rax",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                "push rax",
                "call {array}",
                "pop rcx",
                "add rsp, 40",
                "push rcx",
                "ret",
                array = sym $array,
            );
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!(
                "sub sp, sp, 64",
                "str x1, [sp, 8]",
                "stp x2, x3, [sp, 16]",
                "stp x4, x5, [sp, 32]",
                "stp x6, x7, [sp, 48]",
                "add x1, sp, 8",
                "stp x29, x30, [sp, -16]!",
                "bl {array}",
                "ldp x29, x30, [sp], 16",
                "add sp, sp, 64",
                "ret",
                array = sym $array,
            );
        }
    )*};
}

lists! {
    execl execute_list;
    execlp execute_found_list;
    execle execute_list_with_environment;
}
