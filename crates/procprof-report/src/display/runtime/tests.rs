//! Which frames are a runtime's, by language.

use procprof_profile::{Addr, Function, Line, Location, LocationId, Mapping, Profile, ProfileBuilder};

use super::{WHOLE, frames_at};

/// A profile whose one location is the frame; `line` is 0 where the recording has none.
fn frame(name: &str, source: &str, mapping: &str, line: i64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    let mapping = (!mapping.is_empty()).then(|| {
        let filename = builder.intern(mapping);
        builder.mapping(Mapping { filename, ..Mapping::default() })
    });
    let (name, filename) = (builder.intern(name), builder.intern(source));
    let function = builder.function(Function { name, filename, ..Function::default() });
    let location = builder.location(Location::new(mapping, Addr(0)), &[Line { function, line, ..Line::default() }]);
    builder.sample(&[location], &[1], &[]);
    builder.finish().unwrap()
}

fn is_runtime(name: &str, source: &str, mapping: &str, line: i64) -> bool {
    frames_at(&frame(name, source, mapping, line), LocationId(0)).next().unwrap().1
}

#[test]
fn frames_of_runtimes_are_known_by_name() {
    assert!(WHOLE.is_sorted());
    let runtime = [
        // C and C++.
        "nanosleep",
        "malloc@@GLIBC_2.2.5",
        "__lll_lock_wait",
        "operator new(unsigned long)",
        "operator delete[](void*)",
        "std::vector<int>::push_back(int const&)",
        "void std::vector<app::Order>::_M_realloc_insert<app::Order>(app::Order&&)",
        "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
        "bthread::TaskGroup::task_runner(long)",
        "_ZNSt6vectorIiSaIiEE9push_backEOi",
        // Rust.
        "core::ptr::write",
        "write<u8>",
        "lock",
        "lock<app::Table>",
        "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
        "<alloc::boxed::Box<dyn app::Job + core::marker::Send> as core::ops::function::FnOnce<()>>::call_once",
        "<[T]>::sort_unstable",
        "<std::sys::sync::mutex::futex::Mutex>::lock_contended",
        "core::ptr::drop_in_place<app::Table>",
        "__rustc::__rdl_alloc",
        "parking_lot_core::parking_lot::park",
        "tokio::runtime::scheduler::multi_thread::worker::Context::park",
        // jemalloc and tcmalloc.
        "_rjem_je_prof_backtrace",
        "_rjem_malloc",
        "je_arena_ralloc",
        "mallocx",
        "tcmalloc::allocate_full_malloc_oom",
        // Go, in profiles that have only names.
        "runtime.gopark",
        "runtime.mcall",
        "runtime.gcDrain.func1",
        "sync.(*Mutex).Lock",
        "net/http.(*conn).serve",
        "internal/poll.(*FD).Read",
        "encoding/json.Unmarshal",
        "memeqbody",
        // The JVM, in profiles that have only names.
        "java.lang.Object.wait",
        "java/util/concurrent/locks/LockSupport.park",
        "jdk.internal.misc.Unsafe.park",
        "byte[]",
        "com.acme.Order[]",
        // Interpreters.
        "_PyEval_EvalFrameDefault",
        "PyObject_Vectorcall",
        "take_gil",
        "rb_vm_exec",
        "zend_hash_find",
        "v8::internal::Heap::CollectGarbage",
        "(garbage collector)",
        "[unsampled CPU]",
    ];
    for name in runtime {
        assert!(is_runtime(name, "", "", 0), "{name}");
    }
    let own = [
        "poll_loop",
        "reader::read",
        "app::alloc::grow",
        "app::lock",
        "void app::sort<std::string>(std::string&)",
        "std::string app::name()",
        "(anonymous namespace)::run(int)",
        "app::Matrix::operator()(int) const",
        "app::Row::operator[]",
        "<app::Order as core::clone::Clone>::clone",
        "<alloc::vec::Vec<u8> as app::Store>::put",
        "<app::Table>::lock",
        "app::main::{closure#0}",
        "main.main",
        "main.(*Server).Lock",
        "github.com/acme/shop.(*Cart).Add",
        "sort.cold",
        "log.part.0",
        "time.constprop.0",
        "io.netty.channel.nio.NioEventLoop.run",
        "io/trino/Main.run",
        "com.acme.Shop.checkout",
        "javassist.Loader.load",
        "<module>",
        "<lambda>",
        "jemalloc_report",
        "PyShop::sell(int)",
    ];
    for name in own {
        assert!(!is_runtime(name, "", "", 0), "{name}");
    }
}

