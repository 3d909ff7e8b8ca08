//! Files that people take for profiles and no decoder reads, known by their first bytes; each with what makes a profile
//! of it.

use super::{Detect, json};
use crate::Error;

/// One kind of file.
struct Foreign {
    name: &'static str,
    is_it: fn(&[u8]) -> bool,
    advice: &'static str,
}

const KNOWN: &[Foreign] = &[
    Foreign {
        name: "a recording of perf in the other byte order, or of a version before 2.6.39",
        is_it: |bytes| begins(bytes, &[b"2ELIFREP", b"PERFFILE", b"ELIFFREP"]),
        advice: "`perf script -i FILE >FILE.txt` makes a text of it that is read",
    },
    Foreign {
        name: "an execution trace of Go",
        is_it: |bytes| {
            bytes.starts_with(b"go 1.")
                && bytes.get(..16).is_some_and(|head| head[5..].windows(7).any(|words| words == b" trace\0"))
        },
        advice: "`go tool trace -pprof=net|sync|syscall|sched FILE` makes profiles of it",
    },
    Foreign {
        name: "Ruby's marshalled objects, which stackprof writes",
        is_it: |bytes| begins(bytes, &[b"\x04\x08{", b"\x04\x08}"]),
        advice: "`stackprof --json FILE` makes JSON of it that is read; so does `raw: true` with JSON when recording",
    },
    Foreign {
        name: "a recording of heaptrack",
        is_it: is_heaptrack,
        advice: "`heaptrack_print -f FILE -F stacks.folded` makes collapsed stacks of it",
    },
    Foreign {
        name: "a heap dump of a JVM (HPROF)",
        is_it: |bytes| begins(bytes, &[b"JAVA PROFILE 1.0"]),
        advice: "it has objects and no profile; Eclipse MAT reads it, and `jcmd PID JFR.start` records allocations",
    },
    Foreign {
        name: "a heap snapshot of V8",
        is_it: |bytes| json::detect(bytes, json::Form::HeapSnapshot) == Detect::Yes,
        advice: "it has objects and no stacks; DevTools reads it, and `node --heap-prof` records a .heapprofile",
    },
    Foreign {
        name: "a recording of Event Tracing for Windows (.etl)",
        is_it: is_etl,
        advice: "`samply import FILE` or `xperf -i FILE -o FILE.txt -a stack` reads it on Windows; Firefox's and \
                 speedscope's formats are read",
    },
    Foreign {
        name: "a trace of .NET (nettrace)",
        is_it: |bytes| begins(bytes, &[b"Nettrace", b"!FastSerialization"]),
        advice: "`dotnet-trace convert --format Speedscope FILE` makes a file of it that is read",
    },
    Foreign {
        name: "a program or library of macOS (Mach-O)",
        is_it: |bytes| {
            begins(bytes, &[b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe"])
                || is_fat(bytes)
        },
        advice: "it holds no profile; record one, for example by `samply record`",
    },
    Foreign {
        name: "a program or library (ELF)",
        is_it: |bytes| bytes.starts_with(b"\x7fELF"),
        advice: "it holds no profile; of several arguments the first may be the binary",
    },
    Foreign {
        name: "a recording of memray",
        is_it: |bytes| {
            let head = &bytes[..bytes.len().min(24)];
            head.starts_with(b"memray\0") || head.starts_with(b"\x04\"M\x18") && contains(head, b"memray")
        },
        advice: "`memray transform speedscope FILE` makes a file of it that is read",
    },
    Foreign {
        name: "a profile of gprof",
        is_it: |bytes| begins(bytes, &[b"gmon\x01", b"gmon\0", b"Flat profile:", b"Call graph (explanation follows)"]),
        advice: "it has no stacks, as text neither; `perf record -g PROGRAM` or `procprof record -- PROGRAM` records them",
    },
    Foreign {
        name: "a profile of Perl's Devel::NYTProf",
        is_it: |bytes| begins(bytes, &[b"NYTProf "]),
        advice: "`nytprofcalls FILE >FILE.folded` makes collapsed stacks of it",
    },
    Foreign {
        name: "a log of V8 (`node --prof`)",
        is_it: |bytes| begins(bytes, &[b"v8-version,"]) || json::detect(bytes, json::Form::V8Log) == Detect::Yes,
        advice: "`node --cpu-prof` records a .cpuprofile, which is read",
    },
    Foreign {
        name: "a report of macOS' `sample` or Activity Monitor",
        is_it: |bytes| begins(bytes, &[b"Analysis of sampling", b"Sampling process "]),
        advice: "`stackcollapse-sample.awk FILE >FILE.folded` or `inferno-collapse-sample` makes collapsed stacks of it",
    },
    Foreign {
        name: "an export of Instruments' xctrace",
        is_it: |bytes| contains(&bytes[..bytes.len().min(1024)], b"<trace-query-result"),
        advice: "`inferno-collapse-xctrace FILE >FILE.folded` makes collapsed stacks of it; Instruments' Deep Copy is read",
    },
    Foreign {
        name: "the output of DTrace",
        is_it: |bytes| {
            let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
            first.trim_ascii_start().starts_with(b"CPU ") && contains(first, b"FUNCTION:NAME")
        },
        advice: "`stackcollapse.pl FILE >FILE.folded` makes collapsed stacks of it",
    },
    Foreign {
        name: "a report of Android's simpleperf",
        is_it: |bytes| begins(bytes, &[b"SIMPLEPERF"]),
        advice: "`report_sample.py` of the NDK makes text of perf.data that is read",
    },
    Foreign {
        name: "a method trace of Android's runtime (ART)",
        is_it: |bytes| begins(bytes, &[b"*version\n"]) || bytes.starts_with(b"SLOW") && bytes.get(5..6) == Some(&[0]),
        advice: "Firefox's profiler (profiler.firefox.com) opens it and saves a file that is read",
    },
    Foreign {
        name: "a profile of GHC",
        is_it: |bytes| {
            let head = &bytes[..bytes.len().min(1024)];
            contains(head, b"Time and Allocation Profiling Report")
                || json::detect(bytes, json::Form::Ghc) == Detect::Yes
        },
        advice: "`inferno-collapse-ghcprof FILE.prof >FILE.folded` makes collapsed stacks of the text that `+RTS -p` writes",
    },
    Foreign {
        name: "a function trace of Xdebug",
        is_it: |bytes| {
            let head = &bytes[..bytes.len().min(256)];
            begins(head, &[b"Version: ", b"TRACE START"]) && contains(head, b"TRACE START")
        },
        advice: "`xdebug.mode=profile` writes a cachegrind file, which is read",
    },
    Foreign { name: "a ZIP archive", is_it: |bytes| bytes.starts_with(b"PK\x03\x04"), advice: "unpack it first" },
    Foreign {
        name: "a trace of Perfetto",
        is_it: is_perfetto,
        advice: "`traceconv json FILE FILE.json` makes trace events of it that are read; \
                 `--trace-startup-format=json` has Chromium write them",
    },
];

/// The error for bytes that are known, but are no profile that can be read.
pub(super) fn known(bytes: &[u8]) -> Option<Error> {
    let foreign = KNOWN.iter().find(|foreign| (foreign.is_it)(bytes))?;
    Some(Error::Foreign { name: foreign.name, advice: foreign.advice })
}

/// The error for bytes that nothing has recognised.
pub(super) fn unrecognized(bytes: &[u8]) -> Error {
    let head = &bytes[..bytes.len().min(64)];
    let is_control = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x1b);
    let is_text = !head.iter().any(is_control)
        && match std::str::from_utf8(head) {
            Ok(_) => true,
            // A character may be cut.
            Err(error) => error.error_len().is_none(),
        };
    Error::Unrecognized { first: is_text.then(|| head.escape_ascii().to_string()) }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    memchr::memmem::find(bytes, text).is_some()
}

fn begins(bytes: &[u8], with: &[&[u8]]) -> bool {
    with.iter().any(|with| bytes.starts_with(with))
}

/// `v 10400 3`: the version of heaptrack and that of its format, in hexadecimal, then `X` and the command.
fn is_heaptrack(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let version = lines
        .next()
        .and_then(|line| line.strip_prefix(b"v "))
        .is_some_and(|rest| rest.len() < 20 && rest.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b' '));
    version && lines.next().is_some_and(|line| begins(line, &[b"X ", b"x "]))
}

