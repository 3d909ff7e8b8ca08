//! Joins the modules of the viewer's script into one, and compresses script and style.
//!
//! The order follows from the imports, from `main.js` on. Imports, `export`, comments and spaces are left out; names at the top
//! of modules are unique across all of them, which the build of types (`cargo xtask check`) proves, too. The script is
//! made once in each language, with the texts of `texts.json`, which is checked to be complete.

// A build reads and writes its own files.
#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

const FOLDER: &str = "src/viewer";
/// The languages of the texts, in the order of the table's columns.
const LANGUAGES: [&str; 3] = ["en", "ja", "zh-CN"];
/// What the table of texts replaces in the script.
const TEXTS: &str = "JSON.parse('TEXTS_OF_THE_LANGUAGE')";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={FOLDER}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut script = Script::default();
    script.add("main.js");
    script.check();
    let texts = texts();
    check_texts(&texts, &script.text);
    for (column, language) in LANGUAGES.iter().enumerate() {
        let of_language: BTreeMap<&str, &str> =
            texts.iter().map(|(key, columns)| (key.as_str(), columns[column].as_str())).collect();
        // An element of a page, which the script may stand in, ends at `</`.
        let of_language = serde_json::to_string(&of_language).expect("strings are JSON").replace("</", "<\\/");
        assert_eq!(script.text.matches(TEXTS).count(), 1, "{FOLDER}/texts.js: {TEXTS} stands once in the script");
        write(&out, &format!("viewer.{language}.js"), &script.text.replace(TEXTS, &of_language));
    }
    write(&out, "viewer.css", &packed_style(&read("viewer.css")));
}

/// The modules joined so far.
#[derive(Default)]
struct Script {
    text: String,
    modules: BTreeSet<String>,
}

impl Script {
    /// Appends a module behind all that it imports.
    fn add(&mut self, module: &str) {
        if !self.modules.insert(module.to_owned()) {
            return;
        }
        let source = read(module);
        for imported in source.lines().filter_map(imported) {
            self.add(imported);
        }
        for line in without_comments(&source).lines() {
            let line = line.trim();
            let ticks = line.matches('`').count();
            assert!(ticks % 2 == 0, "{FOLDER}/{module}: a template over several lines: {line}");
            if !line.is_empty() && imported(line).is_none() {
                self.text.push_str(&squeezed(line.strip_prefix("export ").unwrap_or(line)));
                self.text.push('\n');
            }
        }
    }

    /// Panics on a module that none imports, and on a name of two modules.
    fn check(&self) {
        for entry in fs::read_dir(FOLDER).expect("the viewer's folder is in the crate") {
            let name = entry.expect("its entries can be read").file_name().to_string_lossy().into_owned();
            assert!(!name.ends_with(".js") || self.modules.contains(&name), "{FOLDER}/{name}: no module imports it");
        }
        let mut names = BTreeSet::new();
        for module in &self.modules {
            for name in read(module).lines().filter_map(declared) {
                assert!(names.insert(name.to_owned()), "{FOLDER}/{module}: the name {name} is in another module, too");
            }
        }
    }
}

/// The rows of `texts.json`: by key, a text in each language.
fn texts() -> BTreeMap<String, [String; LANGUAGES.len()]> {
    serde_json::from_str(&read("texts.json")).unwrap_or_else(|error| panic!("{FOLDER}/texts.json: {error}"))
}

/// Panics on a text that a language lacks, that has other values than the English one, or that no module shows.
fn check_texts(texts: &BTreeMap<String, [String; LANGUAGES.len()]>, script: &str) {
    for (key, [english, others @ ..]) in texts {
        let group = key.split_once('_').map(|(group, _)| format!("textOf('{group}'"));
        let is_pair = key.starts_with("key_");
        // The data have the English text.
        assert!(!english.is_empty() || group.is_some(), "{FOLDER}/texts.json: {key} has no English text");
        for (text, language) in others.iter().zip(&LANGUAGES[1..]) {
            assert!(!text.is_empty(), "{FOLDER}/texts.json: {key} has no text in {language}");
            // A text that comes with the data has its values there, too, by number.
            let expected = if english.is_empty() { values(&others[0]) } else { values(english) };
            assert_eq!(values(text), expected, "{FOLDER}/texts.json: the values of {key} in {language}");
            assert!(!is_pair || text.contains(" = "), "{FOLDER}/texts.json: {key} in {language} has no `=`");
        }
        let shown =
            [format!("TEXTS.{key}"), format!("'{key}'")].into_iter().chain(group).any(|use_| script.contains(&use_));
        assert!(shown, "{FOLDER}/texts.json: no module shows {key}");
    }
}

/// The names of the values in a text.
fn values(text: &str) -> BTreeSet<&str> {
    text.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect()
}

/// The module that a line imports.
fn imported(line: &str) -> Option<&str> {
    line.strip_prefix("import ")?.split_once(" from './")?.1.strip_suffix("';")
}

/// The name that a line at the top of a module declares.
fn declared(line: &str) -> Option<&str> {
    let line = line.strip_prefix("export ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    let rest = ["const ", "let ", "class ", "function "].into_iter().find_map(|word| line.strip_prefix(word))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// The source without comments; they begin with `/**`, or are lines that begin with `//`.
fn without_comments(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, after)) = rest.split_once("/**") {
        out.push_str(before);
        rest = after.split_once("*/").expect("a comment ends").1;
    }
    out.push_str(rest);
    out.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// A line without the spaces that part nothing. One with a template or what may be an expression is left as it is.
fn squeezed(line: &str) -> String {
    const PARTING: &str = "=,;:(){}[]<>?&|*";
    if line.contains(['`', '/']) {
        return line.to_owned();
    }
    let mut out = String::with_capacity(line.len());
    let mut quote = None;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let parts = |other: Option<char>| other.is_some_and(|other| PARTING.contains(other));
        match (quote, letter) {
            (Some(_), '\\') => {
                out.push(letter);
                out.extend(letters.next());
                continue;
            }
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, ' ') if parts(out.chars().next_back()) || parts(letters.peek().copied()) => continue,
            _ => {}
        }
        out.push(letter);
    }
    out
}

fn packed_style(style: &str) -> String {
    style.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

fn read(name: &str) -> String {
    let path = Path::new(FOLDER).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Writes a file as it is and compressed.
fn write(folder: &Path, name: &str, content: &str) {
    fs::write(folder.join(name), content).expect("write to OUT_DIR");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    std::io::Write::write_all(&mut encoder, content.as_bytes()).expect("memory takes all");
    fs::write(folder.join(format!("{name}.gz")), encoder.finish().expect("memory takes all"))
        .expect("write to OUT_DIR");
}
