//! Code that many programs share: the C library, the runtimes of languages, allocators, the kernel.
//!
//! A function there says what a program does (waits, locks, allocates), and not which part of it; that is its caller.
//! The rule goes by the file of the mapping, by the source file, and by name where a program has such code built in and
//! the profile has no more than names. Libraries that a program chooses are its own code.

use procprof_profile::{Line, Location, LocationId, Profile};

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
    "libnode.",
    "libphp",
    "libprocprof_preload",
    "libpthread",
    "libpython",
    "libruby",
    "libstdc++",
    "libtcmalloc",
    "linux-vdso",
];
/// Programs that run scripts: their own code is the runtime of these.
const INTERPRETERS: &[&str] = &["beam.smp", "java", "node", "nodejs", "perl", "php", "php-fpm", "ruby"];
/// Parts of the paths of source files.
const SOURCES: &[&str] = &[
    "/../sysdeps/",
    "/bits/stl_",
    "/c++/v1/",
    "/glibc-",
    "/hashbrown-",
    "/jemalloc/include/",
    "/jemalloc/src/",
    "/lib/rustlib/src/rust/library/",
    "/lock_api-",
    "/nptl/",
    "/parking_lot",
    "/tikv-jemalloc",
    "/usr/include/c++/",
];
/// Endings of the names of scripts.
const SCRIPTS: &[&str] = &["cjs", "js", "mjs", "php", "pl", "py", "rb", "ts"];
/// Beginnings of the paths of source files.
const SOURCES_FROM: &[&str] = &["../sysdeps/", "./malloc/", "./nptl/", "<frozen ", "<internal:", "node:"];
/// Beginnings of the names of functions of native code, behind the type that they return.
const NATIVE: &[&str] = &[
    "Builtins_",
    "DefaultSysAllocator::",
    "TCMalloc",
    "_Py",
    "__",
    "_int_free",
    "_int_malloc",
    "_int_realloc",
    "_rjem_",
    "absl::CondVar::",
    "absl::Mutex::",
    "absl::base_internal::",
    "absl::synchronization_internal::",
    "alloc::",
    "boost::condition_variable",
    "boost::mutex::",
    "bthread::",
    "bthread_",
    "core::",
    "hashbrown::",
    "je_",
    "lock_api::",
    "mi_",
    "mio::",
    "operator delete",
    "operator new",
    "parking_lot::",
    "parking_lot_core::",
    "rayon_core::",
    "rb_ec_",
    "rb_funcall",
    "rb_gc_",
    "rb_iseq_",
    "rb_thread_",
    "rb_vm_",
    "rb_yield",
    "ruby_vm_",
    "std::",
    "tc_",
    "tcmalloc::",
    "tikv_jemalloc",
    "tokio::runtime::",
    "uv__",
    "v8::",
    "zend_",
];
/// Beginnings of the names of C++ as the linker has them: `std::`, `operator new`, `operator delete`.
const MANGLED: &[&str] = &["_ZNKSt", "_ZNSt", "_ZSt", "_ZdaPv", "_ZdlPv", "_Zna", "_Znw"];
/// Beginnings of the names of CPython's functions in C.
const PYTHON: &[&str] = &[
    "PyCFunction",
    "PyDict_",
    "PyEval_",
    "PyGILState_",
    "PyImport_",
    "PyIter_",
    "PyList_",
    "PyLong_",
    "PyMem_",
    "PyNumber_",
    "PyObject_",
    "PyRun_",
    "PySequence_",
    "PyThread_",
    "PyTuple_",
    "PyType_",
    "PyUnicode_",
    "PyVectorcall_",
    "Py_",
    "cfunction_",
    "gc_collect_",
    "method_vectorcall",
    "pymain_",
    "slot_tp_",
];
/// Functions by their whole names, as symbols without a version and without arguments of templates: of the C library,
/// those that wait, copy or allocate; of allocators; of locks, as inlined frames have them; of Go, those in assembly; of
/// interpreters.
const WHOLE: &[&str] = &[
    "(garbage collector)",
    "(idle)",
    "(program)",
    "_start",
    "accept",
    "accept4",
    "aeshashbody",
    "aligned_alloc",
    "calloc",
    "clock_nanosleep",
    "clone",
    "clone3",
    "cmpbody",
    "connect",
    "countbody",
    "drop_gil",
    "epoll_pwait",
    "epoll_wait",
    "execute_ex",
    "fdatasync",
    "free",
    "fsync",
    "futex",
    "futex_wait",
    "futex_wake",
    "futex_wake_all",
    "gogo",
    "gosave_systemstack_switch",
    "indexbytebody",
    "lock",
    "lock_contended",
    "lock_slow",
    "malloc",
    "mallocx",
    "memchr",
    "memcmp",
    "memcpy",
    "memeqbody",
    "memmove",
    "memset",
    "mmap",
    "munmap",
    "nallocx",
    "nanosleep",
    "park",
    "park_timeout",
    "poll",
    "posix_memalign",
    "ppoll",
    "pread",
    "pread64",
    "pthread_cond_clockwait",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_mutex_lock",
    "pthread_mutex_timedlock",
    "pthread_mutex_unlock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_unlock",
    "pthread_rwlock_wrlock",
    "pthread_spin_lock",
    "pwrite",
    "pwrite64",
    "rallocx",
    "read",
    "readv",
    "realloc",
    "recv",
    "recvfrom",
    "recvmsg",
    "sched_yield",
    "sdallocx",
    "select",
    "sem_timedwait",
    "sem_wait",
    "send",
    "sendmsg",
    "sendto",
    "sleep",
    "start_thread",
    "strcmp",
    "strlen",
    "syscall",
    "take_gil",
    "try_lock",
    "unlock",
    "unlock_slow",
    "usleep",
    "vm_exec",
    "vm_exec_core",
    "wait4",
    "waitpid",
    "write",
    "writev",
    "xallocx",
];
/// Packages of Go's standard library: the first part of their paths.
const GO: &[&str] = &[
    "archive",
    "bufio",
    "bytes",
    "cmp",
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
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "reflect",
    "regexp",
    "runtime",
    "slices",
    "sort",
    "strconv",
    "strings",
    "sync",
    "syscall",
    "text",
    "time",
    "type:",
    "unicode",
    "unique",
    "vendor",
];
/// Suffixes that compilers give to parts and copies of a function.
const CLONES: &[&str] = &["clone", "cold", "constprop", "isra", "llvm", "lto_priv", "part"];
/// Beginnings of the names of Java's own packages, and of Kotlin's and Scala's.
const JVM: &[&str] = &["com.sun.", "java.", "java/", "javax.", "jdk.", "jdk/", "kotlin.", "scala.", "sun.", "sun/"];
/// Java's types that are no classes.
const PRIMITIVES: &[&str] = &["boolean", "byte", "char", "double", "float", "int", "long", "short"];

