//! Source lines in the browser: only from the folders that the configuration names.

use std::os::unix::fs::symlink;

use procprof_profile::format::pprof::encode_gzip;
use procprof_profile::{Function, Line, Location, Nanos, ProfileBuilder};

use crate::harness::{TestServer, quiet};

/// A profile with one function a file, each with all its time in line 2.
fn profile(functions: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    for (name, file) in functions {
        let (name, filename) = (builder.intern(name), builder.intern(file));
        let function = builder.function(Function { name, system_name: name, filename, start_line: 1 });
        let location = builder.location(Location::default(), &[Line { function, line: 2, ..Line::default() }]);
        builder.sample(&[location], &[1_000_000], &[]);
    }
    builder.time(Nanos(1_700_000_000_000_000_000), Nanos(1_000_000_000));
    encode_gzip(&builder.finish().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn list_shows_lines_of_files_below_the_roots_and_of_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("src/deep")).unwrap();
    std::fs::write(at("src/deep/hot.c"), "int hot(void) {\n  return 70;\n}\n").unwrap();
    std::fs::write(at("secret.c"), "int\nsecret\n").unwrap();
    symlink(at("secret.c"), at("src/link.c")).unwrap();
    let path = |name: &str| at(name).display().to_string();
    let (hot, link, secret) = (path("src/deep/hot.c"), path("src/link.c"), path("secret.c"));
    let climbing = path("src/deep/../../secret.c");
    let functions = [
        ("hot", hot.as_str()),
        ("linked", &link),
        ("outside", &secret),
        ("climbing", &climbing),
        ("relative", "deep/hot.c"),
        ("trick", "secret.c"),
    ];

    let server = TestServer::start(quiet()).await;
    let id = server.push("cpu", profile(&functions)).await["id"].as_str().unwrap().to_owned();
    let list =
        async |server: &TestServer, query: &str| server.text(&format!("/api/profiles/{id}/render/list?{query}")).await;
    let page = list(&server, "symbol=hot").await;
    assert!(page.contains("source_roots") && !page.contains("return 70"), "{page}");
    let data = server.stop().await;

    let mut config = quiet();
    config.source_roots = vec![path("src")];
    let server = TestServer::in_folder(config, data).await;
    assert!(list(&server, "symbol=hot").await.contains("return 70"));
    assert!(list(&server, "symbol=relative").await.contains("return 70"));
    for query in ["symbol=linked", "symbol=outside", "symbol=climbing", "symbol=trick"] {
        for elsewhere in [
            String::new(),
            format!("&source_path={}", folder.path().display()),
            "&trim_path=/&source_path=/".to_owned(),
        ] {
            let page = list(&server, &format!("{query}{elsewhere}")).await;
            assert!(!page.contains("secret\n"), "{query}{elsewhere}: {page}");
        }
    }
    assert!(list(&server, "symbol=linked").await.contains("a symbolic link, which is not followed"));

    std::fs::write(at("src/deep/hot.c"), "int hot(void) {\n  return 71;\n}\n").unwrap();
    assert!(list(&server, "symbol=hot").await.contains("return 71"), "what changes is not kept");
}
