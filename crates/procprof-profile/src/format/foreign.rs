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
    Error::Unrecognized { first: bytes[..bytes.len().min(64)].escape_ascii().to_string() }
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
        let cases: [(&[u8], &str, &str); 15] = [
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
            (b"\xca\xfe\xba\xbe\0\0\0\x41", "no known profile format", "begins with"),
            (b"v 12\nhello\n", "no known profile format", "begins with"),
        ];
        for (bytes, name, advice) in cases {
            let error = error(bytes);
            assert!(error.contains(name) && error.contains(advice), "{error}");
        }
    }
}
