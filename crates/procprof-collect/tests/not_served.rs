//! A process under the preload library that looks for no clients.

use std::time::Duration;

use procprof_collect::{HttpClient, Request, Watch, collect, endpoints, fetch};
use procprof_profile::ProfileType;

use crate::process::Server;
use crate::target;

#[tokio::test]
async fn a_client_that_is_not_served_is_told_what_to_do() {
    let server = Server::deaf();
    let (client, mut target) = (HttpClient::new(), target(&endpoints::PROCPROF, server.port));
    let limit = Duration::from_secs(1);
    (target.timeouts.answer, target.timeouts.margin) = (limit, limit);
    let collected = collect(&client, &target, &Request::new(ProfileType::Heap), &Watch::default()).await;
    let url = format!("http://127.0.0.1:{}/debug/pprof/heap", server.port).parse().unwrap();
    let fetched = fetch(&client, &target, &url, 0, limit, &Watch::default()).await;
    for error in [collected.map(drop).unwrap_err(), fetched.map(drop).unwrap_err()] {
        let text = error.to_string();
        assert_eq!(error.code(), "timeout", "{text}");
        assert!(text.contains("PROCPROF_LISTENER=thread") && text.contains("procprof record -p "), "{text}");
    }
}
