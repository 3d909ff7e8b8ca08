//! Texts that are not harmless, and what is refused.

use std::collections::BTreeSet;
use std::path::Path;

use procprof_archive::Table;

use super::mariadb::{MariaDb, PASSWORD};
use super::{check_same, command, document, fails, load, opened, target, write, write_texts};
use crate::harness::{folder, text};

#[test]
fn a_server_is_reached_by_tls() {
    let folder = folder();
    let archive = folder.path().join("archive");
    write_texts(&archive, &["one"]);
    let written = |name: &str| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let (certificate, key) = (folder.path().join(name), folder.path().join(format!("{name}.key")));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        (certificate, key)
    };
    let ((certificate, key), (other, _)) = (written("server.pem"), written("other.pem"));
    let options = [format!("--ssl-cert={}", certificate.display()), format!("--ssl-key={}", key.display())];
    let mut server = MariaDb::start_with(&options);
    let mut client = server.client("profiles");
    client.run("ALTER USER loader@'%' REQUIRE SSL");
    let target = target(server.address());
    let with = |certificates: &Path| command(&archive, &target).arg("--ca-file").arg(certificates).output().unwrap();
    let plain = fails(&command(&archive, &target).output().unwrap());
    assert!(plain.contains("Access denied for user 'loader'"), "{plain}");
    let untrusted = fails(&with(&other));
    assert!(untrusted.contains("certificate"), "{untrusted}");
    let output = with(&certificate);
    assert!(output.status.success(), "{}", text(&output));
    check_same(&archive, &mut client);
}

#[test]
fn any_text_comes_back_as_it_was() {
    let folder = folder();
    let archive = folder.path().join("archive");
    let long = format!("std::map<{}>", "std::pair<int, 😀>, ".repeat(60_000));
    let texts = [
        "it's",
        "\"double\"",
        "back\\slash\\",
        "\\'; DROP TABLE archive_frames; -- ",
        "nul\0in",
        "line\r\nend\t",
        "\x1a",
        "😀 four bytes",
        "trailing ",
        "trailing",
        "Case",
        "case",
        "e\u{301}",
        "é",
        "%_",
        "NULL",
        &long,
    ];
    let alike = ["one", "two"].map(|end| format!("{}{end}", "ns::".repeat(1000)));
    let texts: Vec<&str> = texts.into_iter().chain(alike.iter().map(String::as_str)).collect();
    write_texts(&archive, &texts);
    let mut server = MariaDb::start();
    let mut client = server.client("profiles");
    client.run("SET GLOBAL max_allowed_packet = 1048576");
    let target = target(server.address());
    let refused = fails(&command(&archive, &target).output().unwrap());
    let expected = "table archive_frames: column function: row ";
    assert!(refused.contains(expected) && refused.contains("the server takes 1048"), "{refused}");
    assert!(refused.starts_with("0 parts with 0 rows loaded"), "{refused}");
    client.run("SET GLOBAL max_allowed_packet = 16777216");
    load(&archive, &server);
    check_same(&archive, &mut client);
    for text in &texts {
        let found = client.rows(&format!(
            "SELECT count(*) FROM archive_frames WHERE `function` = CONVERT(x'{}' USING utf8mb4)",
            text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>()
        ));
        assert_eq!(found, [["1"]], "{text:.40}");
    }
    // Groups tell apart what is alike at its beginning, and what other collations take for the same.
    document::read("mariadb", "").views.iter().for_each(|view| client.run(view));
    let groups = "SELECT function_name, sum(value) FROM self_values WHERE kind = 'cpu' GROUP BY function_name";
    let found: BTreeSet<Vec<String>> = client.rows(groups).into_iter().collect();
    assert_eq!(found, texts.iter().map(|text| vec![(*text).to_owned(), "255".to_owned()]).collect());
}

#[test]
fn what_is_wrong_is_named() {
    let folder = folder();
    let archive = folder.path().join("archive");
    write(&archive);
    let mut server = MariaDb::start();
    let mut client = server.client("profiles");
    let target = target(server.address());
    let run = |archive: &Path, target: &str| command(archive, target).output().unwrap();

    let wrong = fails(&command(&archive, &target).env("PROCPROF_LOAD_PASSWORD", "hunter2").output().unwrap());
    assert!(wrong.contains("Access denied for user 'loader'") && wrong.contains(&target), "{wrong}");
    assert!(!wrong.contains("hunter2"), "{wrong}");
    let file = folder.path().join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let none = target.replace("/profiles", "/nowhere");
    let mut by_file = command(&archive, &none);
    let by_file = by_file.env_remove("PROCPROF_LOAD_PASSWORD").arg("--password-file").arg(&file);
    let wrong = fails(&by_file.output().unwrap());
    assert!(wrong.contains("Unknown database 'nowhere'"), "{wrong}");
    let missing = folder.path().join("missing");
    let wrong = fails(&run(&missing, &target));
    assert!(wrong.contains(&missing.display().to_string()), "{wrong}");
    let wrong = fails(&run(&archive, "mysql://loader:hunter2@127.0.0.1/profiles"));
    assert!(wrong.contains("--password-file") && !wrong.contains("hunter2"), "{wrong}");
    let mut with_tls = command(&archive, &target);
    let authority = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem();
    let certificates = folder.path().join("ca.pem");
    std::fs::write(&certificates, authority).unwrap();
    let wrong = fails(&with_tls.arg("--ca-file").arg(&certificates).output().unwrap());
    assert!(wrong.contains("the server offers no TLS"), "{wrong}");

    client.run("CREATE TABLE archive_stacks (stack BIGINT NOT NULL, `date` DATE NOT NULL)");
    let wrong = fails(&run(&archive, &target));
    assert!(wrong.contains("table archive_stacks: column up is missing"), "{wrong}");
    client.run("DROP TABLE archive_stacks");

    // A part that cannot be read is named, and the others are loaded.
    let part = *opened(&archive).parts().unwrap().whole.keys().next().unwrap();
    let path = archive.join(part.path(Table::Samples));
    let intact = std::fs::read(&path).unwrap();
    std::fs::write(&path, &intact[..intact.len() - 20]).unwrap();
    let output = run(&archive, &target);
    let wrong = fails(&output);
    assert!(wrong.contains(&format!("failed: {}: {}: ", part.name(), part.path(Table::Samples))), "{wrong}");
    let parts = opened(&archive).parts().unwrap().whole.len();
    assert!(wrong.contains(&format!("{} parts with ", parts - 1)), "{wrong}");
    std::fs::write(&path, &intact).unwrap();
    let repaired = load(&archive, &server);
    assert!(repaired.starts_with("1 parts with "), "{repaired}");
    check_same(&archive, &mut client);

    client.run("DROP TABLE archive_labels");
    let wrong = fails(&run(&archive, &target));
    assert!(wrong.contains("table archive_labels is missing"), "{wrong}");
}