/// Names of the frames at a location, innermost first, each with whether it is a runtime's: code that many programs
/// share, or no code at all, as the class of an object that is allocated or locked. None for code without symbols.
pub fn frames_at(profile: &Profile, location: LocationId) -> impl Iterator<Item = (&str, bool)> {
    let at = &profile.locations()[location.index()];
    let lines = profile.lines(location);
    lines.iter().map(move |line| {
        let frame = CodePlace::new(profile, at, line);
        (frame.name, frame.is_runtime())
    })
}

/// A frame, as far as it says to which code it belongs.
struct CodePlace<'a> {
    kind: FrameKind,
    /// Name of the file that is mapped, without its folder.
    mapping: &'a str,
    /// Path of the source file.
    source: &'a str,
    name: &'a str,
    has_line: bool,
}

impl<'a> CodePlace<'a> {
    fn new(profile: &'a Profile, at: &Location, line: &Line) -> CodePlace<'a> {
        let function = profile.function(line.function);
        let mapping = at.mapping.map_or("", |id| base_name(profile.string(profile.mapping(id).filename)));
        CodePlace {
            kind: kind(profile, at, line),
            mapping,
            source: profile.string(function.filename),
            name: profile.string(function.name),
            has_line: line.line != 0,
        }
    }

    fn is_runtime(&self) -> bool {
        match self.kind {
            FrameKind::Kernel | FrameKind::Remark | FrameKind::Unknown => true,
            FrameKind::Go => is_go_library(self.name) || WHOLE.binary_search(&self.name).is_ok(),
            FrameKind::Jvm => is_java_library(self.name) || !self.has_line && is_class(self.name),
            FrameKind::Native => {
                let source = python_source(self.name).unwrap_or(self.source);
                if is_script(source) { is_python_library(source) } else { self.is_native_runtime(source) }
            }
        }
    }

    fn is_native_runtime(&self, source: &str) -> bool {
        LIBRARIES.iter().any(|library| self.mapping.starts_with(library))
            || INTERPRETERS.contains(&self.mapping)
            || self.mapping.starts_with("python")
            || is_shared_source(source)
            || is_shared_native(self.name, source)
    }
}

/// The source file in the name that Python gives to its trampolines: `py::NAME:FILE`.
fn python_source(name: &str) -> Option<&str> {
    name.strip_prefix("py::")?.split_once(':').map(|(_, file)| file)
}

/// Whether a source file is run by an interpreter, so that names do not tell it from the interpreter's own code.
fn is_script(source: &str) -> bool {
    source.rsplit_once('.').is_some_and(|(_, ending)| SCRIPTS.contains(&ending))
}

/// Whether a file is of Python's standard library, and not of a package that was installed.
fn is_python_library(source: &str) -> bool {
    let is_installed = source.contains("/site-packages/") || source.contains("/dist-packages/");
    source.contains("/lib/python") && !is_installed
}

fn is_shared_source(path: &str) -> bool {
    // rustc writes paths of its library with its commit.
    let is_rust = path.starts_with("/rustc/") && path.contains("/library/") || path.starts_with("library/std/src/");
    is_rust
        || SOURCES.iter().any(|part| path.contains(part))
        || SOURCES_FROM.iter().any(|start| path.starts_with(start))
}

/// Whether a function is a runtime's by its name, of whatever language. Short names count where nothing says that the
/// program has the source file: distributions build C libraries with relative paths, and Go's are in assembly.
fn is_shared_native(name: &str, source: &str) -> bool {
    let symbol = name.split_once('@').map_or(name, |(symbol, _)| symbol);
    let [returned, path] = function_path(symbol);
    let whole = path.split_once('<').filter(|(start, _)| !start.is_empty()).map_or(path, |(start, _)| start);
    if let Some((self_type, implemented)) = implementation(path) {
        return is_shared_type(self_type) && implemented.is_none_or(is_shared_type);
    }
    let is_listed = |starts: &[&str]| starts.iter().any(|start| path.starts_with(start));
    let is_own = |source: &str| !source.starts_with("./") && !source.starts_with("../") && !source.ends_with(".s");
    let has_own_source = !source.is_empty() && is_own(source);
    !has_own_source && WHOLE.binary_search(&whole).is_ok()
        || is_listed(NATIVE)
        || is_listed(MANGLED)
        || is_listed(PYTHON)
        || returned.is_empty() && (is_go_library(path) || is_java_library(path) || is_array(path))
}

/// The type that a function of C++ returns, if its name says so, and its name without parameters.
fn function_path(symbol: &str) -> [&str; 2] {
    let (mut depth, mut start) = (0_usize, 0);
    for (at, letter) in symbol.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if !symbol[..at].ends_with(['-', '=']) => depth = depth.saturating_sub(1),
            '(' if depth == 0 && at > start && !symbol[..at].ends_with([':', '.', '&', '*']) => {
                return [&symbol[..start], &symbol[start..at]];
            }
            ' ' if depth == 0 && !symbol[start..at].ends_with("operator") => start = at + 1,
            _ => {}
        }
    }
    // Without parameters, words are a type only in front of a path: names of other languages have spaces, too.
    if symbol[start..].contains("::") { [&symbol[..start], &symbol[start..]] } else { ["", symbol] }
}

