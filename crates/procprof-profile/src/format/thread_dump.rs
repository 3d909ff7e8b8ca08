//! Thread dumps of a JVM: what `jstack`, `jcmd PID Thread.print` and SIGQUIT print.
//!
//! ```text
//! 2026-01-01 10:00:00
//! Full thread dump OpenJDK 64-Bit Server VM (17.0.1+12 mixed mode, sharing):
//!
//! "main" #1 prio=5 os_prio=0 cpu=55.12ms elapsed=3.01s tid=0x00007f5c nid=0x1a03 waiting on condition  [0x00007f5d]
//!    java.lang.Thread.State: TIMED_WAITING (sleeping)
//!     at java.lang.Thread.sleep(java.base@17.0.1/Native Method)
//!     - locked <0x000000008f0a1b20> (a java.lang.Object)
//!     at Main.main(Main.java:5)
//! ```
//! A thread is a sample of 1 (`thread`), leaf first, with the labels `thread`, `state` and `tid` (the `nid`, which is
//! the system's number of the thread). Threads of the JVM itself have no stack. A file may have several dumps, whose
//! samples are added. Locks, heap sizes and the stacks that are repeated below found deadlocks are passed over.

use super::call_tree::{self, CallTree, Frame};
use super::{Detect, Format, Limits};
use crate::text::{Line, Lines, OddLines};
use crate::{LocationId, Profile, Result};

/// Name of the format.
pub const NAME: &str = "java-threads";

/// The row of the format table.
pub(super) const FORMAT: Format =
    Format { name: NAME, help: "thread dumps of a JVM (jstack, SIGQUIT)", detect, decode, events: None, encode: None };

const HEADING: &[u8] = b"Full thread dump";
/// The only frame of a thread without Java code.
const NO_STACK: &str = "[no Java stack]";
/// The starts of lines that are no threads.
const PASSED_OVER: [&[u8]; 12] = [
    b"- ",
    b"No compile task",
    b"Compiling: ",
    b"Locked ownable synchronizers:",
    b"JNI global ref",
    b"Threads class SMR info:",
    b"_java_thread_list=",
    b"_to_delete_list=",
    b"0x",
    b"}",
    b"Carrying virtual thread",
    b"Mounted virtual thread",
];

/// Whether the bytes are a thread dump: its header, perhaps behind the time.
pub fn detect(bytes: &[u8]) -> Detect {
    for line in Lines::new(bytes).filter(|line| !line.text.is_empty()).take(2) {
        if line.text.starts_with(HEADING) {
            return Detect::Yes;
        }
        if line.is_cut && (HEADING.starts_with(line.text) || is_time(line.text)) {
            return Detect::NeedMore;
        }
        if !is_time(line.text) {
            return Detect::No;
        }
    }
    if bytes.is_empty() { Detect::NeedMore } else { Detect::No }
}

/// Whether a line has digits, dashes and colons alone, as `2026-01-01 10:00:00`.
fn is_time(line: &[u8]) -> bool {
    line.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b':' | b' ' | b'.'))
}

/// Decodes the threads of all dumps.
///
/// # Errors
/// [`crate::Error::Malformed`] without any thread, [`crate::Error::TooLarge`] past the depth limit.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut tree = CallTree::new(NAME, &[("thread", "count")], bytes.len(), limits);
    tree.builder.period("thread", "count", 1);
    let mut reader = Reader { tree, thread: None, frames: Vec::new(), section: Section::Threads };
    let mut odd = OddLines::default();
    for line in Lines::new(bytes) {
        let read = reader.read(&line);
        odd.keep(&line, read)?;
    }
    reader.end_thread()?;
    let profile = reader.tree.finish()?;
    odd.end(NAME, profile.sample_count() == 0, warnings)?;
    Ok(profile)
}

/// A part of the text.
#[derive(Clone, Copy, PartialEq)]
enum Section {
    Threads,
    /// Sizes of the heap, up to an empty line.
    Heap,
    /// Deadlocks, which repeat stacks, up to the next dump.
    Deadlocks,
    /// A thread whose header is broken, up to an empty line.
    Broken,
}

