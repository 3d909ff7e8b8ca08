//! The users file and the door.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;

use super::{Credentials, Door, Methods, Principal, Refusal, UserRole, Users, add_user, verify_password};

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
    assert!(ann.role == UserRole::Operator && verify_password("three", &ann.hash) && !verify_password("one", &ann.hash));
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
async fn the_door_lets_in_by_name_and_password() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    add_user(&file, "vic", UserRole::Viewer, "right", Methods::Modern).unwrap();
    let door = Door::new(Some(Users::read(&file).unwrap())).unwrap();
    let vic = Principal { name: "vic".into(), role: UserRole::Viewer };
    assert_eq!(door.enter(credentials("vic", "right"), HERE).await, Ok(vic.clone()));
    assert_eq!(door.enter(credentials("vic", "right"), HERE).await, Ok(vic), "from memory");
    assert_eq!(door.enter(None, HERE).await, Err(Refusal::Missing));
    assert_eq!(door.enter(credentials("vic", "wrong"), HERE).await, Err(Refusal::Wrong));
    assert_eq!(door.enter(credentials("nobody", "right"), HERE).await, Err(Refusal::Wrong));
    for _ in 0..8 {
        assert_eq!(door.enter(credentials("vic", "wrong"), HERE).await, Err(Refusal::Wrong));
    }
    assert_eq!(door.enter(credentials("vic", "right"), HERE).await, Err(Refusal::TooMany));
    let elsewhere = IpAddr::from([192, 0, 2, 1]);
    assert!(door.enter(credentials("vic", "right"), elsewhere).await.is_ok(), "others are not held up");
    door.replace(Some(Users::default()));
    assert_eq!(door.enter(credentials("vic", "right"), elsewhere).await, Err(Refusal::Wrong), "what was remembered is forgotten");
    door.replace(None);
    assert_eq!(door.enter(None, HERE).await, Ok(Principal::local()));
}
