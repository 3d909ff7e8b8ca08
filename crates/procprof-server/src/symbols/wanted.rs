//! The files a stored profile lacks names from: facts of the profile, and what to do about them.
//!
//! ```text
//! procprof:wanted-file.0=/opt/be/lib/starrocks_be (build id 00ff12ab, 62.3 % of samples)
//! procprof:wanted-file.1=/opt/be/lib/libx.so (unknown build id, 0.4 % of samples)
//! procprof:wanted-file.2=/opt/be/lib/liby.so (unknown build id, 0.2 % of samples, fits 00ff12ab 00ff12ac)
//! ```

use std::fmt;

use procprof_profile::Meta;
use procprof_symbolize::binary_name;

use super::SymbolKey;

/// Most files named in a profile's facts.
const FILES_MAX: usize = 16;
/// What the facts' keys begin with.
const PREFIX: &str = "wanted-file.";
/// Share of a profile, in percent, from which a file is worth being asked for.
const WORTH_PERCENT: f64 = 1.0;
/// Most of the symbols that fit a file that are named.
const FITTING_MAX: usize = 16;
/// What stands before them.
const FITS: &str = ", fits ";

/// A file whose symbols a profile lacks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    /// Its path as in the profile.
    pub(crate) file: String,
    /// Its build id; empty if the profile does not tell.
    pub(crate) build_id: String,
    /// How much of the profile it would name, in percent; `None` in profiles stored by older versions.
    pub(crate) percent: Option<f64>,
    /// The uploaded symbols that fit it, if those are several and nothing proves which are its own: none are used.
    pub(crate) fitting: Vec<SymbolKey>,
}

impl Wanted {
    /// The files a profile's facts name, those that matter most first.
    pub(crate) fn of(meta: &Meta) -> Vec<Wanted> {
        let mut rows: Vec<(usize, Wanted)> =
            meta.more.iter().filter_map(|(key, text)| Some((key.strip_prefix(PREFIX)?.parse().ok()?, Wanted::parse(text)))).collect();
        rows.sort_by_key(|(number, _)| *number);
        rows.into_iter().map(|(_, wanted)| wanted).collect()
    }

    /// Makes these the files that a profile's facts name; beyond sixteen they are counted.
    pub(crate) fn write(files: &[Wanted], meta: &mut Meta) {
        meta.more.retain(|key, _| !is_fact(key));
        for (number, wanted) in files.iter().take(FILES_MAX).enumerate() {
            meta.more.insert(format!("{PREFIX}{number}"), wanted.to_string());
        }
        if files.len() > FILES_MAX {
            meta.more.insert("wanted-files-not-named".to_owned(), (files.len() - FILES_MAX).to_string());
        }
    }

    fn parse(text: &str) -> Wanted {
        let as_it_is = || Wanted { file: text.to_owned(), build_id: String::new(), percent: None, fitting: Vec::new() };
        let Some((file, told)) = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) else { return as_it_is() };
        let (told, fitting) = told.split_once(FITS).unwrap_or((told, ""));
        let (id, share) = told.split_once(", ").unwrap_or((told, ""));
        let build_id = match (id, id.strip_prefix("build id ")) {
            (_, Some(build_id)) => build_id.to_owned(),
            ("unknown build id", None) => String::new(),
            _ => return as_it_is(),
        };
        let percent = share.strip_suffix(" % of samples").and_then(|share| share.parse().ok());
        let fitting = fitting.split(' ').filter_map(|key| key.parse().ok()).collect();
        Wanted { file: file.to_owned(), build_id, percent, fitting }
    }

    /// Whether it would name enough to be asked for.
    pub(crate) fn is_worth(&self) -> bool {
        self.percent.is_none_or(|percent| percent >= WORTH_PERCENT)
    }

    /// The last part of its path.
    pub(crate) fn name(&self) -> &str {
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

    /// The command that sends its symbols to the server at `server`.
    pub(crate) fn command(&self, server: &str) -> String {
        format!("procprof symbols push --server {} {}", quoted(server), quoted(self.path()))
    }
}

/// Whether a fact is about wanted files.
pub(crate) fn is_fact(key: &str) -> bool {
    key.starts_with(PREFIX) || key == "wanted-files-not-named"
}

impl fmt::Display for Wanted {
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
        let wanted = |file: &str, build_id: &str, percent| Wanted {
            file: file.to_owned(),
            build_id: build_id.to_owned(),
            percent,
            fitting: Vec::new(),
        };
        let fitting = ["00ff", "00fe"].map(|key| key.parse().unwrap()).to_vec();
        let several = Wanted { fitting, ..wanted("/y", "", Some(1.5)) };
        let files = [wanted("/opt/a (1)/be", "00ff", Some(62.3)), wanted("/x (deleted)", "", Some(0.0)), wanted("", "ab", None), several];
        let mut meta = Meta::default();
        meta.more.insert("wanted-file.9".to_owned(), "old (build id 1)".to_owned());
        Wanted::write(&files, &mut meta);
        assert_eq!(Wanted::of(&meta), files);
        let many: Vec<Wanted> = (0..20).map(|number| wanted(&number.to_string(), "", None)).collect();
        Wanted::write(&many, &mut meta);
        assert_eq!((Wanted::of(&meta).as_slice(), meta.more["wanted-files-not-named"].as_str()), (&many[..16], "4"));
        assert_eq!(Wanted::parse("odd"), wanted("odd", "", None));
    }

    #[test]
    fn commands_can_be_copied_into_a_shell() {
        let command = |file: &str| {
            Wanted { file: file.to_owned(), build_id: String::new(), percent: None, fitting: Vec::new() }.command("http://h:1")
        };
        assert_eq!(command("/opt/be (deleted)"), "procprof symbols push --server http://h:1 /opt/be");
        assert_eq!(command("/a b/it's;rm"), "procprof symbols push --server http://h:1 '/a b/it'\\''s;rm'");
        assert_eq!(command("-x"), "procprof symbols push --server http://h:1 ./-x");
    }
}
