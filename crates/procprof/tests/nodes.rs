//! Nodes of several kinds on schedule, and what becomes of them when they fail.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use crate::collect::replay::Replay;
use crate::harness::{Server, folder, go_tool_pprof};
use crate::processes::go_server;

/// A Go server with `net/http/pprof`; killed when dropped.
struct GoServer {
    child: Child,
    port: u16,
}

impl GoServer {
    fn start() -> GoServer {
        let child = Command::new(go_server()).stdout(Stdio::piped()).spawn().expect("the Go server starts");
        let mut server = GoServer { child, port: 0 };
        let mut line = String::new();
        BufReader::new(server.child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        server.port = line
            .trim()
            .strip_prefix("port ")
            .and_then(|port| port.parse().ok())
            .unwrap_or_else(|| panic!("it said {line:?}"));
        server
    }
}

impl Drop for GoServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Answers every request with an error page and status 200, until the test ends.
pub(crate) fn garbage() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let page = "<html><body>Internal error</body></html>";
            let _ =
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}", page.len());
        }
    });
    port
}

fn config(go: u16, brpc: u16, garbage: u16) -> String {
    let often = "schedule.cpu = { seconds = 1, every = 3 }";
    format!(
        "[[node]]\nname = \"go\"\nkind = \"go\"\nhttp = \"127.0.0.1:{go}\"\n{often}\n\n\
         [[node]]\nname = \"be\"\nid = 10002\nkind = \"starrocks-be\"\nhttp = \"127.0.0.1:{brpc}\"\nbrpc = \"127.0.0.1:{brpc}\"\n{often}\n\
         schedule.contention = {{ on = true, seconds = 1, every = 3 }}\n\n\
         [[node]]\nname = \"broken\"\nkind = \"go\"\nhttp = \"127.0.0.1:{garbage}\"\n{often}\n"
    )
}

#[test]
fn nodes_are_collected_on_schedule_and_failures_are_rows() {
    let folder = folder();
    let (go, brpc) = (GoServer::start(), Replay::live());
    let file = folder.path().join("procprof.toml");
    std::fs::write(&file, config(go.port, brpc.port, garbage())).expect("a configuration");
    let server = Server::start(&folder.path().join("data"), &["--config", &file.display().to_string()]);

    for query in [
        "node=go&type=cpu",
        "node=10002&type=cpu",
        "node=10002&type=contention",
        "node=go&type=heap",
        "node=go&type=goroutine",
    ] {
        server.wait_for(query, |server| {
            server.profiles(query).len() >= 2 || (!query.contains("cpu") && !server.profiles(query).is_empty())
        });
    }
    for (query, name) in [("node=go&type=cpu", "hot70"), ("node=10002&type=cpu", "hot_70")] {
        let id = server.profiles(query)[0]["id"].as_str().expect("an id").to_owned();
        let path = folder.path().join("downloaded.pb.gz");
        std::fs::write(&path, server.get(&format!("/api/profiles/{id}/download")).1).expect("the download is kept");
        let top = go_tool_pprof(&["-top", &path.display().to_string()]);
        assert!(top.contains(name), "{query}: {top}");
    }
    server.wait_for("an error row of the broken node", |server| !server.errors("node=broken").is_empty());
    let row = server.errors("node=broken")[0].clone();
    assert!(row["first_bytes"].as_str().is_some_and(|bytes| bytes.contains("<html>")), "{row}");
    assert!(server.profiles("node=broken").is_empty());

    // A node that is killed is an error row; the others go on.
    let others = server.profiles("node=10002&type=cpu").len();
    drop(go);
    server.wait_for("an error row of the killed node", |server| !server.errors("node=go").is_empty());
    server.wait_for("more profiles of the other node", |server| server.profiles("node=10002&type=cpu").len() > others);
}
