//! The page on which a frontend lists its profiles: the file names in its links.
//!
//! ```text
//! <td><a href="/proc_profile/file?filename=cpu-profile-20261120-222534.html.tar.gz" target="_blank">View</a></td>
//! ```
//! Versions with a tab for each node have `node=FE` beside the name; nothing else of the page is read. Names are an
//! allow-list: a page may hold anything.

use procprof_profile::ProfileType;

/// Begins each name in a link.
const PARAMETER: &str = "filename=";
/// Heads the page, also one without profiles.
const HEADING: &str = "Process Profiles";
const PREFIXES: [(&str, ProfileType); 2] = [("cpu-profile-", ProfileType::Cpu), ("mem-profile-", ProfileType::Alloc)];
/// Ends of names, those of early versions last.
const SUFFIXES: [&str; 2] = [".html.tar.gz", ".tar.gz"];

/// A profile that a frontend keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) profile_type: ProfileType,
    /// When it began, in the frontend's zone: `20261120-222534`.
    pub(super) time: String,
    /// Its file name.
    pub(super) name: String,
}

impl Listed {
    fn read(name: &str) -> Option<Listed> {
        let (prefix, profile_type) = PREFIXES.into_iter().find(|(prefix, _)| name.starts_with(prefix))?;
        let rest = &name[prefix.len()..];
        let time = SUFFIXES.into_iter().find_map(|suffix| rest.strip_suffix(suffix))?;
        let is_time = time.len() == 15
            && time.bytes().enumerate().all(|(i, byte)| if i == 8 { byte == b'-' } else { byte.is_ascii_digit() });
        is_time.then(|| Listed { profile_type, time: time.to_owned(), name: name.to_owned() })
    }
}

/// The profiles on a page, the oldest first; `None` where it is another page.
pub(super) fn read(page: &str) -> Option<Vec<Listed>> {
    let mut all: Vec<Listed> = page
        .split(PARAMETER)
        .skip(1)
        .filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c)).unwrap_or(rest.len());
            Listed::read(&rest[..end])
        })
        .collect();
    all.sort_by(|a, b| (&a.time, &a.name).cmp(&(&b.time, &b.name)));
    all.dedup();
    (!all.is_empty() || page.contains(HEADING)).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_pages_of_both_shapes() {
        let page = "<h2>Process Profiles</h2><a href=\"/proc_profile/file?filename=mem-profile-20261120-222734.html.tar.gz\" target=\"_blank\">\
                    <a href=\"/proc_profile/file?node=FE&amp;filename=cpu-profile-20261120-222534.html.tar.gz\">\
                    <a href='/proc_profile/file?filename=cpu-profile-20261120-222534.html.tar.gz&node=FE'>\
                    <a href=\"/proc_profile/file?filename=cpu-profile-20261120-222000.tar.gz\">";
        let all = read(page).unwrap();
        let names: Vec<(&str, &str)> =
            all.iter().map(|listed| (listed.profile_type.name(), listed.time.as_str())).collect();
        assert_eq!(names, [("cpu", "20261120-222000"), ("cpu", "20261120-222534"), ("alloc", "20261120-222734")]);
    }

    #[test]
    fn other_names_and_pages_are_passed_over() {
        let other = [
            "cpu-profile-20261120-222534-pprof.gz",
            "cpu-profile-2026112--222534.html.tar.gz",
            "cpu-profile-20261120-222534.html",
            "../cpu-profile-20261120-222534.html.tar.gz",
            "contention-profile-20261120-222534.html.tar.gz",
            "cpu-profile-.html.tar.gz",
            "",
        ];
        for name in other {
            assert_eq!(
                read(&format!("<h2>Process Profiles</h2><a href=\"/proc_profile/file?filename={name}\">")),
                Some(vec![]),
                "{name}"
            );
        }
        assert_eq!(read("<html><form action=\"/login\">"), None);
    }
}
