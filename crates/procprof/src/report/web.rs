//! `report -http=ADDR`: the web view of the profile, until ^C.

use std::io::{IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use procprof_server::{ReportServer, ReportServerHandle};
use tokio::signal::unix::{SignalKind, signal};

/// The address of the view, and its options.
#[derive(Clone, Debug)]
pub(super) struct Web {
    /// As typed: `host:port`, where either may be missing.
    pub(super) address: String,
    /// Whether a browser is opened.
    pub(super) opens_browser: bool,
}

impl Web {
    /// Serves the view until the process is signalled to end.
    pub(super) fn serve(&self, server: ReportServer) -> Result<()> {
        let address = socket_address(&self.address)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("start the runtime")?;
        runtime.block_on(async {
            let handle = server.start(address).await?;
            let _page = self.announce(&handle);
            let mut terminated = signal(SignalKind::terminate()).context("listen for signals")?;
            tokio::select! {
                interrupted = tokio::signal::ctrl_c() => interrupted.context("listen for ^C")?,
                _ = terminated.recv() => {}
            }
            handle.stop().await;
            Ok(())
        })
    }

    /// Prints the address of the view and opens a browser there; the page that redirects the browser is kept until the
    /// end.
    fn announce(&self, handle: &ReportServerHandle) -> Option<tempfile::TempPath> {
        let bound = handle.address();
        let host = if bound.ip().is_loopback() || bound.ip().is_unspecified() {
            "localhost".to_owned()
        } else {
            host(bound.ip())
        };
        let url = format!("http://{host}:{}{}", bound.port(), handle.path());
        eprintln!("Serving web UI on {url}");
        if !bound.ip().is_loopback() {
            eprintln!("procprof: anyone who reaches {bound} and knows this address can read the profile");
        }
        if !self.opens_browser || !std::io::stderr().is_terminal() || !is_desktop() {
            return None;
        }
        match open(&url) {
            Ok(page) => Some(page),
            Err(error) => {
                eprintln!("procprof: no browser opened: {error}");
                None
            }
        }
    }
}

fn host(ip: IpAddr) -> String {
    if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() }
}

/// Reads `host:port`; without a host it is this machine alone, without a port any that is free.
fn socket_address(typed: &str) -> Result<SocketAddr> {
    let (host, port) = typed.rsplit_once(':').unwrap_or((typed, ""));
    let port: u16 = if port.is_empty() {
        0
    } else {
        port.parse().with_context(|| format!("-http={typed}: {port:?} is no port"))?
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() || host == "localhost" {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    match (host, port).to_socket_addrs().with_context(|| format!("-http={typed}"))?.next() {
        Some(address) => Ok(address),
        None => bail!("-http={typed}: the host has no address"),
    }
}

/// Whether a browser can show itself.
fn is_desktop() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Opens a browser at an address, by way of a page that only its user can read: the arguments of a command are no
/// secret.
fn open(url: &str) -> std::io::Result<tempfile::TempPath> {
    let mut page = tempfile::Builder::new().prefix("procprof-").suffix(".html").tempfile()?;
    writeln!(
        page,
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={url}\"><a href=\"{url}\">procprof</a>"
    )?;
    let page = page.into_temp_path();
    let quiet =
        Command::new("xdg-open").arg(&page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    // Reaped by the end of this process; without xdg-open the reader opens the address.
    drop(quiet);
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_local_unless_they_say_otherwise() {
        let address = |typed: &str| socket_address(typed).map(|address| address.to_string()).unwrap_or_default();
        for (typed, bound) in [
            (":", "127.0.0.1:0"),
            (":8081", "127.0.0.1:8081"),
            ("localhost:0", "127.0.0.1:0"),
            ("0.0.0.0:8081", "0.0.0.0:8081"),
            ("[::1]:80", "[::1]:80"),
            ("127.0.0.1:x", ""),
        ] {
            assert_eq!(address(typed), bound, "{typed}");
        }
    }
}
