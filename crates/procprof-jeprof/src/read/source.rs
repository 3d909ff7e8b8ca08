//! The lines of a profile.

/// The unread part of a file, and warnings about it.
pub(super) struct Source<'a> {
    pub(super) rest: &'a [u8],
    pub(super) messages: Vec<String>,
}

impl<'a> Source<'a> {
    /// The next line, without its end.
    pub(super) fn line(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', self.rest);
        let (line, rest) = end.map_or((self.rest, &[][..]), |end| (&self.rest[..end], &self.rest[end + 1..]));
        self.rest = rest;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The first line that is no command; empty if the file is binary.
    pub(super) fn header(&mut self) -> Option<String> {
        let first = *self.rest.first()?;
        if !(first.is_ascii_graphic() || first == b' ') {
            return Some(String::new());
        }
        while let Some(line) = self.line() {
            let line = String::from_utf8_lossy(line).into_owned();
            if !line.starts_with('%') {
                return Some(line);
            }
            self.messages.push(match line.strip_prefix("%warn") {
                Some(warning) => format!("WARNING: {}", warning.trim_start()),
                None => format!("Ignoring unknown command from profile header: {line}"),
            });
        }
        None
    }

    /// The rest as text, if `line` announces the memory map.
    pub(super) fn map_behind(&mut self, line: &[u8]) -> Option<String> {
        Source::is_map_heading(line).then(|| String::from_utf8_lossy(std::mem::take(&mut self.rest)).replace('\r', ""))
    }

    /// Whether a line announces the memory map.
    pub(super) fn is_map_heading(line: &[u8]) -> bool {
        line.starts_with(b"MAPPED_LIBRARIES:") || line.starts_with(b"--- Memory map:")
    }
}