/// The line above a stack.
struct ThreadHeader {
    name: String,
    state: String,
    tid: Option<i64>,
}

impl ThreadHeader {
    /// Reads `"NAME" … nid=0x1a03 waiting on condition  [0x00007f5d]`.
    fn parse(text: &str) -> Option<ThreadHeader> {
        let (name, rest) = text.strip_prefix('"')?.rsplit_once('"')?;
        let (_, behind) = rest.split_once("nid=")?;
        let (nid, state) = behind.split_once(' ').unwrap_or((behind, ""));
        let tid = match nid.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16).ok(),
            None => nid.parse().ok(),
        };
        // From JDK 19 on the number in brackets is the system's.
        let state = state.split('[').next().unwrap_or_default().trim();
        Some(ThreadHeader { name: name.to_owned(), state: state.to_owned(), tid })
    }
}

struct Reader {
    tree: CallTree,
    thread: Option<ThreadHeader>,
    /// Leaf first.
    frames: Vec<LocationId>,
    section: Section,
}

impl Reader {
    fn read(&mut self, line: &Line<'_>) -> Result<()> {
        let text = line.text;
        if text.starts_with(HEADING) {
            self.section = Section::Threads;
            return self.end_thread();
        }
        if text.is_empty() {
            if matches!(self.section, Section::Heap | Section::Broken) {
                self.section = Section::Threads;
            }
            return Ok(());
        }
        match self.section {
            Section::Deadlocks => return if is_foreign_to_deadlocks(text) { Err(odd(line)) } else { Ok(()) },
            Section::Heap | Section::Broken => return Ok(()),
            Section::Threads => {}
        }
        if text == b"Heap" {
            self.section = Section::Heap;
            return self.end_thread();
        }
        if text.starts_with(b"Found ") && text.ends_with(b"deadlock:") {
            self.section = Section::Deadlocks;
            return self.end_thread();
        }
        let whole = String::from_utf8_lossy(text);
        if let Some(header) = ThreadHeader::parse(&whole) {
            self.end_thread()?;
            self.thread = Some(header);
        } else if text.starts_with(b"\"") {
            self.end_thread()?;
            self.section = Section::Broken;
            return Err(odd(line));
        } else if let (Some(state), Some(thread)) = (whole.strip_prefix("java.lang.Thread.State: "), &mut self.thread) {
            thread.state = state.split(' ').next().unwrap_or_default().to_owned();
        } else if let (Some(call), true) = (whole.strip_prefix("at "), self.thread.is_some()) {
            let frame = self.frame(call);
            self.tree.check_depth(self.frames.len() + 1)?;
            self.frames.push(frame);
        } else if !is_time(text) && !PASSED_OVER.iter().any(|start| text.starts_with(start)) {
            return Err(odd(line));
        }
        Ok(())
    }

    /// The frame of `java.lang.Thread.sleep(java.base@17.0.1/Thread.java:340)`.
    fn frame(&mut self, call: &str) -> LocationId {
        let (name, place) = call.strip_suffix(')').and_then(|call| call.rsplit_once('(')).unwrap_or((call, ""));
        // The module or loader before a class; a `/` of a lambda stays.
        let name = match name.split_once('/') {
            Some((module, name)) if module.contains('@') || name.starts_with('/') => name.trim_start_matches('/'),
            _ => name,
        };
        let place = place.rsplit('/').next().unwrap_or_default();
        let (file, line) = place
            .rsplit_once(':')
            .and_then(|(file, line)| Some((file, line.parse().ok()?)))
            .unwrap_or((if place.ends_with(".java") { place } else { "" }, 0));
        self.tree.frame(&Frame { name, file, line, ..Frame::default() })
    }

