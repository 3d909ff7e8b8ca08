//! Stacks of goroutines as Go prints them: `goroutine` with `debug=2`, a panic, or SIGQUIT.
//!
//! ```text
//! goroutine 18 [chan receive, 5 minutes, locked to thread]:
//! main.wait(0xc000012080?)
//!     /src/main.go:10 +0x1d
//! created by main.main in goroutine 1
//!     /src/main.go:20 +0x37
//!
//! goroutine 21 gp=0xc000007c00 m=nil [sync.Mutex.Lock]:     as a program with GOTRACEBACK=system prints it
//! ```
//! The sample type is `goroutine`, as of the other forms of this profile. Labels are `state`, `created_by`, `wait`
//! in minutes, `leaked`, and those of the goroutine itself (`header`). What a crashing program prints before the first
//! goroutine is passed over, registers behind the last too.
//! Format: Go, `runtime/traceback.go`.

use super::call_tree::{self, CallTree, Frame};
use super::{Detect, Format, Limits};
use crate::text::OddLines;
use crate::{Error, LocationId, Place, Profile, Result};

mod header;

use header::GoroutineHeader;

/// Name of the format.
pub const NAME: &str = "goroutines";

/// The row of the format table.
pub(super) const FORMAT: Format = Format {
    name: NAME,
    help: "stacks of goroutines, with debug=2 or of a crash",
    detect,
    decode,
    events: None,
    encode: None,
};

/// The starts of a crash's text.
const CRASHES: [&str; 5] = ["panic: ", "fatal error: ", "SIGQUIT: ", "SIGSEGV: ", "SIGABRT: "];

/// Whether the bytes are stacks of goroutines.
pub fn detect(bytes: &[u8]) -> Detect {
    let mut is_crash = false;
    for text in bytes.split_inclusive(|byte| *byte == b'\n').take(200) {
        let is_cut = !text.ends_with(b"\n");
        let Ok(line) = std::str::from_utf8(text.trim_ascii_end()) else { return Detect::No };
        if GoroutineHeader::parse(line).is_some() {
            return Detect::Yes;
        }
        let begins = |crash: &str| line.starts_with(crash) || is_cut && crash.starts_with(line);
        let may_begin = CRASHES.iter().any(|crash| begins(crash))
            || is_cut && ("goroutine ".starts_with(line) || line.starts_with("goroutine "));
        is_crash |= may_begin;
        if !is_crash && !line.is_empty() {
            return Detect::No;
        }
    }
    Detect::NeedMore
}

/// Decodes stacks of goroutines.
///
/// # Errors
/// [`Error::Malformed`] without any goroutine, [`Error::TooLarge`] past the depth limit.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut tree = CallTree::new(NAME, &[("goroutine", "count")], bytes.len(), limits);
    tree.builder.period("goroutine", "count", 1);
    let mut reader = Reader {
        tree,
        header: None,
        frames: Vec::new(),
        function: None,
        creator: None,
        count: 0,
        odd: OddLines::default(),
        is_broken: false,
    };
    for (index, text) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        reader.read(&String::from_utf8_lossy(text.trim_ascii_end()), index + 1)?;
    }
    reader.end()?;
    if reader.count == 0 {
        return Err(Error::Malformed { format: NAME, place: Place::Line(1), what: "no goroutine".to_owned() });
    }
    reader.odd.warn(NAME, warnings);
    reader.tree.finish()
}

struct Reader {
    tree: CallTree,
    header: Option<GoroutineHeader>,
    /// Leaf first.
    frames: Vec<LocationId>,
    /// A function whose place is in the next line.
    function: Option<String>,
    creator: Option<String>,
    count: usize,
    odd: OddLines,
    /// Whether lines up to the next empty one belong to an odd line.
    is_broken: bool,
}

impl Reader {
    fn read(&mut self, line: &str, number: usize) -> Result<()> {
        if let Some(header) = GoroutineHeader::parse(line) {
            self.end()?;
            self.is_broken = false;
            self.header = Some(header);
            return Ok(());
        }
        if self.header.is_none() {
            // Text before the first goroutine is that of a crash; the lines below an odd one belong to it.
            let is_odd = line.starts_with("goroutine ") || self.count > 0 && !line.is_empty() && !is_end_of_crash(line);
            if is_odd && !self.is_broken {
                self.odd.add(number, line.chars().take(60).collect());
            }
            self.is_broken = is_odd || self.is_broken && !line.is_empty();
            return Ok(());
        }
        if line.is_empty() {
            return self.end();
        }
        if line.starts_with(['\t', ' ']) {
            let place = line.trim_start();
            if let Some(name) = self.function.take() {
                self.push(&name, place)?;
            }
            return Ok(());
        }
        if let Some(name) = self.function.take() {
            self.push(&name, "")?;
        }
        if let Some(creator) = line.strip_prefix("created by ") {
            self.creator = Some(creator.split(" in goroutine ").next().unwrap_or_default().to_owned());
        } else if line.starts_with("...") {
            // Frames that Go left out of a deep stack.
            self.push(line.trim_matches('.'), "")?;
        } else if let Some((name, _)) = line.strip_suffix(')').and_then(arguments) {
            self.function = Some(name.to_owned());
        } else {
            self.odd.add(number, line.chars().take(60).collect());
        }
        Ok(())
    }

    fn push(&mut self, name: &str, place: &str) -> Result<()> {
        // `/src/main.go:10 +0x1d`, perhaps with ` fp=0x… sp=0x… pc=0x…`.
        let path = place.split(" +0x").next().unwrap_or_default().split(" fp=0x").next().unwrap_or_default();
        let (file, line) =
            path.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?))).unwrap_or((path, 0));
        let frame = self.tree.frame(&Frame { name, file, line, ..Frame::default() });
        self.tree.check_depth(self.frames.len() + 1)?;
        self.frames.push(frame);
        Ok(())
    }

    /// Ends the goroutine that is open.
    fn end(&mut self) -> Result<()> {
        if let Some(name) = self.function.take() {
            self.push(&name, "")?;
        }
        let creator = self.creator.take();
        let Some(header) = self.header.take() else { return Ok(()) };
        let mut node = call_tree::ROOT;
        for frame in std::mem::take(&mut self.frames).into_iter().rev() {
            node = self.tree.child(node, frame)?;
        }
        let mut labels = vec![self.tree.builder.text_label("state", &header.state)];
        labels.extend(creator.map(|creator| self.tree.builder.text_label("created_by", &creator)));
        if header.minutes > 0 {
            labels.push(self.tree.builder.number_label("wait", header.minutes, "minutes"));
        }
        if header.is_leaked {
            labels.push(self.tree.builder.text_label("leaked", "true"));
        }
        for (key, value) in &header.labels {
            labels.push(self.tree.builder.text_label(key, value));
        }
        let labels = self.tree.labels(&labels);
        self.tree.add(node, labels, &[1]);
        self.count += 1;
        Ok(())
    }
}

/// Whether a line is one that follows the stacks of a crash: a register (`rip    0x46a1b3`), the status of the program.
fn is_end_of_crash(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_register = words.next().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        && words.next().is_some_and(|value| value.starts_with("0x"))
        && words.next().is_none();
    is_register || line.starts_with("exit status ") || line.starts_with("[recovered")
}

/// Name and arguments of a call, less the bracket at its end; brackets in the name (`main.(*T).f`) are not those of the
/// arguments.
fn arguments(call: &str) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    for (at, byte) in call.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' if depth == 0 => return Some((&call[..at], &call[at + 1..])).filter(|(name, _)| !name.is_empty()),
            b'(' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