#[test]
fn frames_of_runtimes_are_known_by_their_files() {
    for (name, source, mapping, line, expected) in [
        ("lock<T>", "/rustc/4a0cb7f/library/std/src/sync/poison/mutex.rs", "/app/server", 9, true),
        ("grow", "/root/.cargo/registry/src/i-1/hashbrown-0.15.2/src/raw/mod.rs", "/app/server", 9, true),
        ("get", "/usr/include/c++/14/bits/unique_ptr.h", "/app/server", 9, true),
        ("tcache_bin_flush", "/build/x/jemalloc/src/tcache.c", "/app/server", 9, true),
        ("read", "../sysdeps/unix/sysv/linux/read.c", "/app/static", 9, true),
        ("do_work", "", "/usr/lib/x86_64-linux-gnu/libc.so.6", 0, true),
        ("G1ParScanThreadState::trim_queue", "", "/jdk/lib/server/libjvm.so", 0, true),
        ("list_dealloc", "", "/usr/bin/python3.12", 0, true),
        // A function of the program may have a name of the C library's.
        ("lock", "/src/app/table.rs", "/app/server", 9, false),
        ("read", "src/reader.rs", "/app/server", 9, false),
        ("tokio::runtime::task::raw::poll", "/root/.cargo/registry/src/i-1/tokio-1.40/src/lib.rs", "/app", 9, true),
        ("serde_json::de::parse", "/root/.cargo/registry/src/i-1/serde_json-1.0/src/de.rs", "/app", 9, false),
        // Go.
        ("runtime.gopark", "/usr/local/go/src/runtime/proc.go", "/app/shop", 9, true),
        ("sync.(*RWMutex).Lock", "sync/rwmutex.go", "/app/shop", 9, true),
        ("memeqbody", "/usr/local/go/src/internal/bytealg/equal_amd64.s", "/app/shop", 9, true),
        ("main.(*cart).lock", "/src/shop/cart.go", "/app/shop", 9, false),
        ("golang.org/x/sync/semaphore.(*Weighted).Acquire", "/go/pkg/semaphore.go", "/app/shop", 9, false),
        // The JVM: a class has no line.
        ("java.lang.Object", "", "[jvm]", 0, true),
        ("com.acme.Order", "", "[jvm]", 0, true),
        ("byte[]", "", "[jvm]", 0, true),
        ("com.acme.Shop.checkout", "", "[jvm]", 0, false),
        ("com.acme.Shop.checkout (java.lang.Object)", "", "[jvm]", 0, false),
        ("com.acme.Order.<init>", "", "[jvm]", 7, false),
        ("java.util.HashMap.resize", "HashMap.java", "", 7, true),
        // Python, Node and Ruby.
        ("wait", "/usr/lib/python3.12/threading.py", "", 320, true),
        ("py::wait:/usr/lib/python3.12/threading.py", "", "[anon]", 0, true),
        ("_find_and_load", "<frozen importlib._bootstrap>", "", 9, true),
        ("get", "/venv/lib/python3.12/site-packages/requests/api.py", "", 73, false),
        ("py::read:/srv/shop.py", "", "[anon]", 0, false),
        ("read", "/srv/shop.py", "", 9, false),
        ("processTicksAndRejections", "node:internal/process/task_queues", "", 9, true),
        ("read", "file:///srv/shop.mjs", "", 9, false),
        ("loop", "<internal:kernel>", "", 9, true),
        // The kernel.
        ("do_syscall_64", "", "[kernel.kallsyms]", 0, true),
    ] {
        assert_eq!(is_runtime(name, source, mapping, line), expected, "{name} of {source} in {mapping}");
    }
}
