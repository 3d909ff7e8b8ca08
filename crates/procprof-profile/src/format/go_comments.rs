//! Names in the comments of Go's profiles with `debug=1`, which follow the stack that they are of.
//!
//! ```text
//! 3 @ 0x43bc10 0x40780f
//! # <tab> 0x43bc0f <tab> main.wait+0x2f <tab> /src/main.go:21
//! ```
//! The address is one less than the return address. Each address of a stack has its own line, calls that the compiler
//! inlined as well; functions of the runtime at the leaf and `runtime.goexit` have none. A function without a name is
//! its address alone.

use foldhash::HashMap;

use crate::parts::narrow;
use crate::text::Cursor;
use crate::{Addr, Function, Line, ProfileBuilder, Result};

/// Names by address.
#[derive(Default)]
pub(super) struct GoComments {
    lines: HashMap<u64, Line>,
}

impl GoComments {
    /// Reads a line, which may be any comment or blank.
    pub(super) fn read(&mut self, line: &[u8], builder: &mut ProfileBuilder) {
        let Some((address, rest)) = line.strip_prefix(b"#").and_then(named_address) else { return };
        if self.lines.contains_key(&address) {
            return;
        }
        let text = String::from_utf8_lossy(rest);
        let (name, place) = text.split_once(['\t', ' ']).unwrap_or((&text, ""));
        let name = name.rsplit_once("+0x").map_or(name, |(name, _)| name);
        let place = place.trim();
        let (file, line) =
            place.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?))).unwrap_or((place, 0));
        let (name, filename) = (builder.intern(name), builder.intern(file));
        let function = builder.function(Function { name, system_name: name, filename, ..Function::default() });
        self.lines.insert(address, Line { function, line, column: 0 });
    }

    /// Gives names to the locations without any.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for too many lines.
    pub(super) fn name(&self, builder: &mut ProfileBuilder) -> Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let parts = builder.parts_mut();
        for location in &mut parts.locations {
            let Addr(address) = location.address;
            let line = self.lines.get(&address.wrapping_sub(1)).filter(|_| location.lines_start == location.lines_end);
            if let Some(line) = line {
                location.lines_start = narrow(parts.lines.len(), "lines")?;
                parts.lines.push(*line);
                location.lines_end = narrow(parts.lines.len(), "lines")?;
            }
        }
        Ok(())
    }
}

/// The address that a comment begins with, and what follows it.
fn named_address(comment: &[u8]) -> Option<(u64, &[u8])> {
    let mut cursor = Cursor::new(comment);
    cursor.skip_blanks();
    let address = cursor.address()?;
    let rest = cursor.rest.trim_ascii();
    (cursor.rest.len() > rest.len() && !rest.is_empty()).then_some((address, rest))
}
