//! The greeting, its answer, commands, and the arithmetic of both methods.

use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OaepPublicEncryptingKey, PublicEncryptingKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use procprof_core::auth::{native_verifier, sha2_verifier};

use crate::mysql::command::Command;
use crate::mysql::greeting::{First, Method, can, put_greeting};
use crate::mysql::scramble::{NONCE, RsaKey, native_fits, sha2_fits};
use crate::mysql::{SqlError, SqlErrorKind};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn verifiers_are_those_mysql_keeps() {
    assert_eq!(hex(&native_verifier("password")), "2470c0c06dee42fd1618bb99005adca2ec9d1e19");
    assert_eq!(hex(&native_verifier("123456")), "6bb4837eb74329105ee4568dda7dc67ed2ca2ad9");
    assert_eq!(hex(&sha2_verifier("secret")), "3881219d087dd9c634373fd33dfa33a2cb6bfc6c520b64b8bb60ef2ceb534ae7");
}

#[test]
fn answers_fit_their_nonce_and_password_only() {
    let nonce: [u8; NONCE] = [70, 114, 92, 94, 1, 38, 11, 116, 63, 114, 23, 101, 126, 103, 26, 95, 81, 17, 24, 21];
    let answer = bytes("35b18c9ffbbd7f356dfcac32d3c0f0a41a30cf2d");
    assert!(native_fits(&answer, &nonce, &native_verifier("secret")));
    assert!(
        !native_fits(&answer, &nonce, &native_verifier("secret2"))
            && !native_fits(&answer, &[1; NONCE], &native_verifier("secret"))
    );
    assert!(
        !native_fits(&[], &nonce, &native_verifier(""))
            && !native_fits(&answer[1..], &nonce, &native_verifier("secret"))
    );
    let nonce: [u8; NONCE] = [10, 47, 74, 111, 75, 73, 34, 48, 88, 76, 114, 74, 37, 13, 3, 80, 82, 2, 23, 21];
    for (password, answer) in [
        ("secret", "f490e76f66d9d86665ce54d98c78d0acfe2fb0b08b423da807144873d30b312c"),
        ("secret2", "abc3934a012cf342e876071c8ee202de51785b430258a7a0138bc79c4d800bc6"),
    ] {
        assert!(sha2_fits(&bytes(answer), &nonce, &sha2_verifier(password)), "{password}");
        assert!(!sha2_fits(&bytes(answer), &nonce, &sha2_verifier("other")), "{password}");
        assert!(!sha2_fits(&bytes(answer)[..20], &nonce, &sha2_verifier(password)), "{password}");
    }
}

#[test]
fn a_password_hidden_by_the_key_is_read() {
    let key = RsaKey::generate().unwrap();
    let pem = String::from_utf8(key.pem().to_vec()).unwrap();
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let public = PublicEncryptingKey::from_der(&STANDARD.decode(body).unwrap()).unwrap();
    let public = OaepPublicEncryptingKey::new(public).unwrap();
    let nonce = [b'n'; NONCE];
    let hide = |text: &[u8]| {
        let plain: Vec<u8> = text.iter().map(|byte| byte ^ b'n').collect();
        let mut room = vec![0; public.ciphertext_size()];
        public.encrypt(&OAEP_SHA1_MGF1SHA1, &plain, &mut room, None).unwrap().to_vec()
    };
    assert_eq!(key.open(&hide("pass wörd\0".as_bytes()), &nonce).as_deref(), Some("pass wörd"));
    assert_eq!(key.open(&hide(b"no end"), &nonce), None);
    assert_eq!(key.open(&hide(b"\xff\0"), &nonce), None, "not UTF-8");
    for wrong in [&[][..], &[0; 256], &[1; 300], &[2]] {
        assert_eq!(key.open(wrong, &nonce), None);
    }
}

#[test]
fn the_greeting_equals_the_reference() {
    let nonce: [u8; NONCE] = std::array::from_fn(|index| b'a' + index as u8);
    for tls in [false, true] {
        let mut out = Vec::new();
        put_greeting(&mut out, 0x0102_0304, &nonce, Method::CachingSha2, tls);
        let version = out.iter().position(|byte| *byte == 0).unwrap();
        assert!(out[0] == 10 && out[1..version].starts_with(b"8.0."));
        let rest = &out[version + 1..];
        assert_eq!(rest[..13], [4, 3, 2, 1, b'a', b'b', b'c', b'd', b'e', b'f', b'g', b'h', 0]);
        let low = u32::from(u16::from_le_bytes([rest[13], rest[14]]));
        let high = u32::from(u16::from_le_bytes([rest[18], rest[19]]));
        let capabilities = low | high << 16;
        assert_eq!(capabilities & can::TLS != 0, tls);
        assert!(capabilities & can::PROTOCOL_41 != 0 && capabilities & can::PLUGIN_AUTH != 0);
        assert_eq!((rest[20], &rest[21..31]), (21, &[0; 10][..]));
        assert_eq!(&rest[31..], b"ijklmnopqrst\0caching_sha2_password\0");
    }
}

