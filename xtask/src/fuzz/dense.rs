//! Profiles of many tiny parts that all differ: the most memory that few bytes can need.

/// The number of parts.
const COUNT: u64 = 500;

/// Such a profile in this format; `None` if its recorded profiles are as compact.
pub(super) fn profile(format: &str) -> Option<Vec<u8>> {
    Some(match format {
        "collapsed" => text("a;b 1\n", |index| format!("{index:x} 1\n")),
        "jemalloc" => text("heap_v2/1\n  t*: 1: 1 [0: 0]\n", |index| format!("@ {index:#x}\nt*:1:1[0:0]\n")),
        "heap-text" => {
            text("heap profile: 1: 1 [1: 1] @ heapprofile\n", |index| format!("1: {index} [1: {index}] @ {index:#x}\n"))
        }
        "contention" => text("--- contention:\ncycles/second=1\n", |index| format!("1 1 @ {index:#x}\n")),
        "symbolized" => {
            let symbols = text("--- symbol\nbinary=a\n", |index| format!("{index:#x} {index:x}\n"));
            let heap = text("---\n--- heap\nheap profile: 1: 1 [1: 1] @ heapprofile\n", |index| {
                format!("1: 1 [1: 1] @ {:#x}\n", index + 1)
            });
            [symbols, heap].concat()
        }
        "go-count" => text("goroutine profile: total 1\n", |index| format!("1 @ {index:#x}\n")),
        "threadz" => {
            text("--- threadz 1 ---\n\n", |index| format!("--- Thread 1 (name: a/1) stack: ---\n{index:#x}\n"))
        }
        "java" => {
            let samples =
                text("--- heapz 1 ---\nformat = java\nresolution = bytes\n", |index| format!("1 1 @ {index:#x}\n"));
            [samples, text("\n", |index| format!(" {index:#x} {index:x}\n"))].concat()
        }
        "gperftools-cpu" => {
            let header = [0, 3, 0, 100, 0].into_iter();
            let samples = (0..COUNT).flat_map(|index| [1, 1, index + 1]);
            header.chain(samples).chain([0, 1, 0]).flat_map(u64::to_le_bytes).collect()
        }
        "pprof" => pprof(),
        "perf-data" => perf_data(),
        "perf-script" => text("", |index| format!("a 1 1.0: 1 b:\n\t{index:x} {index:x} (c)\n\n")),
        "goroutines" => text("", |index| format!("goroutine {index} [a]:\nf{index:x}()\n\t/a.go:{index}\n\n")),
        "callgrind" => text("events: Ir\n", |index| format!("fn=({index}) {index:x}\n{index} 1\n")),
        "cpuprofile" => list(r#"{"nodes":["#, "]}", |index| {
            format!(r#"{{"id":{index},"callFrame":{{"functionName":"{index:x}"}},"hitCount":1}}"#)
        }),
        "heapprofile" => {
            let node = |index| format!(r#"{{"callFrame":{{"functionName":"{index:x}"}},"selfSize":1,"children":[]}}"#);
            list(r#"{"head":{"callFrame":{"functionName":"a"},"selfSize":1,"children":["#, "]}}", node)
        }
        "chrome-trace" => list("[", "]", |index| {
            format!(r#"{{"ph":"X","name":"{index:x}","ts":{index},"dur":1,"pid":1,"tid":{index}}}"#)
        }),
        "mojo" => mojo(),
        _ => return None,
    })
}

/// Samples of an address each.
fn perf_data() -> Vec<u8> {
    const SAMPLE: u64 = 9 | 2 << 32 | 16 << 48;
    let header = [u64::from_le_bytes(*b"PERFILE2"), 104, 80, 104, 80, 184, 16 * COUNT, 0, 0, 0, 0, 0, 0];
    let attribute = [1 | 64 << 32, 1, 1, 1, 0, 0, 0, 0, 0, 0];
    let samples = (0..COUNT).flat_map(|index| [SAMPLE, index]);
    header.into_iter().chain(attribute).chain(samples).flat_map(u64::to_le_bytes).collect()
}

fn list(head: &str, tail: &str, part: impl Fn(u64) -> String) -> Vec<u8> {
    let parts: Vec<String> = (1..=COUNT).map(part).collect();
    [head, &parts.join(","), tail].concat().into_bytes()
}

/// A thread, a text, a frame and a sample each.
fn mojo() -> Vec<u8> {
    let mut bytes = b"MOJ\x01".to_vec();
    for index in 1..=COUNT {
        let id = [0x80 | (index & 0x3f) as u8, (index >> 6) as u8];
        let name = format!("{index:x}\0");
        let [text, frame, reference] = [&[11][..], &[3], &[5]].map(|kind| [kind, &id].concat());
        bytes.extend([&[2, 1][..], name.as_bytes(), &text, name.as_bytes()].concat());
        bytes.extend([&frame[..], &id, &id, &[1], &reference, &[9, 1]].concat());
    }
    bytes
}

fn text(head: &str, part: impl Fn(u64) -> String) -> Vec<u8> {
    let parts: String = (1..=COUNT).map(part).collect();
    [head, &parts].concat().into_bytes()
}

/// Functions, locations, samples of two bytes or a few more each.
fn pprof() -> Vec<u8> {
    let mut bytes = vec![0x0a, 0, 0x32, 0];
    for index in 1..=COUNT {
        let id = [0x80 | (index & 0x7f) as u8, (index >> 7) as u8];
        let function = [&[0x2a, 3, 0x08][..], &id].concat();
        let location = [&[0x22, 3, 0x08][..], &id].concat();
        let sample = [&[0x12, 5, 0x08][..], &id, &[0x10, 1]].concat();
        bytes.extend([function, location, sample].concat());
    }
    bytes
}
