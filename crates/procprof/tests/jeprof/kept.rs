//! Programs, their profiles and the peers' answers as they are kept in `testdata/jeprof/NAME.zst`.
//!
//! A file is compressed with zstd. It holds entries, each a line with the length of the entry's content and its name,
//! the content, and a line break:
//!
//! ```text
//! 4242 file program
//! 97 answer jeprof --text /procprof-kept/program /procprof-kept/2.heap
//! ```
//! The content of an answer is a line with the exit code and the length of standard output, standard output, and
//! standard error. `/procprof-kept` stands for the folder of the program's files, `/procprof-testdata` for `testdata`.

// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::peer::Answer;
use super::sources;

/// The folder of a program's files in the kept text.
const FOLDER: &str = "/procprof-kept";
/// The folder of test data there.
const TESTDATA: &str = "/procprof-testdata";
/// zstd's level: the files are written seldom.
const LEVEL: i32 = 19;

/// The content of a file of `testdata/jeprof`.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The program, its profiles and its libraries, by name; and its source, which is compared with the present one.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// Answers by the command line.
    pub(crate) answers: BTreeMap<String, Answer>,
}

impl Kept {
    fn path(name: &str) -> PathBuf {
        sources().join(format!("{name}.zst"))
    }

    /// Reads a file.
    pub(crate) fn read(name: &str) -> Kept {
        let path = Self::path(name);
        let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let unpacked = zstd::decode_all(&packed[..]).unwrap();
        let (mut rest, mut kept) = (&unpacked[..], Kept::default());
        while !rest.is_empty() {
            let line = take_line(&mut rest);
            let mut words = line.splitn(3, ' ');
            let [length, kind, name] = std::array::from_fn(|_| words.next().unwrap().to_owned());
            let content = take(&mut rest, length.parse().unwrap());
            assert_eq!(take(&mut rest, 1), b"\n", "{name}");
            match kind.as_str() {
                "file" => drop(kept.files.insert(name, content.to_vec())),
                _ => drop(kept.answers.insert(name, decoded(content))),
            }
        }
        kept
    }

    /// Writes a file, unless it has this content already.
    pub(crate) fn write(&self, name: &str) {
        let mut unpacked = Vec::new();
        let files = self.files.iter().map(|(name, content)| (format!("file {name}"), content.clone()));
        let answers = self.answers.iter().map(|(name, answer)| (format!("answer {name}"), encoded(answer)));
        for (name, content) in files.chain(answers) {
            unpacked.extend(format!("{} {name}\n", content.len()).into_bytes());
            unpacked.extend(content);
            unpacked.push(b'\n');
        }
        if !Self::path(name).exists() || *self != Self::read(name) {
            std::fs::write(Self::path(name), zstd::encode_all(&unpacked[..], LEVEL).unwrap()).unwrap();
        }
    }

    /// Writes the files into a folder.
    pub(crate) fn unpack(&self, folder: &Path) {
        for (name, content) in &self.files {
            let is_binary = content.starts_with(b"\x7fELF");
            let content = if is_binary { content.clone() } else { with_paths(content, folder) };
            std::fs::write(folder.join(name), content).unwrap();
        }
        std::fs::set_permissions(folder.join("program"), PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Adds files of a folder.
    pub(crate) fn pack(&mut self, folder: &Path, names: impl IntoIterator<Item = String>) {
        for name in names {
            let content = std::fs::read(folder.join(&name)).unwrap();
            let without = without_paths(&content, folder);
            assert!(!content.starts_with(b"\x7fELF") || without == content, "{name} contains the path of a folder");
            self.files.insert(name, without);
        }
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, behind) = rest.split_at(length);
    *rest = behind;
    taken
}

fn take_line(rest: &mut &[u8]) -> String {
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap();
    let line = take(rest, end + 1);
    String::from_utf8(line[..end].to_vec()).unwrap()
}

fn encoded(answer: &Answer) -> Vec<u8> {
    let mut content = format!("{} {}\n", answer.code, answer.stdout.len()).into_bytes();
    content.extend([&answer.stdout[..], &answer.stderr].concat());
    content
}

fn decoded(mut content: &[u8]) -> Answer {
    let line = take_line(&mut content);
    let (code, length) = line.split_once(' ').unwrap();
    let stdout = take(&mut content, length.parse().unwrap()).to_vec();
    Answer { code: code.parse().unwrap(), stdout, stderr: content.to_vec() }
}

fn testdata() -> String {
    sources().parent().unwrap().display().to_string()
}

/// Text as it is kept.
pub(crate) fn without_paths(text: &[u8], folder: &Path) -> Vec<u8> {
    let text = replaced(text, &folder.display().to_string(), FOLDER);
    replaced(&text, &testdata(), TESTDATA)
}

/// Kept text as a peer writes it here.
pub(crate) fn with_paths(text: &[u8], folder: &Path) -> Vec<u8> {
    let text = replaced(text, FOLDER, &folder.display().to_string());
    replaced(&text, TESTDATA, &testdata())
}

fn replaced(text: &[u8], from: &str, to: &str) -> Vec<u8> {
    let pattern = regex::bytes::Regex::new(&regex::escape(from)).unwrap();
    pattern.replace_all(text, regex::bytes::NoExpand(to.as_bytes())).into_owned()
}
