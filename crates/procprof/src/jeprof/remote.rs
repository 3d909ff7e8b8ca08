//! Profiles of running processes, requested as jeprof does.
//!
//! ```text
//! host:port[/prefix][/pprof/SERVICE]       SERVICE: heap, growth, contention, profile, ...; /pprof/profile without one
//! GET  BASE/pprof/SERVICE                  profile and pmuprofile with ?seconds=N; saved in JEPROF_TMPDIR or ~/jeprof
//! GET  BASE/pprof/symbol                   num_symbols: N       requested when no program was named: 0 is the end
//! GET  BASE/pprof/cmdline                  the program's path   likewise
//! POST BASE/pprof/symbol  0xA+0xB          0xA name             after a HEAD that finds redirections
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use procprof_collect::ProfileUrl;
use procprof_jeprof::Names;
use procprof_profile::Addr;
use procprof_symbolize::binutils;
use regex::Regex;

use crate::fetch::{Fetcher, Question, Remote, TlsFiles};

/// Longest wait for a profile that takes no seconds.
const MOMENT: Duration = Duration::from_secs(600);
/// Most machines that one word expands to.
const MACHINES_MAX: u32 = 256;

/// Base with scheme, host and prefix; and the service.
static PARTS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let services = "heap|profile|pmuprofile|growth|contention|wall|filteredprofile|censusprofile";
    Regex::new(&format!(r"^(https?://)?([^/]+)(.*?)(/|/pprof/(?:{services})(?:\?.*)?)?$")).ok()
});
static MACHINES: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^(.*)@([0-9]+)(|/.*)$").ok());

/// A profile of a process.
pub(super) struct Address {
    base: String,
    host: String,
    /// As in a URL, with its query.
    service: String,
}

impl Address {
    /// Parses a word that is no file; `None` if it is no address of a process.
    pub(super) fn parse(word: &str) -> Option<Address> {
        let parts = PARTS.as_ref()?.captures(word)?;
        let part = |index: usize| parts.get(index).map_or("", |part| part.as_str());
        let (scheme, authority, service) = (part(1), part(2), part(4));
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        // A bare word is far more often a file that is not there than a host by name.
        if scheme.is_empty() && !has_port && !service.starts_with("/pprof") {
            return None;
        }
        let host = authority.rsplit('@').next().unwrap_or(authority);
        Some(Address {
            base: format!("{}{authority}{}", if scheme.is_empty() { "http://" } else { scheme }, part(3)),
            host: host.split(':').next().unwrap_or(host).to_owned(),
            service: if service.len() < 2 { "/pprof/profile".to_owned() } else { service.to_owned() },
        })
    }

    /// Whether the process profiles for the requested seconds.
    fn takes_seconds(&self) -> bool {
        ["/pprof/profile", "/pprof/pmuprofile"].iter().any(|service| self.service.starts_with(service))
    }

    fn url(&self, seconds: u32) -> String {
        let separator = if self.service.contains('?') { '&' } else { '?' };
        match self.takes_seconds() && !self.service.contains("seconds=") {
            true => format!("{}{}{separator}seconds={seconds}", self.base, self.service),
            false => format!("{}{}", self.base, self.service),
        }
    }

    fn question(&self, seconds: u32) -> Result<Question> {
        let remote = Remote::parse(&self.url(seconds), &TlsFiles::default())?;
        let (seconds, limit) = match self.takes_seconds() {
            true => (seconds, Duration::from_millis(u64::from(seconds) * 1010 + 60_000)),
            false => (0, MOMENT),
        };
        Ok(Question { remote, seconds, limit })
    }

    /// Name of the file it is saved in: program, time, host, and the service unless that is the CPU.
    fn file_name(&self, program: &str, time: u64) -> String {
        let program = program.rsplit('/').next().unwrap_or_default();
        let service = if self.takes_seconds() {
            String::new()
        } else {
            self.service.split('?').next().unwrap_or_default().replace('/', ".")
        };
        format!("{program}.{time}.{}{service}", self.host).replace(|c: char| c == '/' || c.is_control(), "_")
    }

    fn page(&self, name: &str) -> Result<(Remote, ProfileUrl)> {
        let remote = Remote::parse(&format!("{}/pprof/{name}", self.base), &TlsFiles::default())?;
        let url = remote.url.clone();
        Ok((remote, url))
    }
}

/// The words, with each `name@N` expanded to its N machines.
pub(super) fn expanded(words: &[String]) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for word in words {
        let Some(parts) =
            MACHINES.as_ref().and_then(|machines| machines.captures(word)).filter(|_| !Path::new(word).exists())
        else {
            all.push(word.clone());
            continue;
        };
        let count = parts[2].parse().ok().filter(|count| *count <= MACHINES_MAX);
        let count = count.with_context(|| format!("{word}: at most {MACHINES_MAX} machines"))?;
        all.extend((0..count).map(|number| format!("{number}.{}{}", &parts[1], &parts[3])));
    }
    Ok(all)
}

