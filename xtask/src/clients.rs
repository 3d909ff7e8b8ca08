//! Packages that tests use from the registries of other languages: MySQL clients, fetched into `target/mysql-clients`,
//! the linter and generators for the OpenAPI document, fetched into `target/openapi`, the engines that read archives and
//! servers that hold them, fetched into `target/engines`, and pprof, which reports are compared with, fetched into
//! `target/peers`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The list of the tests' clients and their dependencies.
const CLIENTS: &str = "crates/procprof/tests/mysql/clients";
/// Drivers of Java, as Maven names them.
const DRIVERS: &[&str] = &[
    "mysql:mysql-connector-java:5.1.49",
    "com.mysql:mysql-connector-j:8.4.0",
    "com.mysql:mysql-connector-j:9.5.0",
    "org.mariadb.jdbc:mariadb-java-client:2.7.12",
    "org.mariadb.jdbc:mariadb-java-client:3.5.6",
];
/// Versions of Hibernate ORM, which `hibernate.xml` asks for.
const HIBERNATE: &[&str] = &["6.6.33.Final", "7.4.15.Final"];
/// Debian's packages of clients that only it has, of the machine's release. They are unpacked, not installed. What else
/// they need comes with the programs of `tools`.
const DEBIAN: &[&str] = &[
    "odbc-mariadb",
    "unixodbc",
    "libodbc2",
    "libodbccr2",
    "libodbcinst2",
    "libltdl7",
    "libdbi-perl",
    "libdbd-mariadb-perl",
    "libdbd-mysql-perl",
];
/// The list of the linter and generators for the OpenAPI document.
const OPENAPI: &str = "crates/procprof-server/tests/openapi";

/// The list of the engines that read archives.
const ENGINES: &str = "crates/procprof-archive/tests/engines";
/// The registry of Go modules.
const GO: &str = "the Go module proxy";
/// The version of pprof that reports are compared with. The Go toolchain has an older one.
const PPROF: &str = "github.com/google/pprof@v0.0.0-20261105003125-4bf881d7fb0b";
/// Servers of buckets in Go, by name: S3 and Google Cloud Storage.
const GO_BUCKETS: &[(&str, &str)] = &[
    ("versitygw", "github.com/versity/versitygw/cmd/versitygw@v1.8.0"),
    ("fake-gcs-server", "github.com/fsouza/fake-gcs-server@v1.56.1"),
];
/// The list of that of Azure, in Node.
const AZURITE: &str = "crates/procprof-archive/tests/buckets/azurite";
/// The same for `soak long`: Spark is 450 MB packed, and a minute of a core goes into its installation.
const SPARK: &str = "crates/procprof-archive/tests/engines/spark";

/// Fetches missing packages.
pub(crate) fn ensure() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace")?;
    let peers = root.join("target/peers");
    once(&peers, "pprof", GO, PPROF, || go_install(PPROF, &peers.join("pprof")))?;
    let (listed, place) = (root.join(OPENAPI), root.join("target/openapi"));
    python(&listed, &place)?;
    node(&listed, &place)?;
    ensure_engines()?;
    ensure_buckets()?;
    let (listed, place) = (root.join(CLIENTS), root.join("target/mysql-clients"));
    python(&listed, &place)?;
    node(&listed, &place)?;
    once(&place, "java", "Maven Central", &DRIVERS.join("\n"), || {
        let folder = format!("-DoutputDirectory={}", place.join("java").display());
        for driver in DRIVERS {
            run(Command::new("mvn").args(["-q", "-B", "dependency:copy", &format!("-Dartifact={driver}"), &folder]))?;
        }
        Ok(())
    })?;
    hibernate(&listed.join("hibernate.xml"), &place)?;
    debian(&place)?;
    let sources = std::fs::read_to_string(listed.join("main.go"))? + &std::fs::read_to_string(listed.join("go.sum"))?;
    once(&place, "go", GO, &sources, || {
        run(Command::new("go").current_dir(&listed).args(["build", "-o"]).arg(place.join("go/client")).arg("."))
    })?;
    rust(&listed.join("rust"), &place)
}

/// Fetches the engines that read archives, if they are missing.
pub(crate) fn ensure_engines() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace")?;
    python(&root.join(ENGINES), &root.join("target/engines"))
}

/// Fetches the servers of buckets, if they are missing.
///
/// # Errors
/// What cannot be fetched.
pub(crate) fn ensure_buckets() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace")?;
    let engines = root.join("target/engines");
    for (name, module) in GO_BUCKETS {
        once(&engines, name, GO, module, || go_install(module, &engines.join(name)))?;
    }
    node(&root.join(AZURITE), &engines.join("azurite"))
}

/// Fetches missing packages of the tests that `soak long` runs.
pub(crate) fn ensure_long() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace")?;
    python(&root.join(SPARK), &root.join("target/spark"))
}

