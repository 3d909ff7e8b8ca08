//! Response times of a server with 100,000 stored profiles: the list page and the list APIs over HTTP, compressed as
//! browsers ask for it.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::inputs;
use crate::product::{self, Served};
use crate::table::Table;
use crate::vitals::megabytes;

const PROFILES: u64 = 100_000;
/// Different contents; those of one content differ in time.
const CONTENTS: u64 = 500;
/// The field of the time in a profile: number 9, a varint.
const TIME_FIELD: u8 = 9 << 3;
const RUNS: usize = 100;
/// 1 September 2026, UTC.
const START: i64 = 1_788_220_800;
/// Nothing is deleted while it is measured.
const KEEP: [&str; 2] = ["--set", "proc_profile_file_retained_days=36500"];

pub(super) fn run() -> Result<()> {
    let procprof = product::procprof()?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let (foreign, data) = (folder.path().join("proc_profile"), folder.path().join("data"));
    fill(&foreign)?;
    let start = Instant::now();
    let import =
        Command::new(&procprof).args(["store", "import", "--tz", "UTC", "--data"]).arg(&data).arg(&foreign).output();
    let import = import.context("import")?;
    ensure!(import.status.success(), "store import: {}", String::from_utf8_lossy(&import.stderr));
    let imported = start.elapsed();
    let start = Instant::now();
    let server = Served::start(Command::new(&procprof), &data, &KEEP)?;
    let started = start.elapsed();
    let stored = server.rows("profiles", "node=imported")?.len();
    ensure!(stored as u64 == PROFILES, "{stored} of {PROFILES} profiles are listed");
    let mut table = Table::new(&["request", "bytes, gzip", "first byte, median", "95 %", "worst"]);
    for path in [
        "/proc_profile?node=imported",
        "/proc_profile?node=imported&type=cpu",
        "/proc_profile?node=imported&text=absent",
        "/search?function=f&percent=1",
        "/",
        "/api/profiles?node=imported&limit=100",
        "/api/profiles?limit=1000",
        "/api/retention",
    ] {
        table.row(measure(&server, path)?);
    }
    table.print(&format!("Pages with {PROFILES} profiles"));
    let busy = server.vitals()?;
    thread::sleep(Duration::from_secs(10));
    let vitals = server.vitals()?;
    let mut table = Table::new(&["what", "measured"]);
    table.row([format!("import of {PROFILES} files"), format!("{:.1} s", imported.as_secs_f64())]);
    table.row(["start over them".to_owned(), format!("{:.2} s", started.as_secs_f64())]);
    table.row(["resident right after these requests".to_owned(), megabytes(busy.resident)]);
    table.row(["resident 10 s later".to_owned(), megabytes(vitals.resident)]);
    table.row(["of it anonymous".to_owned(), megabytes(vitals.anonymous)]);
    table.print(&format!("Server over {PROFILES} profiles"));
    Ok(())
}

/// A folder as StarRocks leaves it.
fn fill(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).context("make the folder")?;
    let contents = (0..CONTENTS).map(inputs::small).collect::<Result<Vec<_>>>()?;
    for (number, content) in (0..PROFILES).zip(contents.iter().cycle()) {
        let start = START + 60 * number as i64;
        let time = jiff::Timestamp::from_second(start).context("a time of the bench")?;
        let name = format!("cpu-profile-{}-pprof.gz", time.strftime("%Y%m%d-%H%M%S"));
        let file = std::fs::File::create(folder.join(name)).context("make a profile")?;
        let mut packed = GzEncoder::new(file, Compression::fast());
        packed.write_all(content).and_then(|()| packed.write_all(&time_field(start))).context("write a profile")?;
        packed.finish().context("write a profile")?;
    }
    Ok(())
}

/// The time of a profile as its field; of a field that is there twice, the last counts.
pub(super) fn time_field(seconds: i64) -> Vec<u8> {
    let mut field = vec![TIME_FIELD];
    let mut rest = seconds as u64 * 1_000_000_000;
    while rest > 127 {
        field.push(rest as u8 | 128);
        rest >>= 7;
    }
    field.push(rest as u8);
    field
}

fn measure(server: &Served, path: &str) -> Result<Vec<String>> {
    let mut times = Vec::with_capacity(RUNS);
    let mut bytes = 0;
    for _ in 0..RUNS {
        let answer = crate::http::send("GET", &server.address, path, "Accept-Encoding: gzip\r\n", &[])?;
        ensure!(answer.status == 200, "{path}: {}", answer.status);
        bytes = answer.body.len();
        times.push(answer.first_byte);
    }
    times.sort_unstable();
    let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    Ok(vec![
        path.to_owned(),
        bytes.to_string(),
        milliseconds(times[RUNS / 2]),
        milliseconds(times[RUNS * 95 / 100]),
        milliseconds(times[RUNS - 1]),
    ])
}