/// Fetches profiles at once and saves those that come. The files are in the order of the addresses; errs if one did not
/// come.
pub(super) fn gather(fetcher: &Fetcher, addresses: &[Address], program: &str, seconds: u32) -> Result<Vec<String>> {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let folder = folder()?;
    let paths = distinct(addresses.iter().map(|address| folder.join(address.file_name(program, time))));
    let questions = addresses.iter().map(|address| address.question(seconds)).collect::<Result<Vec<_>>>()?;
    for ((address, question), path) in addresses.iter().zip(&questions).zip(&paths) {
        let (url, path) = (&question.remote.url, path.display());
        if address.takes_seconds() {
            eprintln!("Gathering CPU profile from {url} for {seconds} seconds to\n  {path}");
        } else {
            eprintln!("Fetching {} profile from {url} to\n  {path}", address.service);
        }
    }
    match addresses.len() {
        1 if addresses[0].takes_seconds() => eprintln!("Be patient..."),
        0 | 1 => {}
        count => eprintln!("Fetching {count} profiles, Be patient..."),
    }
    let answers = fetcher.get_all(&questions);
    std::fs::create_dir_all(&folder).with_context(|| format!("create profile directory {}", folder.display()))?;
    let mut failed = None;
    for (path, answer) in paths.iter().zip(answers) {
        match answer {
            Ok(fetched) => {
                procprof_files::write_over(path, &fetched.bytes)
                    .with_context(|| format!("write {}", path.display()))?;
                eprintln!("Wrote profile to {}", path.display());
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    if let Some(error) = failed {
        bail!("Failed to get profile: {error}");
    }
    Ok(paths.iter().map(|path| path.to_string_lossy().into_owned()).collect())
}

fn folder() -> Result<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = given("JEPROF_TMPDIR").or_else(|| given("HOME").map(|home| home.join("jeprof")));
    folder.context("neither JEPROF_TMPDIR nor HOME says where to keep the profile")
}

/// Two profiles of one host at one moment would have one name; the later gets a number.
fn distinct(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    let numbered = |path: &PathBuf, number: u32| PathBuf::from(format!("{}.{number}", path.display()));
    paths
        .map(|path| {
            let mut own = path.clone();
            let mut number = 1;
            while !seen.insert(own.clone()) {
                number += 1;
                own = numbered(&path, number);
            }
            own
        })
        .collect()
}

/// The symbol page of a process, used because no program was given.
pub(super) struct SymbolPage<'a> {
    address: &'a Address,
    /// The program's path, as the process reports it.
    pub(super) program: String,
}

impl<'a> SymbolPage<'a> {
    /// Finds out that the process has names, and what its program is.
    pub(super) fn open(fetcher: &Fetcher, address: &'a Address) -> Result<SymbolPage<'a>> {
        let text = |name: &str| -> Result<(String, String)> {
            let (remote, url) = address.page(name)?;
            Ok((url.to_string(), fetcher.text(&remote, &url)?))
        };
        let (url, answer) = text("symbol")?;
        let count = answer.lines().next().and_then(|line| line.strip_prefix("num_symbols:"));
        match count.and_then(|count| count.trim().parse::<u64>().ok()) {
            None => bail!("Failed to get the number of symbols from {url}"),
            Some(0) => bail!("Stripped binary. No symbols available."),
            Some(_) => {}
        }
        let (url, answer) = text("cmdline")?;
        let program = answer.split(['\0', '\n']).next().unwrap_or_default().trim_end_matches('\r');
        if program.is_empty() {
            bail!("Failed to get program name from {url}");
        }
        Ok(SymbolPage { address, program: program.to_owned() })
    }

    /// The process's names for addresses, less the frames that `retain` and `exclude` leave out.
    pub(super) fn names(&self, fetcher: &Fetcher, addresses: &[u64], filters: &[(&str, &Regex)]) -> Result<Names> {
        let (remote, page) = self.address.page("symbol")?;
        let page = fetcher.resolve(&remote, &page);
        let mut url = reqwest::Url::parse(&page.plain()).context("read the address of the symbol page")?;
        if !filters.is_empty() {
            url.query_pairs_mut().extend_pairs(filters.iter().map(|(key, pattern)| (*key, pattern.as_str())));
        }
        let addresses: Vec<Addr> = addresses.iter().copied().map(Addr).collect();
        let names = fetcher.names(&remote, &remote.page(&url)?, &addresses)?;
        let demangled = |names: String| names.split("--").map(binutils::demangle).collect::<Vec<_>>().join("--");
        Ok(Names::new(
            Some(self.program.clone()),
            names.into_iter().map(|(address, names)| (address.0, demangled(names))),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_jeprof_reads_them() {
        for (typed, url, file) in [
            (
                "http://localhost:8080/debug/mem",
                "http://localhost:8080/debug/mem/pprof/profile?seconds=7",
                "prog.5.localhost",
            ),
            ("a:80", "http://a:80/pprof/profile?seconds=7", "prog.5.a"),
            ("a:80/", "http://a:80/pprof/profile?seconds=7", "prog.5.a"),
            ("https://a/x/pprof/heap", "https://a/x/pprof/heap", "prog.5.a.pprof.heap"),
            ("a/pprof/growth", "http://a/pprof/growth", "prog.5.a.pprof.growth"),
            ("a:1/pprof/pmuprofile?event=x", "http://a:1/pprof/pmuprofile?event=x&seconds=7", "prog.5.a"),
            ("a:1/pprof/profile?seconds=0", "http://a:1/pprof/profile?seconds=0", "prog.5.a"),
        ] {
            let address = Address::parse(typed).unwrap_or_else(|| panic!("{typed}"));
            assert_eq!((address.url(7).as_str(), address.file_name("/bin/prog", 5).as_str()), (url, file), "{typed}");
        }
        for typed in ["heap.prof", "dir/heap.prof", "a:b/heap", ""] {
            assert!(Address::parse(typed).is_none(), "{typed}");
        }
    }

    #[test]
    fn a_name_with_a_number_is_many_machines() {
        let words = |word: &str| expanded(&[word.to_owned()]).map(|words| words.join(" ")).unwrap_or_default();
        assert_eq!(words("db:80@3/pprof/heap"), "0.db:80/pprof/heap 1.db:80/pprof/heap 2.db:80/pprof/heap");
        assert_eq!(words("db@2"), "0.db 1.db");
        assert_eq!(words("heap.prof"), "heap.prof");
        assert!(expanded(&["db@99999999999".to_owned()]).is_err());
    }
}
