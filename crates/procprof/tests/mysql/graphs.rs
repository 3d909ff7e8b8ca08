//! The graphs of SQL beside those of Debian's jeprof, of the very same dumps: real ones, which a node on loopback gives
//! as a backend does.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};

use super::server::{Authentication, Sql};
use crate::harness::{files, text};
use crate::jeprof::peer;
use crate::jeprof::programs::{Program, demo_node, kept};

/// A backend's `/pprof/heap`: always the same dump until another is put there.
struct Backend {
    port: u16,
    dump: Arc<Mutex<Vec<u8>>>,
}

impl Backend {
    fn start() -> Backend {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let dump = Arc::new(Mutex::new(Vec::new()));
        let served = Arc::clone(&dump);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut request = [0; 4096];
                let read = stream.read(&mut request).unwrap_or(0);
                let is_asked = request[..read].starts_with(b"GET /pprof/heap ");
                let body = if is_asked { served.lock().expect("no panic").clone() } else { Vec::new() };
                let status = if is_asked { "200 OK" } else { "404 Not Found" };
                let _ =
                    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _ = stream.write_all(&body);
            }
        });
        Backend { port, dump }
    }

    fn put(&self, heap: &str) {
        *self.dump.lock().expect("no panic") = std::fs::read(heap).expect("a dump");
    }

    /// A node with its port, whose program is known and not running.
    fn node(&self, id: u64, program: &Program) -> String {
        let (port, binary) = (self.port, program.binary());
        format!(
            "[[node]]\nname = \"{}\"\nid = {id}\nkind = \"starrocks-be\"\nhttp = \"127.0.0.1:{port}\"\nbinary = {binary:?}\n\
             pid_lookup = \"off\"\nschedule.cpu = {{ on = false }}\n",
            program.name
        )
    }
}

/// The output of a method, saved as the document describes.
fn printed(sql: &Sql, id: u64, call: &str) -> String {
    let statement = format!("admin execute on {id} 'System.print(HeapProf.getInstance().{call})'");
    let mut command = Command::new("mariadb");
    command.args([
        "--no-defaults",
        "-h",
        "127.0.0.1",
        "-P",
        &sql.port().to_string(),
        "-u",
        "ann",
        "--skip-ssl",
        "-N",
        "-r",
        "-B",
        "-e",
    ]);
    let output = command.arg(&statement).output().expect("this test needs mariadb");
    assert!(output.status.success(), "{statement}: {}", text(&output));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn graphs_are_those_of_jeprof_of_the_same_dump() {
    check(["c", "cpp", "rust"].map(kept));
}

#[test]
#[ignore = "jeprof takes long for a binary of this size: `cargo xtask soak long` runs it"]
fn graphs_of_a_large_program_are_those_of_jeprof_of_the_same_dump() {
    check([demo_node()]);
}

fn check<const COUNT: usize>(programs: [&Program; COUNT]) {
    let nodes: Vec<(u64, Backend, &Program)> = programs
        .into_iter()
        .enumerate()
        .map(|(number, program)| (10_001 + number as u64, Backend::start(), program))
        .collect();
    let sql = Sql::start(Authentication::Nodes(
        nodes.iter().map(|(id, backend, program)| backend.node(*id, program)).collect(),
    ));
    for (id, backend, program) in nodes {
        let ([first, second], binary) = (program.heaps(), program.binary());
        // What SQL shows is jeprof's usual index.
        let is_as = |printed: &str, output: &str, profiles: &[&str]| {
            let arguments = [&[output, "--inuse_space"], profiles].concat();
            peer::compare(program, &arguments, printed.as_bytes());
        };
        let base = format!("--base={first}");
        backend.put(first);
        let earlier = printed(&sql, id, "snapshot()");
        is_as(&printed(&sql, id, "dump_dot_snapshot()"), "--dot", &[binary, first]);
        backend.put(second);
        let later = printed(&sql, id, "snapshot()");
        let (earlier, later) = (earlier.trim(), later.trim());
        is_as(&printed(&sql, id, &format!("to_dot_format(\"{earlier}\")")), "--dot", &[binary, first]);
        is_as(&printed(&sql, id, &format!("to_dot_format(\"{later}\")")), "--dot", &[binary, second]);
        let difference = printed(&sql, id, &format!("diff_dot(\"{earlier}\", \"{later}\")"));
        is_as(&difference, "--dot", &[&base, binary, second]);
        is_as(&printed(&sql, id, "dump_text_snapshot()"), "--text", &[binary, second]);
        is_as(&printed(&sql, id, "dump_collapsed_snapshot()"), "--collapsed", &[binary, second]);
    }
    assert!(!files(&sql.data().join("cache/symbols")).is_empty(), "what was read of the programs is kept");
}
