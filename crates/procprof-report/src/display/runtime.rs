//! Code that many programs share: the C library, the runtimes of languages, allocators, the kernel.
//!
//! A function there says what a program does (waits, allocates), and not which part of it; that is its caller. The rule
//! goes by the file of the mapping, and by name where a program has such code built in, or the profile has no mappings.

use procprof_profile::{LocationId, Profile};

use super::frame::{FrameKind, kind};
use super::place::base_name;

/// Beginnings of the names of shared objects.
const LIBRARIES: &[&str] = &[
    "[vdso]",
    "ld-linux",
    "ld-musl",
    "libc++",
    "libc-",
    "libc.",
    "libgcc_s",
    "libjemalloc",
    "libjvm",
    "libm.",
    "libmimalloc",
    "libprocprof_preload",
    "libpthread",
    "libstdc++",
    "libtcmalloc",
    "linux-vdso",
];
/// Beginnings of the names of functions of native code.
const NATIVE: &[&str] = &[
    "<alloc::",
    "<core::",
    "<std::",
    "__",
    "_int_malloc",
    "alloc::",
    "core::",
    "je_",
    "mi_",
    "operator delete",
    "operator new",
    "std::",
    "tc_",
    "tcmalloc::",
];
/// Functions of the C library that wait or allocate, as symbols without a version.
const C: &[&str] = &[
    "accept",
    "aligned_alloc",
    "calloc",
    "clock_nanosleep",
    "epoll_wait",
    "free",
    "futex",
    "malloc",
    "memcpy",
    "memmove",
    "memset",
    "mmap",
    "munmap",
    "nanosleep",
    "poll",
    "posix_memalign",
    "ppoll",
    "pread64",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_mutex_lock",
    "pwrite64",
    "read",
    "realloc",
    "recv",
    "recvfrom",
    "recvmsg",
    "sched_yield",
    "select",
    "send",
    "sendmsg",
    "sendto",
    "sleep",
    "syscall",
    "usleep",
    "wait4",
    "waitpid",
    "write",
];
/// Packages of Go's standard library: the first part of their paths.
const GO: &[&str] = &[
    "bufio",
    "bytes",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "encoding",
    "errors",
    "fmt",
    "hash",
    "html",
    "internal",
    "io",
    "log",
    "math",
    "mime",
    "net",
    "os",
    "reflect",
    "regexp",
    "runtime",
    "sort",
    "strconv",
    "strings",
    "sync",
    "syscall",
    "text",
    "time",
    "unicode",
    "vendor",
];
/// Beginnings of the names of Java's own packages, and of Kotlin's and Scala's.
const JVM: &[&str] = &["com.sun.", "java.", "java/", "javax.", "jdk.", "jdk/", "kotlin.", "scala.", "sun.", "sun/"];

/// Names of the frames at a location, innermost first, each with whether it is code that many programs share; none for
/// code without symbols.
pub fn frames_at(profile: &Profile, location: LocationId) -> impl Iterator<Item = (&str, bool)> {
    let at = &profile.locations()[location.index()];
    let file = at.mapping.map_or("", |id| base_name(profile.string(profile.mapping(id).filename)));
    let is_library = LIBRARIES.iter().any(|library| file.starts_with(library));
    profile.lines(location).iter().map(move |line| {
        let name = profile.string(profile.function(line.function).name);
        let is_shared = is_library
            || match kind(profile, at, line) {
                FrameKind::Kernel | FrameKind::Remark | FrameKind::Unknown => true,
                FrameKind::Go => GO.contains(&name.split(['/', '.']).next().unwrap_or_default()),
                FrameKind::Jvm => JVM.iter().any(|package| name.starts_with(package)),
                FrameKind::Native => is_shared_native(name),
            };
        (name, is_shared)
    })
}

fn is_shared_native(name: &str) -> bool {
    let symbol = name.split_once('@').map_or(name, |(symbol, _)| symbol);
    C.binary_search(&symbol).is_ok()
        || NATIVE.iter().any(|start| name.starts_with(start))
        || name.starts_with("runtime.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_programs_share_is_known_by_name() {
        assert!(C.is_sorted());
        for (name, expected) in [
            ("nanosleep", true),
            ("malloc@@GLIBC_2.2.5", true),
            ("operator new(unsigned long)", true),
            ("std::vector<int>::push_back(int const&)", true),
            ("<alloc::vec::Vec<T> as core::clone::Clone>::clone", true),
            ("runtime.mallocgc", true),
            ("poll_loop", false),
            ("reader::read", false),
            ("app::alloc::grow", false),
        ] {
            assert_eq!(is_shared_native(name), expected, "{name}");
        }
    }
}
