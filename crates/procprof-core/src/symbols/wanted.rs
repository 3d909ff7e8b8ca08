//! The files whose symbols a stored profile lacks: facts of the profile, and the remedy for each.
//!
//! ```text
//! #procprof:wanted-file.0=/opt/be/lib/starrocks_be (build id 00ff12ab, 62.3 % of samples)
//! #procprof:wanted-file.1=/opt/be/lib/libx.so (unknown build id, 0.4 % of samples)
//! #procprof:wanted-file.3=/usr/lib/libz.so.1 (build id 00fe, 9.0 % of samples, stripped)
//! #procprof:wanted-file.2=/opt/be/lib/liby.so (unknown build id, 0.2 % of samples, fits 00ff12ab 00ff12ac)
//! ```

use std::fmt;

use procprof_profile::Meta;
use procprof_symbolize::binary_name;

use super::SymbolKey;

/// Most files named in a profile's facts.
const FILES_MAX: usize = 16;
/// The prefix of the facts' keys.
const PREFIX: &str = "wanted-file.";
/// Share of a profile, in percent, from which a missing file is listed.
const WORTH_PERCENT: f64 = 1.0;
/// Most of the symbols that fit a file that are named.
const FITTING_MAX: usize = 16;
/// Precedes them.
const FITS: &str = ", fits ";
/// Marks a file that was read and has no symbols.
const STRIPPED: &str = ", stripped";

/// A file whose symbols a profile lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedSymbols {
    /// Its path as in the profile.
    pub file: String,
    /// Its build id; empty if the profile does not contain it.
    pub build_id: String,
    /// How much of the profile its frames hide, in percent; `None` in profiles stored by older versions.
    pub percent: Option<f64>,
    /// Whether the file itself was read and has no symbols, so that only its debug file helps.
    pub is_stripped: bool,
    /// The uploaded symbols that fit it, if those are several and nothing proves which are its own: none are used.
    pub fitting: Vec<SymbolKey>,
}

impl WantedSymbols {
    /// The files a profile's facts name, those that matter most first.
    pub fn from_facts(meta: &Meta) -> Vec<WantedSymbols> {
        let mut rows: Vec<(usize, WantedSymbols)> = meta
            .more
            .iter()
            .filter_map(|(key, text)| Some((key.strip_prefix(PREFIX)?.parse().ok()?, WantedSymbols::parse(text))))
            .collect();
        rows.sort_by_key(|(number, _)| *number);
        rows.into_iter().map(|(_, wanted)| wanted).collect()
    }

    /// Makes these the files that a profile's facts name; beyond sixteen they are counted.
    pub(crate) fn write(files: &[WantedSymbols], meta: &mut Meta) {
        meta.more.retain(|key, _| !is_fact(key));
        for (number, wanted) in files.iter().take(FILES_MAX).enumerate() {
            meta.more.insert(format!("{PREFIX}{number}"), wanted.to_string());
        }
        if files.len() > FILES_MAX {
            meta.more.insert("wanted-files-not-named".to_owned(), (files.len() - FILES_MAX).to_string());
        }
    }

    fn parse(text: &str) -> WantedSymbols {
        let as_it_is = || WantedSymbols {
            file: text.to_owned(),
            build_id: String::new(),
            percent: None,
            fitting: Vec::new(),
            is_stripped: false,
        };
        let Some((file, details)) = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) else {
            return as_it_is();
        };
        let (details, is_stripped) = details.strip_suffix(STRIPPED).map_or((details, false), |details| (details, true));
        let (details, fitting) = details.split_once(FITS).unwrap_or((details, ""));
        let (id, share) = details.split_once(", ").unwrap_or((details, ""));
        let build_id = match (id, id.strip_prefix("build id ")) {
            (_, Some(build_id)) => build_id.to_owned(),
            ("unknown build id", None) => String::new(),
            _ => return as_it_is(),
        };
        let percent = share.strip_suffix(" % of samples").and_then(|share| share.parse().ok());
        let fitting = fitting.split(' ').filter_map(|key| key.parse().ok()).collect();
        WantedSymbols { file: file.to_owned(), build_id, percent, fitting, is_stripped }
    }

    /// Whether it would name enough to be listed.
    pub fn is_worth(&self) -> bool {
        self.percent.is_none_or(|percent| percent >= WORTH_PERCENT)
    }

    /// The last part of its path.
    pub fn name(&self) -> &str {
        self.path().rsplit('/').next().unwrap_or_default()
    }

    /// Whether a file of that name is it or its debug file.
    pub(crate) fn is_named(&self, file_name: &str) -> bool {
        !self.name().is_empty() && (file_name == self.name() || binary_name(file_name) == self.name())
    }

    /// Its path, without what the kernel adds to files that are deleted.
    pub(crate) fn path(&self) -> &str {
        self.file.strip_suffix(" (deleted)").unwrap_or(&self.file)
    }

    /// The command that sends its symbols to the server at `server`: those of its debug file, where the file itself has
    /// none.
    pub fn command(&self, server: &str) -> String {
        let debug_file = self.debug_file();
        format!(
            "procprof symbols push --server {} {}",
            quoted(server),
            quoted(debug_file.as_deref().unwrap_or(self.path()))
        )
    }

    /// The place of a stripped file's debug file once its package is installed.
    pub(crate) fn debug_file(&self) -> Option<String> {
        let (folder, rest) = self.build_id.split_at_checked(2).filter(|_| self.is_stripped)?;
        Some(format!("/usr/lib/debug/.build-id/{folder}/{rest}.debug"))
    }
}