    fn end_thread(&mut self) -> Result<()> {
        let frames = std::mem::take(&mut self.frames);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let mut node = call_tree::ROOT;
        if frames.is_empty() {
            let frame = self.tree.frame(&Frame { name: NO_STACK, ..Frame::default() });
            node = self.tree.child(node, frame)?;
        }
        for frame in frames.into_iter().rev() {
            node = self.tree.child(node, frame)?;
        }
        let builder = &mut self.tree.builder;
        let mut labels = vec![builder.text_label("thread", &thread.name)];
        if !thread.state.is_empty() {
            labels.push(builder.text_label("state", &thread.state));
        }
        labels.extend(thread.tid.map(|tid| builder.number_label("tid", tid, "")));
        let labels = self.tree.labels(&labels);
        self.tree.add(node, labels, &[1]);
        Ok(())
    }
}

fn odd(line: &Line<'_>) -> crate::Error {
    line.error(NAME, "a thread or its stack")
}

/// Whether a line is none of those that tell of deadlocks.
fn is_foreign_to_deadlocks(text: &[u8]) -> bool {
    let known: [&[u8]; 9] = [
        b"=",
        b"\"",
        b"at ",
        b"- ",
        b"waiting ",
        b"which is held by",
        b"in JNI, ",
        b"Found ",
        b"Java stack information",
    ];
    !known.iter().any(|start| text.starts_with(start)) && !is_time(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LabelValue;
    use crate::format::fixtures::{check, check_hostile, decoded};

    const DUMP: &str = "2026-01-01 10:00:00\nFull thread dump OpenJDK 64-Bit Server VM (17.0.1+12 mixed mode, sharing):\n\nThreads class SMR info:\n_java_thread_list=0x00007f, length=2, elements={\n0x00007f5c, 0x00007f5d\n}\n\n\"main\" #1 prio=5 os_prio=0 cpu=5.12ms elapsed=3.01s tid=0x00007f5c nid=0x1a03 waiting on condition  [0x00007f5d]\n   java.lang.Thread.State: TIMED_WAITING (sleeping)\n\tat java.lang.Thread.sleep(java.base@17.0.1/Native Method)\n\t- locked <0x000000008f0a1b20> (a java.lang.Object)\n\tat app//com.x.Main.main(Main.java:5)\n\n   Locked ownable synchronizers:\n\t- None\n\n\"VM Thread\" os_prio=0 cpu=1.00ms elapsed=3.00s tid=0x00007f5e nid=6661 runnable  \n\nJNI global refs: 15, weak refs: 0\n\nFound one Java-level deadlock:\n=============================\n\"a\":\n  waiting to lock monitor 0x00007f (object 0x00, a java.lang.Object),\n  which is held by \"b\"\n\tat Z.z(Z.java:1)\n\nFound 1 deadlock.\n\n";

    #[test]
    fn threads_have_their_state() {
        let decoded = decoded(DUMP.as_bytes());
        assert_eq!((decoded.format, decoded.warnings.as_slice()), (NAME, &[][..]));
        let profile = &decoded.profile;
        let about: Vec<(Vec<&str>, Vec<String>)> = profile
            .samples()
            .map(|sample| {
                let name = |id: &LocationId| profile.string(profile.function(profile.lines(*id)[0].function).name);
                let label = |label: &crate::Label| match label.value {
                    LabelValue::Text(text) => profile.string(text).to_owned(),
                    LabelValue::Number(number, _) => number.to_string(),
                };
                (sample.stack.iter().map(name).collect(), sample.labels.iter().map(label).collect())
            })
            .collect();
        let labels = |labels: [&str; 3]| labels.map(str::to_owned).to_vec();
        assert_eq!(
            about,
            [
                (vec!["java.lang.Thread.sleep", "com.x.Main.main"], labels(["main", "TIMED_WAITING", "6659"])),
                (vec![NO_STACK], labels(["VM Thread", "runnable", "6661"])),
            ]
        );
        check_hostile(DUMP.as_bytes());
    }

    #[test]
    fn dumps_of_a_log_are_added() {
        let log = format!("starting\n{DUMP}{DUMP}");
        let decoded = decoded(log.as_bytes());
        assert_eq!((decoded.profile.total(0), decoded.warnings.len()), (4, 1), "{:?}", decoded.warnings);
    }

    #[test]
    fn what_the_tool_wrote_is_read() {
        let profile = check("java-threads/jstack.txt", NAME).profile;
        assert_eq!(profile.total(0), 21);
    }
}