/// Fetches Hibernate with all that it needs, a folder for each version.
fn hibernate(project: &Path, place: &Path) -> Result<()> {
    let version = std::fs::read_to_string(project)? + &HIBERNATE.join("\n");
    once(place, "hibernate", "Maven Central", &version, || {
        for version in HIBERNATE {
            let folder = format!("-DoutputDirectory={}", place.join("hibernate").join(version).display());
            run(Command::new("mvn").args(["-q", "-B", "dependency:copy-dependencies", &folder]).args([
                "-f".as_ref(),
                project.as_os_str(),
                format!("-Dhibernate={version}").as_ref(),
            ]))?;
        }
        Ok(())
    })
}

/// Fetches Debian's packages with lists of its own, which takes no root, and unpacks them.
fn debian(place: &Path) -> Result<()> {
    let release = std::fs::read_to_string("/etc/os-release").context("read the release in /etc/os-release")?;
    once(place, "debian", "Debian's mirror", &(release + &DEBIAN.join("\n")), || {
        let folder = place.join("debian");
        let apt = tempfile::tempdir().context("a folder for apt-get")?;
        for part in ["state/lists/partial", "cache/archives/partial", "packages"] {
            std::fs::create_dir_all(apt.path().join(part)).with_context(|| format!("create {part} for apt-get"))?;
        }
        let packages = apt.path().join("packages");
        let apt_get = |arguments: &[&str]| {
            let mut command = Command::new("apt-get");
            command.current_dir(&packages).args(["-qq", "-o", "APT::Update::Error-Mode=any"]);
            command.args(["-o", "APT::Sandbox::User=", "-o", "Dir::State::status=/var/lib/dpkg/status"]);
            command.arg("-o").arg(format!("Dir::State={}", apt.path().join("state").display()));
            command.arg("-o").arg(format!("Dir::Cache={}", apt.path().join("cache").display()));
            run(command.args(arguments))
        };
        apt_get(&["update"])?;
        apt_get(&[&["download"], DEBIAN].concat())?;
        for package in std::fs::read_dir(&packages).context("list what was downloaded")? {
            run(Command::new("dpkg").arg("-x").arg(package?.path()).arg(&folder))?;
        }
        Ok(())
    })
}

/// Builds the client in Rust, which is no member of the workspace.
fn rust(listed: &Path, place: &Path) -> Result<()> {
    let sources =
        std::fs::read_to_string(listed.join("src/main.rs"))? + &std::fs::read_to_string(listed.join("Cargo.lock"))?;
    once(place, "rust", "crates.io", &sources, || {
        let folder = place.join("rust");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        run(cargo
            .current_dir(listed)
            .args(["build", "--locked", "--quiet", "--target-dir"])
            .arg(folder.join("build")))?;
        std::fs::copy(folder.join("build/debug/several"), folder.join("several")).context("copy the client")?;
        // The dependencies are not needed again before the sources change.
        std::fs::remove_dir_all(folder.join("build")).context("remove what the client was built from")
    })
}

/// Fetches the listed packages of Python into an environment of their own.
fn python(listed: &Path, place: &Path) -> Result<()> {
    let (python, requirements) = (place.join("python"), listed.join("requirements.txt"));
    once(place, "python", "PyPI", &std::fs::read_to_string(&requirements)?, || {
        run(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
        // Python compiles the modules that a test imports.
        run(Command::new(python.join("bin/pip")).args(["install", "-q", "--no-compile", "-r"]).arg(&requirements))
    })
}

/// Fetches the listed packages of Node.
fn node(listed: &Path, place: &Path) -> Result<()> {
    once(place, "node", "the npm registry", &std::fs::read_to_string(listed.join("package-lock.json"))?, || {
        let node = place.join("node");
        std::fs::create_dir_all(&node).with_context(|| format!("create {}", node.display()))?;
        for file in ["package.json", "package-lock.json"] {
            std::fs::copy(listed.join(file), node.join(file)).with_context(|| format!("copy {file}"))?;
        }
        run(Command::new("npm").args(["ci", "--silent", "--prefix"]).arg(&node))
    })
}

/// Builds the program of a module into a folder.
fn go_install(module: &str, folder: &Path) -> Result<()> {
    run(Command::new("go").args(["install", module]).env("GOBIN", folder))
}

/// Fetches something from a registry unless it was fetched for the same `version`.
fn once(place: &Path, name: &str, registry: &str, version: &str, fetch: impl FnOnce() -> Result<()>) -> Result<()> {
    std::fs::create_dir_all(place).with_context(|| format!("create {}", place.display()))?;
    let mark = place.join(format!("{name}.version"));
    if std::fs::read_to_string(&mark).is_ok_and(|fetched| fetched == version) {
        return Ok(());
    }
    eprintln!("xtask: fetching {}", place.join(name).display());
    match std::fs::remove_dir_all(place.join(name)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove an older {name}"));
        }
        _ => {}
    }
    fetch().with_context(|| {
        format!("{registry} does not answer, or lacks what is listed: {}", place.join(name).display())
    })?;
    std::fs::write(&mark, version).with_context(|| format!("write {}", mark.display()))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("run {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}
