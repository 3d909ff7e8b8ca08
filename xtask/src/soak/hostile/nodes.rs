//! Hostile nodes beside healthy ones; all are paths of one listener.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::inputs;

/// Healthy nodes, `healthy-0` and so on.
pub(super) const HEALTHY: usize = 5;
/// Time between two scheduled captures of any node.
pub(super) const INTERVAL: Duration = Duration::from_secs(20);
/// The number of nodes of each hostile kind.
const HOSTILE: &[(Manner, usize)] =
    &[(Manner::Hangs, 40), (Manner::Drips, 5), (Manner::Bombs, 4), (Manner::Floods, 2), (Manner::Resets, 4)];
/// Longest life of a connection that hangs or drips.
const TICKS: u32 = 300;
/// The bytes that a flood sends before it stops.
const FLOOD_BYTES: u64 = 10 << 30;

/// The behaviour of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// A profile after a second.
    Healthy,
    /// Nothing, for minutes.
    Hangs,
    /// A byte a second.
    Drips,
    /// Half a megabyte that unpacks to 250.
    Bombs,
    /// A body without end.
    Floods,
    /// Half a profile.
    Resets,
}

impl Manner {
    const ALL: [Manner; 6] =
        [Manner::Healthy, Manner::Hangs, Manner::Drips, Manner::Bombs, Manner::Floods, Manner::Resets];

    fn name(self) -> &'static str {
        match self {
            Manner::Healthy => "healthy",
            Manner::Hangs => "hangs",
            Manner::Drips => "drips",
            Manner::Bombs => "bombs",
            Manner::Floods => "floods",
            Manner::Resets => "resets",
        }
    }
}

/// The bodies that are sent.
struct Bodies {
    profile: Vec<u8>,
    bomb: Vec<u8>,
}

/// Answers until the program ends; returns its address.
pub(super) fn serve() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("listen")?;
    let address = listener.local_addr().context("learn the port")?.to_string();
    let bodies = Arc::new(Bodies { profile: inputs::node()?, bomb: inputs::bomb(250 << 20)? });
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let bodies = Arc::clone(&bodies);
            // The collector closes most of these connections.
            thread::spawn(move || answer(stream, &bodies).ok());
        }
    });
    Ok(address)
}

/// The configuration that has them all, behind a users file.
pub(super) fn config(address: &str, users: &Path) -> String {
    let mut text = format!(
        "users_file = {:?}\nsymbolize = false\nsql_seconds_max = 5\nrender_seconds_max = 5\n",
        users.display().to_string()
    );
    let nodes = HOSTILE.iter().copied().chain([(Manner::Healthy, HEALTHY)]);
    for (manner, number) in nodes.flat_map(|(manner, count)| (0..count).map(move |number| (manner, number))) {
        text += &format!(
            "[[node]]\nname = \"{name}-{number}\"\nkind = \"pprof\"\nurls = {{ cpu = \"http://{address}/{name}/{number}\" }}\n\
             schedule.cpu = {{ on = true, seconds = 1, every = {} }}\n",
            INTERVAL.as_secs(),
            name = manner.name(),
        );
    }
    text
}

fn answer(mut stream: TcpStream, bodies: &Bodies) -> std::io::Result<()> {
    let mut head = [0; 4096];
    let length = stream.read(&mut head)?;
    let head = String::from_utf8_lossy(&head[..length]).into_owned();
    let manner = Manner::ALL.into_iter().find(|manner| head.contains(&format!("/{}/", manner.name())));
    match manner {
        None => whole(&mut stream, "404 Not Found", &[]),
        Some(Manner::Healthy) => {
            thread::sleep(Duration::from_secs(1));
            whole(&mut stream, "200 OK", &bodies.profile)
        }
        Some(Manner::Hangs) => {
            thread::sleep(Duration::from_secs(1) * TICKS);
            Ok(())
        }
        Some(Manner::Drips) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")?;
            for byte in bodies.profile.iter().take(TICKS as usize) {
                stream.write_all(&[*byte])?;
                thread::sleep(Duration::from_secs(1));
            }
            Ok(())
        }
        Some(Manner::Bombs) => whole(&mut stream, "200 OK", &bodies.bomb),
        Some(Manner::Floods) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            let piece = vec![0x1f; 1 << 20];
            (0..FLOOD_BYTES / piece.len() as u64).try_for_each(|_| stream.write_all(&piece))
        }
        Some(Manner::Resets) => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bodies.profile.len())?;
            stream.write_all(&bodies.profile[..bodies.profile.len() / 2])
        }
    }
}

fn whole(stream: &mut TcpStream, status: &str, body: &[u8]) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    stream.write_all(body)
}
