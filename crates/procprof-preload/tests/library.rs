//! The file itself: what it needs and what it gives.

use crate::build::{folder_of_tests, library, tool};

#[test]
fn no_symbol_is_newer_than_glibc_2_17() {
    let table = tool("objdump", &["-T", library().to_str().unwrap()]);
    let versions: Vec<&str> = table
        .split(|character: char| "() \t\n".contains(character))
        .filter_map(|word| word.strip_prefix("GLIBC_"))
        .collect();
    assert!(versions.len() > 50, "{table}");
    for version in versions {
        let number = |part: Option<&str>| part.map_or(0, |part| part.parse::<u32>().unwrap());
        let mut parts = version.split('.');
        let (major, minor) = (number(parts.next()), number(parts.next()));
        assert!((major, minor) <= (2, 17), "GLIBC_{version} in\n{table}");
    }
}

/// Exported functions replace the program's own: only the intended ones are exported.
#[test]
fn nothing_else_is_exported() {
    const FAMILY: &[&str] = &[
        "aligned_alloc",
        "calloc",
        "cfree",
        "free",
        "malloc",
        "malloc_usable_size",
        "memalign",
        "posix_memalign",
        "pvalloc",
        "realloc",
        "reallocarray",
        "valloc",
    ];
    /// Functions in which workers wait for work.
    const WAITS: &[&str] = &["accept", "accept4", "epoll_pwait", "epoll_pwait2", "epoll_wait"];
    /// Functions that create threads.
    const BIRTHS: &[&str] = &["pthread_create", "thrd_create"];
    /// Functions that own SIGPROF, wait for it, leave the process, and load filters.
    const SIGNALS: &[&str] = &[
        "__sigaction",
        "__sysv_signal",
        "bsd_signal",
        "execl",
        "execle",
        "execlp",
        "execv",
        "execve",
        "execveat",
        "execvp",
        "execvpe",
        "fexecve",
        "prctl",
        "sigaction",
        "sigaltstack",
        "sigignore",
        "siginterrupt",
        "signal",
        "sigset",
        "sigtimedwait",
        "sigwait",
        "sigwaitinfo",
        "ssignal",
        "syscall",
        "sysv_signal",
    ];
    let table = tool("nm", &["-D", "--defined-only", library().to_str().unwrap()]);
    let names: Vec<&str> = table.lines().filter_map(|line| line.split_whitespace().last()).collect();
    for name in FAMILY.iter().chain(SIGNALS).chain(WAITS).chain(BIRTHS) {
        assert!(names.contains(name), "{name}");
    }
    let is_operator = |name: &str| ["_Znw", "_Zna", "_Zdl", "_Zda"].iter().any(|start| name.starts_with(start));
    let is_meant = |name: &str| {
        [FAMILY, SIGNALS, WAITS, BIRTHS].iter().any(|names| names.contains(&name))
            || is_operator(name)
            || name.starts_with("procprof_v1_")
    };
    let others: Vec<&&str> = names.iter().filter(|name| !is_meant(name)).collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(names.iter().filter(|name| is_operator(name)).count(), 20);
}

/// A Rust program that embeds the agent keeps its allocator: only this library has a `malloc`, and the agent names no
/// `#[global_allocator]`.
#[test]
fn the_agent_is_no_allocator() {
    let agents: Vec<_> = std::fs::read_dir(folder_of_tests())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.file_name().unwrap().to_string_lossy().starts_with("libprocprof_agent-")
                && path.extension().is_some_and(|end| end == "rlib")
        })
        .collect();
    assert!(!agents.is_empty());
    for agent in agents {
        let table = tool("nm", &["--defined-only", "--quiet", "--format=posix", agent.to_str().unwrap()]);
        let names = table.lines().filter_map(|line| line.split_whitespace().next());
        for name in names {
            let is_allocator = ["malloc", "free", "calloc", "realloc", "_Znwm", "_ZdlPv"].contains(&name)
                || name.contains("__rust_alloc");
            assert!(!is_allocator, "{} defines {name}", agent.display());
        }
    }
}