/// The type and the trait of a function of Rust's: `<TYPE as TRAIT>::f` or `<TYPE>::f`.
fn implementation(path: &str) -> Option<(&str, Option<&str>)> {
    let inner = path.strip_prefix('<')?;
    let mut depth = 0_usize;
    let mut parts = None;
    for (at, letter) in inner.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if inner[..at].ends_with('-') => {}
            '>' if depth == 0 => {
                let both = parts.map_or((&inner[..at], None), |(own, from)| (own, Some(&inner[from..at])));
                return inner[at..].starts_with(">::").then_some(both);
            }
            '>' => depth -= 1,
            ' ' if depth == 0 && inner[at..].starts_with(" as ") => parts = Some((&inner[..at], at + 4)),
            _ => {}
        }
    }
    None
}

/// Whether a type or trait of Rust's is of its libraries: `&alloc::vec::Vec<T>`, `[T]`, `usize`.
fn is_shared_type(text: &str) -> bool {
    let mut plain = text;
    for start in ["&", "*", "mut ", "const ", "dyn ", "[", "("] {
        plain = plain.strip_prefix(start).unwrap_or(plain);
    }
    let is_path = plain.split(['<', ';', ',', ')', ']']).next().is_some_and(|head| head.contains("::"));
    !is_path || NATIVE.iter().any(|start| start.ends_with("::") && plain.starts_with(start))
}

/// Whether a function is of Go's standard library: `net/http.(*conn).serve`, and not of a package of Java, `io.netty.…`,
/// nor a part of a function of C, `sort.cold`.
fn is_go_library(name: &str) -> bool {
    if !name.split(['/', '.']).next().is_some_and(|package| GO.contains(&package)) {
        return false;
    }
    let path = name.split('(').next().unwrap_or_default();
    let last = path.rfind('/').map_or(0, |slash| slash + 1);
    let Some((package, function)) = name[last..].split_once('.') else { return false };
    let (first, rest) = function.split_once('.').map_or((function, ""), |(first, rest)| (first, rest));
    let is_type = first.starts_with(|letter: char| letter == '(' || letter.is_uppercase());
    let is_closure = rest.starts_with("func") || rest.starts_with(|letter: char| letter.is_ascii_digit());
    let is_clone = CLONES.contains(&first) || first.starts_with(|letter: char| letter.is_ascii_digit());
    package.starts_with(char::is_lowercase) && !is_clone && (is_type || rest.is_empty() || is_closure)
}

fn is_java_library(name: &str) -> bool {
    JVM.iter().any(|package| name.starts_with(package))
}

/// Whether the name is that of a class, which allocations and locks have for a frame: `byte[]`, `java.lang.Object`.
fn is_class(name: &str) -> bool {
    let name = name.split(' ').next().unwrap_or_default();
    let simple = name.rsplit(['.', '/']).next().unwrap_or_default();
    is_array(name) || PRIMITIVES.contains(&name) || simple.starts_with(char::is_uppercase)
}

fn is_array(name: &str) -> bool {
    name.ends_with("[]") && !name.contains("operator")
}

#[cfg(test)]
mod tests;
