//! The SQL server as users see it: clients of six kinds, with and without TLS, by each authentication method, through
//! the documents' own transcript.

mod clients;
mod graphs;
mod raw;
mod server;
mod soak;

use std::path::Path;

use clients::{CLIENTS, Client, Login};
use server::{Authentication, Sql};

/// Checks the transcript of StarRocks' document on heap profiles, and further statements of clients.
fn check(client: &Client, login: &Login, node: &str) {
    let script = |call: &str| format!("admin execute on {node} 'System.print(HeapProf.getInstance().{call})'");
    let statements = [
        script("enable_prof()"),
        script("has_enable()"),
        script("dump_dot_snapshot()"),
        script("disable_prof()"),
        script("has_enable()"),
        format!("ADMIN EXECUTE ON {node}, 4711 'System.print(HeapProf.getInstance().has_enable())'"),
        "SHOW BACKENDS".to_owned(),
        "SELECT 'größe 温度' AS text, NULL AS missing, 7 AS seven".to_owned(),
        "SELECT id, role FROM nodes WHERE id = ?\t10001".to_owned(),
        "SET NAMES utf8mb4".to_owned(),
        "admin execute on 4711 'System.print(HeapProf.getInstance().has_enable())'".to_owned(),
        "admin execute on 10001 'System.print(File.open(1))'".to_owned(),
        "SELECT absent FROM profiles".to_owned(),
        "SELEC 1".to_owned(),
    ];
    let answers = client.answers(login, &statements);
    assert_eq!(answers.len(), statements.len(), "{}: {answers:?}", client.name);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let of = |index: usize| (&answers[index].names, &answers[index].rows, &answers[index].code);
    for (index, text) in [(0, "instance of HeapProf"), (1, "true"), (3, "instance of HeapProf"), (4, "false")] {
        assert_eq!(
            of(index),
            (&vec!["result".to_owned()], &vec![vec![text.to_owned()]], &None),
            "{}: {}",
            client.name,
            statements[index]
        );
    }
    let (names, lines, _) = of(2);
    assert_eq!(names, &["result"], "{}", client.name);
    let dot: String = lines.iter().map(|row| row[0].replace("\\\\", "\\") + "\n").collect();
    assert!(
        dot.starts_with("digraph \"") && dot.contains(" -> ") && server::graphviz_accepts(&dot),
        "{}: {dot}",
        client.name
    );
    assert_eq!(
        of(5),
        (
            &words(&["node_id", "status", "result"]),
            &vec![words(&["4711", "ERROR", "node not found"]), words(&[node, "OK", "false"])],
            &None
        ),
        "{}",
        client.name
    );
    let (names, rows, _) = of(6);
    assert_eq!(names[..2], ["BackendId", "IP"], "{}", client.name);
    assert_eq!((rows.len(), rows[0].len(), rows[0][0].as_str()), (1, names.len(), node), "{}", client.name);
    assert_eq!(
        of(7),
        (&words(&["text", "missing", "seven"]), &vec![words(&["größe 温度", "NULL", "7"])], &None),
        "{}",
        client.name
    );
    assert_eq!(of(8), (&words(&["id", "role"]), &vec![words(&["10001", "BE"])], &None), "{}", client.name);
    assert_eq!((&answers[9].names, &answers[9].code), (&Vec::new(), &None), "{}", client.name);
    let codes: Vec<Option<u16>> = answers[10..].iter().map(|answer| answer.code).collect();
    assert!(codes.iter().all(Option::is_some), "{}: {codes:?}", client.name);
    assert_eq!(codes[2..], [Some(1054), Some(1064)], "{}", client.name);
}

/// A user is let in, and reads.
fn check_login(client: &Client, login: &Login) {
    let answers = client.answers(login, &["SELECT id, role FROM nodes WHERE id = 10001".to_owned()]);
    assert_eq!(answers[0].rows, [["10001", "BE"]], "{} as {}", client.name, login.user);
}

/// The logins of each client, of which the first with TLS is checked by `check_first` and the others by `check_next`.
fn check_logins(server: &Sql, check_first: fn(&Client, &Login), check_next: fn(&Client, &Login)) {
    for client in CLIENTS {
        for tls in [true, false] {
            // The first login of a user needs the password itself; the next ones are short.
            let check = if tls { check_first } else { check_next };
            check(client, &server.login("olga", "acts ☂", tls, None));
            check_next(client, &server.login("olga", "acts ☂", tls, None));
            if client.method.is_some() {
                check_next(client, &server.login("nina", "natively", tls, client.method));
            }
        }
    }
}

