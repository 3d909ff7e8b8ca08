//! Seed inputs of the fuzzer.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use procprof_profile::format::{self, FORMATS, Limits, pprof};

use super::{dense, elf, sql};

/// The records of a symbol index: `main` in `file`, 64 bytes of code with a call inlined into it; the layout is
/// described in `procprof_symbolize::index`.
const RECORDS: &[u8] = b"\x02\x02\x04\x04\x01\x01\x01\x02\x06\x00\x00\x01\x01\x00\x02\x01\x03\x00\x40\x13\x08mainfile\
\x00\x01\x01\x00\x01\x03\x04\x01\x10\x08\x02\x41\x01\x02\x01\x42\x04\x02\x01";

/// A heartbeat of a host with one service, as its agent writes it.
const HEARTBEAT: &str = r#"{"host":{"id":"00000000000000000000000000000001","name":"db","kernel":"6.8","cpus":2,
"memory_bytes":1,"version":"0.1.0","started_nanos":1,"labels":{"a":"b"},"hz":19,"hz_wanted":19,"missing":["x"],
"cpu_nanos":1,"resident_bytes":1,"spooled":[0,0],"spool_lost":0,"samples_lost":0,"services_left_out":0},
"services":[{"name":"s","process":[1,2],"processes":1,"program":"/s","labels":{},"types":[{"profile_type":"cpu",
"continuous":true}],"cpu_milli":1,"hints":[]}],"sent_nanos":1,"wait_seconds":30}"#;

/// The header of a pushed profile.
const PUSHED: &str = r#"{"host":"00000000000000000000000000000001","service":"s",
"id":"01890000-0000-7000-8000-000000000001","profile_type":"cpu","start_nanos":1,"duration_nanos":1,"capture":null,
"labels":{"a":"b"},"failure":null}"#;

/// The length of pieces, then two frames.
fn frames() -> Vec<u8> {
    let header = PUSHED.as_bytes();
    let frame = [&(header.len() as u32).to_le_bytes()[..], header, &3_u32.to_le_bytes(), b"abc"].concat();
    [&[7][..], &frame, &frame].concat()
}

/// `struct task_struct { int pid; }` and `typedef void (*btf_trace_sched_switch)(int)`, as the kernel describes its
/// types.
fn kernel_types() -> Vec<u8> {
    let types: [&[u32]; 5] = [
        &[1, 4 << 24 | 1, 4, 13, 2, 0],
        &[0, 1 << 24, 4, 32],
        &[17, 8 << 24, 4],
        &[0, 2 << 24, 5],
        &[0, 13 << 24 | 1, 0, 0, 2],
    ];
    let types: Vec<u8> = types.concat().iter().flat_map(|word| word.to_le_bytes()).collect();
    let strings = b"\0task_struct\0pid\0btf_trace_sched_switch\0";
    let words = [24, 0, types.len() as u32, types.len() as u32, strings.len() as u32];
    let header: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    [&[0x9f, 0xeb, 1, 0], &*header, &types, strings].concat()
}

/// `service.name=cart` as the resource of a process.
const CONTEXT: &[u8] = b"\x0a\x18\x0a\x16\x0a\x0cservice.name\x12\x06\x0a\x04cart";

