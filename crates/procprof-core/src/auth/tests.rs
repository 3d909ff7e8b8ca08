//! The users file and the authenticator.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use futures_util::future::join_all;

use super::{Authenticator, Credentials, Methods, Principal, Refusal, UserRole, Users, add_user, verify_password};
use crate::law::{Contents, Mark, Row, check, line};

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn credentials(name: &str, password: &str) -> Option<Credentials> {
    Some(Credentials { name: name.to_owned(), password: password.to_owned() })
}

#[test]
fn users_are_added_replaced_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    add_user(&file, "ann", UserRole::Viewer, "one", Methods::Modern).unwrap();
    add_user(&file, "bob", UserRole::Viewer, "two", Methods::Modern).unwrap();
    add_user(&file, "ann", UserRole::Operator, "three", Methods::Modern).unwrap();
    let users = Users::read(&file).unwrap();
    assert_eq!(users.iter().count(), 2);
    let ann = users.get("ann").unwrap();
    assert!(
        ann.role == UserRole::Operator && verify_password("three", &ann.hash) && !verify_password("one", &ann.hash)
    );
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    for (name, password) in [("", "x"), ("a:b", "x"), ("a.b", "x"), ("a b", "x"), ("ann", "")] {
        assert!(add_user(&file, name, UserRole::Viewer, password, Methods::Modern).is_err(), "{name:?}");
    }
    let empty = add_user(&file, "ann", UserRole::Viewer, "", Methods::Modern).unwrap_err().to_string();
    assert_eq!(empty, "user \"ann\": the password is empty");
    for wrong in ["ann", "ann:operator", "ann:root:$argon2id$x", "ann:viewer:plain", "a:viewer:x\n"] {
        std::fs::write(&file, wrong).unwrap();
        let error = Users::read(&file).unwrap_err().to_string();
        assert!(error.contains("users:1: ") && !error.contains("plain"), "{error}");
    }
}

#[tokio::test]
async fn users_are_authenticated_by_name_and_password() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    add_user(&file, "vic", UserRole::Viewer, "right", Methods::Modern).unwrap();
    let users = Users::read(&file).unwrap();
    let vic = Principal::from_user(users.get("vic").unwrap());
    let authenticator = Authenticator::new(Some(users)).unwrap();
    assert_eq!(authenticator.enter(credentials("vic", "right"), HERE).await, Ok(vic.clone()));
    assert_eq!(authenticator.enter(credentials("vic", "right"), HERE).await, Ok(vic.clone()), "from memory");
    assert_eq!(authenticator.enter(None, HERE).await, Err(Refusal::Missing));
    assert_eq!(authenticator.enter(credentials("vic", "wrong"), HERE).await, Err(Refusal::Wrong));
    assert_eq!(authenticator.enter(credentials("nobody", "right"), HERE).await, Err(Refusal::Wrong));
    for _ in 0..9 {
        assert_eq!(authenticator.enter(credentials("vic", "wrong"), HERE).await, Err(Refusal::Wrong));
    }
    assert_eq!(authenticator.enter(credentials("vic", "wrong"), HERE).await, Err(Refusal::TooMany));
    assert_eq!(
        authenticator.enter(credentials("vic", "right"), HERE).await,
        Ok(vic.clone()),
        "what was right before is taken"
    );
    let elsewhere = IpAddr::from([192, 0, 2, 1]);
    assert!(authenticator.enter(credentials("vic", "right"), elsewhere).await.is_ok(), "others are not held up");
    authenticator.replace(Some(Users::read(&file).unwrap()));
    assert_eq!(
        authenticator.enter(credentials("vic", "right"), HERE).await,
        Ok(vic),
        "a reload forgets nobody who stays"
    );
    add_user(&file, "vic", UserRole::Viewer, "changed", Methods::Modern).unwrap();
    authenticator.replace(Some(Users::read(&file).unwrap()));
    assert_eq!(
        authenticator.enter(credentials("vic", "right"), elsewhere).await,
        Err(Refusal::Wrong),
        "another password"
    );
    authenticator.replace(Some(Users::default()));
    assert_eq!(
        authenticator.enter(credentials("vic", "changed"), elsewhere).await,
        Err(Refusal::Wrong),
        "no longer a user"
    );
    authenticator.replace(None);
    assert_eq!(authenticator.enter(None, HERE).await, Ok(Principal::local()));
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_guesses_are_no_more_and_right_ones_no_fewer() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    for name in ["vic", "ann"] {
        add_user(&file, name, UserRole::Viewer, "right", Methods::Modern).unwrap();
    }
    let authenticator = Authenticator::new(Some(Users::read(&file).unwrap())).unwrap();
    let guess = async |number: usize| authenticator.enter(credentials("vic", &number.to_string()), HERE).await;
    let right = async |_: usize| authenticator.enter(credentials("ann", "right"), HERE).await;
    let (guesses, right) = tokio::join!(join_all((0..400).map(guess)), join_all((0..60).map(right)));
    let outcome = |wanted: Refusal| guesses.iter().filter(|outcome| **outcome == Err(wanted)).count();
    assert_eq!((outcome(Refusal::Wrong), outcome(Refusal::TooMany)), (10, 390));
    assert!(right.iter().all(Result::is_ok), "{right:?}");
}

#[test]
fn every_version_of_the_users_file_is_read() {
    let mark = Mark::new("users", b"# procprof.users ");
    check(&Row { name: "users", version: 1, make: make_users, read: read_users, mark: Some(mark) });
}

fn make_users(folder: &Path) {
    let file = folder.join("users");
    add_user(&file, "ann", UserRole::Operator, "one", Methods::Modern).unwrap();
    add_user(&file, "bob", UserRole::Viewer, "two", Methods::WithMysqlNative).unwrap();
    add_user(&file, "host-1", UserRole::Push, "three", Methods::Modern).unwrap();
}

fn read_users(folder: &Path) -> Contents {
    let users = Users::read(&folder.join("users"))?;
    let mut text = String::new();
    for (user, password) in users.iter().zip(["one", "two", "three"]) {
        line(&mut text, (user, verify_password(password, &user.hash)));
    }
    Ok(text)
}
