//! [`Target`]: where an archive is loaded to, as typed.
//!
//! ```text
//! mysql://USER@HOST:PORT/DATABASE
//! starrocks://USER@HOST:QUERYPORT/DATABASE?http=HOST:PORT     (or https=)
//! ```
//!
//! A text that is refused is not shown, since it may have a password.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use procprof_server::config::is_host;

use crate::remote;

/// The variable with the password where no file is given.
pub(super) const PASSWORD_VARIABLE: &str = "PROCPROF_LOAD_PASSWORD";
/// Characters of the name of a database, at most.
const DATABASE_MAX: usize = 64;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

/// The HTTP port of a StarRocks frontend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HttpAddress {
    pub(super) address: Address,
    pub(super) is_tls: bool,
}

/// A database that tables are loaded into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) user: String,
    pub(super) address: Address,
    pub(super) database: String,
    /// Where rows go in StarRocks; `None` for engines that take them as `INSERT`.
    pub(super) http: Option<HttpAddress>,
}

/// How the user proves who it is, and how connections are secured.
#[derive(Clone, Default)]
pub(super) struct Security {
    pub(super) password: Option<String>,
    /// Certificates to trust instead of the system's.
    pub(super) ca_file: Option<PathBuf>,
    /// Whether other hosts are connected to without TLS.
    pub(super) no_tls: bool,
}

impl Security {
    /// With the password of a file or of the environment.
    pub(super) fn new(password_file: Option<PathBuf>, ca_file: Option<PathBuf>, no_tls: bool) -> Result<Security> {
        let password = match password_file {
            Some(file) => Some(remote::password(&file)?),
            None => match std::env::var(PASSWORD_VARIABLE) {
                Ok(password) => Some(password),
                Err(std::env::VarError::NotPresent) => None,
                Err(std::env::VarError::NotUnicode(_)) => bail!("{PASSWORD_VARIABLE} is no text"),
            },
        };
        Ok(Security { password, ca_file, no_tls })
    }

    /// Whether connections to a host use TLS.
    pub(super) fn is_tls(&self, address: &Address) -> bool {
        !self.no_tls && (self.ca_file.is_some() || !address.is_loopback())
    }
}

impl Address {
    pub(super) fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    }

    fn parse(text: &str, default_port: Option<u16>) -> Option<Address> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(digits) => digits.parse().ok().filter(|port| *port > 0)?,
            None if port.is_empty() => default_port?,
            None => return None,
        };
        is_host(host).then(|| Address { host: host.to_owned(), port })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Address { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.http.is_some() { "starrocks" } else { "mysql" };
        write!(f, "{scheme}://{}@{}/{}", self.user, self.address, self.database)
    }
}

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Target> {
        const FORMS: &str = "expected mysql://USER@HOST:PORT/DATABASE or \
                             starrocks://USER@HOST:PORT/DATABASE?http=HOST:PORT";
        let (default_port, is_starrocks, rest) = match text.split_once("://") {
            Some(("mysql", rest)) => (3306, false, rest),
            Some(("starrocks", rest)) => (9030, true, rest),
            _ => bail!("the target is no URL of a database; {FORMS}"),
        };
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let (user, place) = rest.rsplit_once('@').context(format!("the target names no user; {FORMS}"))?;
        ensure!(!user.contains(':'), "the target has a password; give it by --password-file or in {PASSWORD_VARIABLE}");
        let is_user = !user.is_empty() && user.chars().all(|one| !one.is_control() && !"/?#%".contains(one));
        ensure!(is_user, "the target names no user; {FORMS}");
        let (address, database) = place.split_once('/').context(format!("the target names no database; {FORMS}"))?;
        let address =
            Address::parse(address, Some(default_port)).context(format!("the target's address is none; {FORMS}"))?;
        let is_named = |name: &str| name.chars().all(|one| one.is_ascii_alphanumeric() || "_-$".contains(one));
        let is_database = (1..=DATABASE_MAX).contains(&database.len()) && is_named(database);
        ensure!(
            is_database,
            "the target's database: a name of up to {DATABASE_MAX} letters, digits and _ - $ is expected"
        );
        let http = query.map(http).transpose()?;
        match (is_starrocks, &http) {
            (true, None) => bail!("starrocks:// needs the frontend's HTTP port: ?http=HOST:PORT"),
            (false, Some(_)) => bail!("mysql:// takes no ?http=; rows are sent as INSERT"),
            _ => {}
        }
        Ok(Target { user: user.to_owned(), address, database: database.to_owned(), http })
    }
}

fn http(query: &str) -> Result<HttpAddress> {
    let (is_tls, address) = match query.split_once('=') {
        Some(("http", address)) => (false, address),
        Some(("https", address)) => (true, address),
        _ => bail!("the target takes nothing behind ? but http=HOST:PORT or https=HOST:PORT"),
    };
    let address = Address::parse(address, None).context("the target's http= is no HOST:PORT")?;
    Ok(HttpAddress { address, is_tls })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_written() {
        let plain: Target = "mysql://prof@db.example:3307/profiles".parse().unwrap();
        assert_eq!(plain.to_string(), "mysql://prof@db.example:3307/profiles");
        let without_port: Target = "mysql://a@b@[::1]/p".parse().unwrap();
        assert_eq!((without_port.user.as_str(), without_port.address.port), ("a@b", 3306));
        assert_eq!(without_port.to_string(), "mysql://a@b@[::1]:3306/p");
        let rocks: Target = "starrocks://root@fe:9030/p?https=fe:8030".parse().unwrap();
        let http = HttpAddress { address: Address { host: "fe".to_owned(), port: 8030 }, is_tls: true };
        assert_eq!(rocks.http, Some(http));
    }

    #[test]
    fn what_is_no_target_is_refused_without_a_word_of_it() {
        for wrong in [
            "hunter2",
            "http://hunter2@h/d",
            "mysql://u:hunter2@h:1/d",
            "mysql://u:hunter2/x@h:1/d",
            "mysql://hunter2",
            "mysql://@hunter2/d",
            "mysql://u@hunter2/",
            "mysql://u@hunter2:x/d",
            "mysql://u@h/hunter2;drop",
            "mysql://u@h/d?password=hunter2",
            "mysql://u@h/d?http=hunter2:1",
            "starrocks://u@hunter2/d",
            "starrocks://u@h/d?http=hunter2",
        ] {
            let error = format!("{:#}", wrong.parse::<Target>().expect_err(wrong));
            assert!(!error.contains("hunter2"), "{wrong}: {error}");
        }
    }

    #[test]
    fn other_hosts_are_connected_to_by_tls() {
        let address = |host: &str| Address { host: host.to_owned(), port: 1 };
        let with_file = Security { ca_file: Some("ca.pem".into()), ..Security::default() };
        let without = Security { no_tls: true, ..Security::default() };
        for (host, expected) in [("db", [true, true, false]), ("127.0.0.1", [false, true, false])] {
            let found = [&Security::default(), &with_file, &without].map(|security| security.is_tls(&address(host)));
            assert_eq!(found, expected, "{host}");
        }
    }
}