/// Writes the inputs for a decoder into a folder.
pub(super) fn write(root: &Path, target: &str, part: &str, folder: &Path) -> Result<()> {
    match (target, part) {
        ("decode_profile", "packed") => packed(root, folder),
        ("decode_profile", part) => profiles(root, part, folder),
        ("host_input", "process_context") => inputs(folder, &[CONTEXT]),
        ("host_input", _) => inputs(folder, &[kernel_types()]),
        ("mysql_packet", part) => inputs(folder, &sql::inputs(part)),
        ("push_body", "heartbeat") => inputs(folder, &[HEARTBEAT]),
        ("push_body", _) => inputs(folder, &[frames()]),
        ("demangle", _) => {
            let path = root.join("crates/procprof-demangle/tests/names.txt");
            let names = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            let names: Vec<&str> = names.lines().filter_map(|name| name.strip_prefix("_Z")).collect();
            inputs(folder, &names)
        }
        ("symbol_file", part) => elf::write(root, part, folder),
        ("symbol_index", _) => fs::write(folder.join("records"), RECORDS).context("write an input"),
        ("symbol_answer", _) => inputs(
            folder,
            &["num_symbols: 1\n0x4006bd\thot_70\n0x4006f0  main--std::vector<int>::push_back\n", "0x1 ??\n"],
        ),
        ("symbol_text", "perf_map") => inputs(
            folder,
            &[
                "7f2a1c000000 1a0 LazyCompile:*fib /app/main.js:3\n7f2a1c000200 20 a b\n",
                "0x7f2a1c000000 0x100000 _ZN1a1bE\n",
            ],
        ),
        ("symbol_text", _) => inputs(
            folder,
            &[
                "ffffffff81000000 T _text\nffffffff81000100 t nf_hook\t[nf_tables]\n",
                "0 T a\n",
                "ffffffff81000040 W __x\n",
            ],
        ),
        _ => Ok(()),
    }
}

fn inputs(folder: &Path, inputs: &[impl AsRef<[u8]>]) -> Result<()> {
    for (index, input) in inputs.iter().enumerate() {
        fs::write(folder.join(format!("input{index}")), input).context("write an input")?;
    }
    Ok(())
}

/// Small recorded profiles, packed in each way; several members or frames in a file, too.
fn packed(root: &Path, folder: &Path) -> Result<()> {
    let plain = tempfile::tempdir().context("make a folder")?;
    profiles(root, "", plain.path())?;
    for entry in fs::read_dir(plain.path()).context("list a folder")? {
        let path = entry.context("list a folder")?.path();
        let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        if bytes.len() > 4096 || bytes.starts_with(&[0x1f, 0x8b]) {
            continue;
        }
        let name = path.file_name().unwrap_or_default().display();
        for program in ["gzip", "zstd", "xz", "bzip2"] {
            let output =
                Command::new(program).arg("-c").arg(&path).output().with_context(|| format!("run {program}"))?;
            ensure!(output.status.success(), "{program} fails: {}", String::from_utf8_lossy(&output.stderr));
            fs::write(folder.join(format!("{program}-{name}")), &output.stdout).context("write an input")?;
            fs::write(folder.join(format!("{program}-twice-{name}")), output.stdout.repeat(2))
                .context("write an input")?;
        }
    }
    Ok(())
}

/// Recorded profiles and made ones, of one format or of all; unpacked where the format's decoder is run by itself.
fn profiles(root: &Path, part: &str, folder: &Path) -> Result<()> {
    let own = part.strip_suffix("-threads").unwrap_or(part);
    for format in FORMATS.iter().filter(|format| own.is_empty() || own == format.name) {
        let recorded = root.join("testdata/formats").join(format.name);
        for entry in fs::read_dir(&recorded).with_context(|| format!("list {}", recorded.display()))? {
            let path = entry.context("list a folder")?.path();
            let name = path.file_name().unwrap_or_default().to_owned();
            let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
            if path.extension().is_some_and(|extension| {
                ["expect", "go", "austin", "collapsed"].iter().any(|other| extension == *other)
            }) {
                continue;
            }
            let is_packed = bytes.starts_with(&[0x1f, 0x8b]) && !own.is_empty();
            let bytes =
                if is_packed { pprof::encode(&format::decode(&bytes, &Limits::default())?.profile)? } else { bytes };
            fs::write(folder.join(name), bytes).context("write an input")?;
        }
        if let Some(dense) = dense::profile(format.name) {
            fs::write(folder.join(format!("dense-{}", format.name)), dense).context("write an input")?;
        }
    }
    Ok(())
}