/// Whether a fact is about wanted files.
pub fn is_fact(key: &str) -> bool {
    key.starts_with(PREFIX) || key == "wanted-files-not-named"
}

impl fmt::Display for WantedSymbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.file)?;
        match self.build_id.as_str() {
            "" => f.write_str("unknown build id")?,
            build_id => write!(f, "build id {build_id}")?,
        }
        if let Some(percent) = self.percent {
            write!(f, ", {percent:.1} % of samples")?;
        }
        for (number, key) in self.fitting.iter().take(FITTING_MAX).enumerate() {
            write!(f, "{}{key}", if number == 0 { FITS } else { " " })?;
        }
        f.write_str(if self.is_stripped { STRIPPED } else { "" })?;
        f.write_str(")")
    }
}

/// A word as a POSIX shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:=@%,".contains(&byte);
    // A word that begins with a dash would be an option.
    let word = if word.starts_with('-') { format!("./{word}") } else { word.to_owned() };
    match !word.is_empty() && word.bytes().all(plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_they_are_written() {
        let wanted = |file: &str, build_id: &str, percent| WantedSymbols {
            file: file.to_owned(),
            build_id: build_id.to_owned(),
            percent,
            fitting: Vec::new(),
            is_stripped: false,
        };
        let fitting = ["00ff", "00fe"].map(|key| key.parse().unwrap()).to_vec();
        let several = WantedSymbols { fitting, ..wanted("/y", "", Some(1.5)) };
        let stripped = WantedSymbols { is_stripped: true, ..several.clone() };
        let files = [
            wanted("/opt/a (1)/be", "00ff", Some(62.3)),
            wanted("/x (deleted)", "", Some(0.0)),
            wanted("", "ab", None),
            several,
            stripped,
        ];
        let mut meta = Meta::default();
        meta.more.insert("wanted-file.9".to_owned(), "old (build id 1)".to_owned());
        WantedSymbols::write(&files, &mut meta);
        assert_eq!(WantedSymbols::from_facts(&meta), files);
        let many: Vec<WantedSymbols> = (0..20).map(|number| wanted(&number.to_string(), "", None)).collect();
        WantedSymbols::write(&many, &mut meta);
        assert_eq!(
            (WantedSymbols::from_facts(&meta).as_slice(), meta.more["wanted-files-not-named"].as_str()),
            (&many[..16], "4")
        );
        assert_eq!(WantedSymbols::parse("odd"), wanted("odd", "", None));
    }

    #[test]
    fn commands_can_be_copied_into_a_shell() {
        let command = |file: &str| {
            WantedSymbols {
                file: file.to_owned(),
                build_id: String::new(),
                percent: None,
                fitting: Vec::new(),
                is_stripped: false,
            }
            .command("http://h:1")
        };
        let stripped = WantedSymbols {
            file: "/lib/x.so".to_owned(),
            build_id: "00fe".to_owned(),
            percent: None,
            fitting: Vec::new(),
            is_stripped: true,
        };
        assert_eq!(
            stripped.command("http://h:1"),
            "procprof symbols push --server http://h:1 /usr/lib/debug/.build-id/00/fe.debug"
        );
        assert_eq!(command("/opt/be (deleted)"), "procprof symbols push --server http://h:1 /opt/be");
        assert_eq!(command("/a b/it's;rm"), "procprof symbols push --server http://h:1 '/a b/it'\\''s;rm'");
        assert_eq!(command("-x"), "procprof symbols push --server http://h:1 ./-x");
    }
}
