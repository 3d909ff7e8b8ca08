//! Programs outside this workspace that the checks and tests use, and their Debian packages.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A program and the Debian package that has it.
const TOOLS: &[(&str, &str)] = &[
    ("go", "golang-go"),
    ("gcc", "gcc"),
    ("g++", "g++"),
    ("addr2line", "binutils"),
    ("dwz", "dwz"),
    ("debuginfod", "debuginfod"),
    ("objcopy", "binutils"),
    ("nm", "binutils"),
    ("jeprof", "libjemalloc-dev"),
    ("google-pprof", "google-perftools"),
    ("llvm-objdump", "llvm"),
    ("llvm-mc", "llvm"),
    ("objdump", "binutils"),
    ("llvm-symbolizer", "llvm"),
    ("llvm-cxxfilt-19", "llvm-19"),
    ("clang++-19", "clang-19"),
    ("chromium", "chromium"),
    ("chromedriver", "chromium-driver"),
    ("sqlite3", "sqlite3"),
    ("curl", "curl"),
    ("dot", "graphviz"),
    ("ps2pdf", "ghostscript"),
    ("pdftotext", "poppler-utils"),
    ("pdftoppm", "poppler-utils"),
    ("strace", "strace"),
    ("perf", "linux-perf"),
    ("mariadb", "mariadb-client"),
    ("promtool", "prometheus"),
    ("python3", "python3"),
    ("node", "nodejs"),
    ("php", "php-cli"),
    ("pkg-config", "pkgconf"),
    ("npm", "npm"),
    ("java", "default-jdk-headless"),
    ("keytool", "default-jdk-headless"),
    ("jlink", "default-jdk-headless"),
    ("setpriv", "util-linux"),
    ("mvn", "maven"),
    ("perl", "perl"),
    ("apt-get", "apt"),
    ("dpkg", "dpkg"),
    ("script", "bsdutils"),
    ("bash", "bash"),
    ("gzip", "gzip"),
    ("xz", "xz-utils"),
    ("zstd", "zstd"),
    ("mount", "mount"),
    ("unshare", "util-linux"),
    ("chattr", "e2fsprogs"),
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("qemu-aarch64", "qemu-user"),
];

/// Libraries the tests link C and C++ programs with, and files whose symbols they read, by the path of a file of theirs.
const LIBRARIES: &[(&str, &str)] = &[
    ("/usr/sbin/mariadbd", "mariadb-server-core"),
    ("/usr/lib/x86_64-linux-gnu/libLLVM.so.19.1", "libllvm19"),
    ("/usr/lib/x86_64-linux-gnu/libclang-cpp.so.19.1", "libclang-cpp19"),
    ("/usr/include/gperftools/profiler.h", "libgoogle-perftools-dev"),
    ("/usr/lib/python3.11/ensurepip/__init__.py", "python3-venv"),
    ("/usr/include/jemalloc/jemalloc.h", "libjemalloc-dev"),
    ("/usr/include/mariadb/mysql.h", "libmariadb-dev"),
    ("/usr/include/python3.11/Python.h", "python3-dev"),
    ("/usr/lib/php/20220829/mysqli.so", "php-mysql"),
    ("/usr/aarch64-linux-gnu/lib/libc.so", "libc6-dev-arm64-cross"),
    ("/usr/aarch64-linux-gnu/lib/libstdc++.so.6", "libstdc++6-arm64-cross"),
];

/// Installs the programs that the tests need by `apt-get` if permitted, otherwise names the missing ones.
pub(crate) fn ensure() -> Result<()> {
    install(&missing())?;
    refuse(&missing())
}

/// The same for some programs and files; each comes with the Debian package that has it.
pub(crate) fn ensure_present(needed: &[(&'static str, &'static str)]) -> Result<()> {
    let missing: Vec<_> = needed.iter().filter(|(name, _)| !found(name)).copied().collect();
    install(&missing)?;
    require(needed)
}

fn install(missing: &[(&str, &str)]) -> Result<()> {
    if missing.is_empty() || !is_root() || !found("apt-get") {
        return Ok(());
    }
    eprintln!("xtask: installing {}", packages(missing));
    apt(&["update", "-qq"])?;
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(missing.iter().map(|(_, package)| *package));
    apt(&arguments)
}

fn refuse(missing: &[(&str, &str)]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    bail!("missing: {}; on Debian: sudo apt-get install {}", names.join(", "), packages(missing))
}

/// Errs with the names of the programs and files that are not there; each comes with the Debian package that has it.
pub(crate) fn require(needed: &[(&'static str, &'static str)]) -> Result<()> {
    let missing: Vec<_> = needed.iter().filter(|(name, _)| !found(name)).copied().collect();
    refuse(&missing)
}

/// Installs a cargo subcommand when it is missing.
pub(crate) fn ensure_cargo_subcommand(name: &str) -> Result<()> {
    if found(name) || Path::new(&format!("{}/bin/{name}", cargo_home())).exists() {
        return Ok(());
    }
    eprintln!("xtask: installing {name}");
    let status = Command::new("cargo").args(["install", "--locked", name]).status().context("run cargo install")?;
    if !status.success() {
        bail!("missing: {name}, and `cargo install --locked {name}` failed; does crates.io answer?");
    }
    Ok(())
}

fn missing() -> Vec<(&'static str, &'static str)> {
    TOOLS.iter().chain(LIBRARIES).filter(|(name, _)| !found(name)).copied().collect()
}

fn packages(missing: &[(&str, &str)]) -> String {
    let names: std::collections::BTreeSet<&str> = missing.iter().map(|(_, package)| *package).collect();
    names.into_iter().collect::<Vec<_>>().join(" ")
}

/// Finds a program in `PATH`, or a file by its whole path.
fn found(name: &str) -> bool {
    if name.starts_with('/') {
        return Path::new(name).exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn cargo_home() -> String {
    std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{}/.cargo", std::env::var("HOME").unwrap_or_default()))
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|text| text.lines().any(|line| line.starts_with("Uid:\t0\t")))
}

fn apt(arguments: &[&str]) -> Result<()> {
    let status = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .context("run apt-get")?;
    if !status.success() {
        bail!("apt-get {} failed; do Debian's mirrors answer?", arguments.join(" "));
    }
    Ok(())
}
