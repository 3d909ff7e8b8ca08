//! A backend's HTTP and brpc pages on one port: the flag of jemalloc's profiler, and a heap dump.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const DUMP: &str = "heap_v2/524288\n  t*: 2: 1048576 [0: 0]\n@ 0x401000 0x402000\n  t*: 2: 1048576 [0: 0]\n\nMAPPED_LIBRARIES:\n\
                    00400000-00500000 r-xp 00000000 08:01 1 /opt/starrocks/be/lib/starrocks_be\n";

/// Its kind of switch.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Switch {
    /// The flag, and jemalloc behind it.
    Works,
    /// The flag, but no `prof:true`.
    Refuses,
    /// No such flag.
    Missing,
}

/// The backend; its port.
pub(crate) fn start(switch: Switch) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let active = Arc::new(AtomicBool::new(false));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 8192];
            let length = stream.read(&mut request).unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let (status, body) = answer(request.split(' ').nth(1).unwrap_or("/"), switch, &active);
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    });
    port
}

fn answer(path: &str, switch: Switch, active: &AtomicBool) -> (&'static str, String) {
    let table = "Name | Value | Description | Defined At\n---------------------------------------\n";
    match (path, switch) {
        ("/pprof/heap", _) => ("200 OK", DUMP.to_owned()),
        (path, switch) if path.starts_with("/debug/mem/pprof/profile") => match switch {
            Switch::Works => ("200 OK", DUMP.to_owned()),
            Switch::Refuses => ("500 Internal Server Error", "opt.prof is not ON".to_owned()),
            Switch::Missing => ("404 Not Found", String::new()),
        },
        ("/flags/je_prof_active", Switch::Missing) => ("200 OK", table.to_owned()),
        ("/flags/je_prof_active", _) => {
            let value = if active.load(Ordering::SeqCst) { "true (default:false)" } else { "false" };
            (
                "200 OK",
                format!("{table}je_prof_active (R) | {value} | control jemalloc prof.active | jemalloc_profiler.cpp\n"),
            )
        }
        ("/flags/je_prof_active?setvalue=true", Switch::Refuses) => {
            ("403 Forbidden", "Fail to set `je_prof_active' to true".to_owned())
        }
        (path, Switch::Works) if path.starts_with("/flags/je_prof_active?setvalue=") => {
            active.store(path.ends_with("true"), Ordering::SeqCst);
            ("200 OK", "Set `je_prof_active'".to_owned())
        }
        _ => ("404 Not Found", "No such gflag".to_owned()),
    }
}