/// Several architectures in one file; a class of Java has the same magic, but a version where the number of
/// architectures is.
fn is_fat(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\xca\xfe\xba\xbe")
        && bytes.get(4..8).is_some_and(|count| count[..3] == [0; 3] && (1..20).contains(&count[3]))
}

/// A buffer of some KiB, whose first event is the header of the log: version, type (32 or 64 bits), marker.
fn is_etl(bytes: &[u8]) -> bool {
    let size = bytes.first_chunk::<4>().map_or(0, |size| u32::from_le_bytes(*size));
    size > 0 && size % 1024 == 0 && size <= 16 << 20 && matches!(bytes.get(0x4a..0x4c), Some([1 | 2, 0xc0]))
}

/// Packets, each a field 1 with a length: three at least, the first with a field of small number.
fn is_perfetto(bytes: &[u8]) -> bool {
    let mut reader = super::protobuf::Reader::new(bytes);
    let mut packets = 0;
    while packets < 20 {
        match reader.field() {
            Ok(Some(field)) if field.number == 1 && field.bytes().is_ok_and(|packet| !packet.rest().is_empty()) => {
                packets += 1
            }
            Ok(None) => break,
            Err(_) if packets >= 3 => break,
            _ => return false,
        }
    }
    packets >= 3
}

