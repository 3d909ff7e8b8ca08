//! Finds the file of an address, by the lines of a memory map that jeprof uses.
//!
//! ```text
//! 7f00-7f10 r-xp 00001000 fd:01 1234   /usr/lib/libfoo.so.1     executable, the name ends in .so and a version
//! 5500-5510 r-xp 00001000 fd:01 1234   /usr/bin/prog            executable, the program's own path
//!   7f00-7f10: /usr/lib/libfoo.so.1                             "cooked"
//! ```
//! All other addresses count as the program's, as if it was mapped at 0.

/// A part of a file that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Library {
    /// The file's path.
    pub path: String,
    /// First address.
    pub start: u64,
    /// Last address, itself included.
    pub finish: u64,
    /// Its offset in the file.
    pub offset: u64,
}

/// The libraries of a memory map, and the program where it is in it; in the order of the text.
pub(crate) fn parse(map: &str, program: &str) -> Vec<Library> {
    let mut build = String::new();
    let mut libraries = Vec::new();
    for line in map.lines() {
        if let Some(value) = line.trim_start().strip_prefix("build=") {
            build = value.to_owned();
        }
        let taken = mapped(line).filter(|library| is_library(&library.path) || library.path == program);
        if let Some(mut library) = taken.or_else(|| cooked(line)) {
            library.path = library.path.replace("$build", &build);
            libraries.push(library);
        }
    }
    libraries
}

/// The executable parts whose file was removed or replaced while it was mapped. jeprof skips their lines, so that their
/// addresses count as the program's.
pub(crate) fn deleted(map: &str) -> Vec<Library> {
    let entries = map.lines().filter_map(|line| mapped(line.trim_end().strip_suffix(" (deleted)")?));
    entries.filter(|library| library.path.starts_with('/')).collect()
}

/// `START-FINISH PERM OFFSET MAJOR:MINOR INODE PATH`.
fn mapped(line: &str) -> Option<Library> {
    let (start, rest) = split_hex(line)?;
    let (finish, rest) = split_hex(rest.strip_prefix('-')?)?;
    let rest = rest.strip_prefix(|blank: char| blank.is_ascii_whitespace())?;
    let mut words = rest.split_ascii_whitespace();
    let permissions = words.next()?;
    if permissions.len() != 4 || permissions.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let device = words.next()?;
    let inode = words.next()?;
    let path = words.next()?.replace('\\', "/");
    let is_entry = device.contains(':') && inode.bytes().all(|digit| digit.is_ascii_digit()) && words.next().is_none();
    is_entry.then_some(Library { path, start, finish, offset })
}

/// `START-FINISH: PATH`.
fn cooked(line: &str) -> Option<Library> {
    let (start, rest) = split_hex(line.trim_start())?;
    let (finish, rest) = split_hex(rest.strip_prefix('-')?)?;
    let word = rest.strip_prefix(':')?.split_ascii_whitespace().next()?;
    let so = word.rfind(".so")?;
    let mut end = so + ".so".len();
    while let Some(version) = word[end..].strip_prefix('.') {
        let digits = version.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            break;
        }
        end += 1 + digits;
    }
    (so > 0).then(|| Library { path: word[..end].to_owned(), start, finish, offset: 0 })
}

fn split_hex(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().take_while(u8::is_ascii_hexdigit).count();
    let (digits, rest) = text.split_at(end);
    Some((u64::from_str_radix(digits, 16).ok()?, rest))
}

/// Whether a path ends as those of libraries do: `.so`, perhaps with a version such as `.1.2.3`.
fn is_library(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    [".so", ".dll", ".dylib", ".bundle"].iter().any(|suffix| {
        let found = lower.match_indices(suffix);
        found.filter(|(at, _)| *at > 0).any(|(at, suffix)| is_version(&lower[at + suffix.len()..]))
    })
}

/// Whether text is nothing, or numbers behind dots, the last perhaps with letters behind it and up
/// to three more numbers.
fn is_version(text: &str) -> bool {
    if text.is_empty() {
        return true;
    }
    let mut after_letters = None;
    for (index, part) in text.split('.').enumerate() {
        if index == 0 {
            if !part.is_empty() {
                return false;
            }
            continue;
        }
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let word = part[digits..].bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'_');
        if digits == 0 || !word {
            return false;
        }
        match &mut after_letters {
            None if digits < part.len() => after_letters = Some(0),
            None => {}
            Some(count) => {
                *count += 1;
                if digits < part.len() || *count > 3 {
                    return false;
                }
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_libraries_and_the_program() {
        let map = "55d0-55d1 r-xp 00001000 fd:01 12 /bin/prog\n55d1-55d2 rw-p 00001000 fd:01 12 /bin/prog\n\
                   7f00-7f10 r-xp 00002000 fd:01 13 /lib/libc.so.6\n7f20-7f30 r-xp 0 fd:01 13 /lib/libc.so.6 (deleted)\n\
                   7f40-7f50 r-xp 00000000 00:00 0 [vdso]\n  8000-8010: /lib/libx.so.1.2 more\n";
        let found = parse(map, "/bin/prog");
        let paths: Vec<(&str, u64)> = found.iter().map(|library| (library.path.as_str(), library.offset)).collect();
        assert_eq!(paths, [("/bin/prog", 0x1000), ("/lib/libc.so.6", 0x2000), ("/lib/libx.so.1.2", 0)]);
    }

    #[test]
    fn missing_files_are_distinguished() {
        let map = "55d0-55d1 r-xp 00001000 fd:01 12 /bin/prog (deleted)\n55d1-55d2 rw-p 00001000 fd:01 12 /bin/prog (deleted)\n\
                   7f00-7f10 r-xp 00002000 fd:01 13 /lib/libc.so.6\n7f20-7f30 rwxp 0 00:05 13 /memfd:x (deleted)\n";
        let paths: Vec<(String, u64)> = deleted(map).into_iter().map(|library| (library.path, library.start)).collect();
        assert_eq!(paths, [("/bin/prog".to_owned(), 0x55d0), ("/memfd:x".to_owned(), 0x7f20)]);
    }

    #[test]
    fn versions() {
        for (path, expected) in [
            ("/a.so", true),
            ("/a.so.6", true),
            ("/a.so.1.2.3", true),
            ("/a.so.1rc.2", true),
            ("/a.so.x", false),
            ("/a.sox", false),
        ] {
            assert_eq!(is_library(path), expected, "{path}");
        }
    }
}