/// An answer to the greeting.
fn answer(capabilities: u32, rest: &[u8]) -> Vec<u8> {
    [&capabilities.to_le_bytes()[..], &[0, 0, 0, 1, 45], &[0; 23], rest].concat()
}

const MODERN: u32 =
    can::PROTOCOL_41 | can::SECURE_CONNECTION | can::PLUGIN_AUTH | can::CONNECT_WITH_DB | can::CONNECT_ATTRIBUTES;

#[test]
fn answers_to_the_greeting_are_read_in_every_form() {
    let sent = answer(MODERN, b"ann\0\x03abcprocprof\0mysql_native_password\0\x04\x01k\x01v");
    let First::Hello(hello) = First::decode(&sent).unwrap() else { panic!("no TLS was requested") };
    assert_eq!(
        (hello.user.as_str(), hello.answer.as_slice(), hello.database.as_deref()),
        ("ann", &b"abc"[..], Some("procprof"))
    );
    assert_eq!(hello.method, Some(Method::Native));
    super::every_beginning(&sent, |bytes| First::decode(bytes).map(drop));
    for (capabilities, rest, method) in [
        (can::PROTOCOL_41, &b"ann\0abc\0"[..], Some(Method::Native)),
        (can::PROTOCOL_41 | can::SECURE_CONNECTION, b"ann\0\x03abc", Some(Method::Native)),
        (MODERN | can::ENCODED_ANSWER, b"ann\0\xfc\x03\0abc\0caching_sha2_password\0", Some(Method::CachingSha2)),
        (MODERN, b"ann\0\x03abc\0sha256_password\0", None),
    ] {
        let First::Hello(hello) = First::decode(&answer(capabilities, rest)).unwrap() else {
            panic!("no TLS was requested")
        };
        assert_eq!(
            (hello.user.as_str(), hello.answer.as_slice(), hello.database, hello.method),
            ("ann", &b"abc"[..], None, method)
        );
    }
    assert_eq!(First::decode(&answer(MODERN | can::TLS, b"")), Ok(First::Tls));
    for wrong in
        [answer(can::SECURE_CONNECTION, b"ann\0\0"), answer(MODERN, b"\xff\xfe\0\0"), answer(MODERN, b"ann\0\xf0abc")]
    {
        assert_eq!(First::decode(&wrong).unwrap_err().kind, SqlErrorKind::Malformed);
    }
}

#[test]
fn commands_are_read() {
    for (payload, command) in [
        (&b"\x01"[..], Command::Quit),
        (b"\x02procprof", Command::UseDatabase("procprof".into())),
        (b"\x03SELECT 1", Command::Query("SELECT 1".into())),
        (b"\x03", Command::Query(String::new())),
        (b"\x04nodes\0%", Command::FieldList("nodes".into())),
        (b"\x09", Command::Statistics),
        (b"\x0a", Command::ProcessList),
        (b"\x0c\x07\0\0\0", Command::Kill(7)),
        (b"\x0e", Command::Ping),
        (
            b"\x11ann\0\x02xxprocprof\0\x2d\0",
            Command::ChangeUser { user: "ann".into(), database: Some("procprof".into()) },
        ),
        (b"\x11ann\0\0", Command::ChangeUser { user: "ann".into(), database: None }),
        (b"\x16SELECT ?", Command::Prepare("SELECT ?".into())),
        (b"\x17\x01\0\0\0rest", Command::Execute(1, b"rest")),
        (b"\x18\x01\0\0\0\x02\0data", Command::LongData(1, 2, b"data")),
        (b"\x19\x01\0\0\0", Command::Close(1)),
        (b"\x1a\x01\0\0\0", Command::ResetStatement(1)),
        (b"\x1f", Command::ResetConnection),
    ] {
        assert_eq!(Command::decode(payload), Ok(command), "{payload:?}");
        super::every_beginning(payload, |bytes| Command::decode(bytes).map(drop));
    }
    let kind = |payload: &[u8]| Command::decode(payload).map_err(|SqlError { kind, .. }| kind).map(drop);
    for (payload, wrong) in [
        (&b""[..], SqlErrorKind::Malformed),
        (b"\x03\xff\xfe", SqlErrorKind::Malformed),
        (b"\x0c\x07", SqlErrorKind::Malformed),
        (b"\x11ann", SqlErrorKind::Malformed),
        (b"\x12", SqlErrorKind::UnknownCommand),
        (b"\xff", SqlErrorKind::UnknownCommand),
    ] {
        assert_eq!(kind(payload), Err(wrong), "{payload:?}");
    }
}