#[cfg(test)]
mod tests {
    use crate::format::fixtures::error;

    #[test]
    fn foreign_files_are_named_with_what_converts_them() {
        let etl = [&0x10000u32.to_le_bytes()[..], &[0; 0x44], &[2, 0, 2, 0xc0], &[0; 50]].concat();
        let cases: [(&[u8], &str, &str); 34] = [
            (b"2ELIFREP\0\0\0\0\0\0\0\x68", "a recording of perf in the other byte order", "perf script"),
            (b"go 1.26 trace\0\0\0\x01", "an execution trace of Go", "go tool trace -pprof"),
            (b"\x04\x08{\x0d:\x0cversionf", "Ruby's marshalled objects", "stackprof --json"),
            (b"v 10400 3\nX /usr/bin/x\n", "a recording of heaptrack", "heaptrack_print"),
            (b"JAVA PROFILE 1.0.2\0\0\0\0\x08", "a heap dump of a JVM", "Eclipse MAT"),
            (b"{\"snapshot\":{\"meta\":{", "a heap snapshot of V8", "--heap-prof"),
            (&etl, "a recording of Event Tracing for Windows", "samply import"),
            (b"Nettrace\x14\0\0\0!FastSerialization.1", "a trace of .NET", "dotnet-trace convert"),
            (b"\xcf\xfa\xed\xfe\x0c\0\0\x01", "a program or library of macOS", "samply record"),
            (b"\xca\xfe\xba\xbe\0\0\0\x02", "a program or library of macOS", "samply record"),
            (b"\x7fELF\x02\x01\x01", "a program or library (ELF)", "the first may be the binary"),
            (b"PK\x03\x04\x14\0", "a ZIP archive", "unpack"),
            (b"\x0a\x02\x50\x01\x0a\x02\x50\x02\x0a\x02\x50\x03", "a trace of Perfetto", "traceconv json"),
            (b"\xca\xfe\xba\xbe\0\0\0\x41", "no known profile format", "binary data"),
            (b"v 12\nhello\n", "no known profile format", "begins with"),
            (b"\x04\"M\x18\x60@\x82memray\0\x0c", "a recording of memray", "memray transform speedscope"),
            (b"gmon\x01\0\0\0", "a profile of gprof", "perf record"),
            (b"Flat profile:\n\nEach sample", "a profile of gprof", "perf record"),
            (b"NYTProf 5 0\n#", "Devel::NYTProf", "nytprofcalls"),
            (b"v8-version,11,3,244,8,-node.25,0\n", "a log of V8", "--cpu-prof"),
            (b"{\"code\": [{\"name\":\"f\"}], \"ticks\": []}", "a log of V8", "--cpu-prof"),
            (b"Analysis of sampling x (pid 7) every 1 millisecond\n", "macOS' `sample`", "stackcollapse-sample.awk"),
            (b"<?xml version=\"1.0\"?>\n<trace-query-result>\n", "xctrace", "inferno-collapse-xctrace"),
            (b"CPU     ID                    FUNCTION:NAME\n  0   7  :tick-60s\n", "DTrace", "stackcollapse.pl"),
            (b"SIMPLEPERF\x01\0", "simpleperf", "report_sample.py"),
            (b"*version\n3\ndata-file-overflow=false\n", "ART", "Firefox's profiler"),
            (b"SLOW\x03\0\x20\0", "ART", "Firefox's profiler"),
            (b"\tSun Aug  3 10:00 2025 Time and Allocation Profiling Report  (Final)\n", "GHC", "ghcprof"),
            (b"{\"program\": \"x\", \"arguments\": [], \"rts_arguments\": [\"-pj\"]}", "GHC", "ghcprof"),
            (b"Version: 3.2.0\nFile format: 4\nTRACE START [2026-01-01 10:00:00]\n", "Xdebug", "xdebug.mode=profile"),
            (b"\x7f\0\x01\x02", "binary data of no known profile format", "this is"),
            (b"\xff\xfb\x90", "binary data of no known profile format", "this is"),
            (b"{\"hello\": 1}", "no known profile format", "hello"),
            (b"hello\n", "no known profile format", "hello"),
        ];
        for (bytes, name, advice) in cases {
            let error = error(bytes);
            assert!(error.contains(name) && error.contains(advice), "{error}");
        }
    }
}