#[test]
fn every_client_logs_in_with_tls_and_without_and_gets_the_transcript_of_the_documents() {
    check_logins(&Sql::shared(), |client, login| check(client, login, "10001"), check_login);
}

#[test]
#[ignore = "takes a minute: `cargo xtask soak long` runs it"]
fn every_client_gets_the_transcript_of_the_documents_in_every_way_of_login() {
    let check: fn(&Client, &Login) = |client, login| check(client, login, "10001");
    check_logins(&Sql::start(Authentication::Tls), check, check);
    let open = Sql::start(Authentication::Open);
    let generated = Sql::start(Authentication::Generated);
    let password = generated.generated_password();
    for client in CLIENTS {
        check(client, &open.login("anyone", "", false, None));
        check(client, &generated.login("root", &password, false, None));
    }
}

#[test]
fn every_client_is_turned_away_with_a_wrong_password() {
    let server = Sql::shared();
    for client in CLIENTS {
        let message = client.refused(&server.login("olga", "wrong", true, None));
        assert!(
            message.contains("Access denied for user 'olga'@'127.0.0.1' (using password: YES)"),
            "{}: {message}",
            client.name
        );
    }
}

#[test]
fn every_client_logs_in_where_no_password_is_required() {
    let server = Sql::start(Authentication::Open);
    for client in CLIENTS {
        check_login(client, &server.login("anyone", "", false, None));
    }
}

#[test]
fn every_client_comes_in_as_the_generated_operator() {
    let server = Sql::start(Authentication::Generated);
    let password = server.generated_password();
    for client in CLIENTS {
        check_login(client, &server.login("root", &password, false, None));
    }
}

#[test]
fn all_clients_of_the_documents_begin_and_read() {
    let server = Sql::start(Authentication::Open);
    let table = clients::begin_several(&server.login("anyone", "", false, None));
    let table = table.unwrap_or_else(|wrong| panic!("{wrong}"));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql.md");
    let found = std::fs::read_to_string(&page).expect("the page");
    let start = found.find("| language | clients |").expect("a table of clients in docs/sql.md");
    let length = found[start..].find("\n\n").expect("the table's end") + 1;
    let expected = [&found[..start], &table, &found[start + length..]].concat();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&page, &expected).expect("write the page");
        return;
    }
    // Some clients are those of the machine's release.
    let release = std::fs::read_to_string("/etc/os-release").expect("the machine's release");
    let is_documented = release.lines().any(|line| line == "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"");
    let compared = |text: &str| if is_documented { text.to_owned() } else { without_versions(text) };
    let is_same = compared(&found[start..start + length]) == compared(&table);
    assert!(is_same, "docs/sql.md has other clients; UPDATE_EXPECT=1 writes it anew:\n{table}");
}

/// A text without its words that begin with a digit, and what separates them.
fn without_versions(text: &str) -> String {
    let is_version = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    text.split([' ', ',', ';']).filter(|word| !is_version(word)).collect::<Vec<_>>().join(" ")
}

#[test]
fn clients_may_compress() {
    let server = Sql::shared();
    let statements = [
        "SELECT CHAR_LENGTH(REPEAT('größe ', 100000)) AS n, 7 AS seven".to_owned(),
        "SELECT REPEAT('größe ', 20000) AS t".to_owned(),
    ];
    for name in ["mariadb", "Go driver"] {
        let client = CLIENTS.iter().find(|client| client.name == name).expect("a client");
        for tls in [true, false] {
            let mut login = server.login("olga", "acts ☂", tls, None);
            login.compress = true;
            let answers = client.answers(&login, &statements);
            assert_eq!(answers[0].rows, [["600000", "7"]], "{name}");
            assert_eq!(answers[1].rows, [["größe ".repeat(20_000)]], "{name}");
        }
    }
}

#[test]
fn viewers_read_and_do_nothing() {
    let server = Sql::shared();
    let statements = [
        "SELECT COUNT(*) >= 0 FROM profiles".to_owned(),
        "admin execute on 10001 'System.print(HeapProf.getInstance().enable_prof())'".to_owned(),
        "COLLECT CPU ON 10001 FOR 1 SECONDS".to_owned(),
        "admin execute on 10001 'System.print(HeapProf.getInstance().has_enable())'".to_owned(),
    ];
    let answers = CLIENTS[0].answers(&server.login("eve", "looks", true, None), &statements);
    assert_eq!(answers[0].rows, [["1"]]);
    for answer in &answers[1..] {
        assert_eq!(answer.code, Some(1227), "{answer:?}");
    }
}
