//! Hosts, credentials, parameters and the route table.

use std::net::SocketAddr;

use axum::http::{HeaderMap, HeaderValue, header};

use super::guard::{credentials, known_host};
use super::openapi::openapi_path;
use super::params::{Params, encode};
use super::routes::ROUTES;

#[test]
fn hosts_are_names_that_only_this_server_can_have() {
    let check = |bound: &str, name: &str, wanted: bool| {
        let bound: SocketAddr = bound.parse().unwrap();
        assert_eq!(known_host(name, bound, &["profiles.example".to_owned()], "box-7"), wanted, "{name} at {bound}");
    };
    let loopback = "127.0.0.1:8030";
    for name in ["localhost", "127.0.0.1", "::1", "127.8.9.1", "Profiles.Example", "me.localhost"] {
        check(loopback, name, true);
    }
    for name in ["", "evil.example", "192.0.2.7", "0.0.0.0", "box-7", "localhost.evil.example", "127.0.0.1.nip.example"] {
        check(loopback, name, false);
    }
    check("0.0.0.0:8030", "192.0.2.7", true);
    check("0.0.0.0:8030", "box-7", true);
    check("0.0.0.0:8030", "evil.example", false);
    check("192.0.2.7:8030", "192.0.2.7", true);
    check("192.0.2.7:8030", "192.0.2.8", false);
}

#[test]
fn credentials_are_read_from_both_schemes() {
    let check = |value: &str, wanted: Option<(&str, &str)>| {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        let found = credentials(&headers);
        assert_eq!(found.as_ref().map(|found| (found.name.as_str(), found.password.as_str())), wanted, "{value}");
    };
    check("Basic YW5uOmE6Yg==", Some(("ann", "a:b")));
    check("basic YW5uOg==", Some(("ann", "")));
    check("Bearer ann.a.b", Some(("ann", "a.b")));
    for wrong in ["", "Basic", "Basic !!", "Basic YW5u", "Bearer ann", "Digest a.b"] {
        check(wrong, None);
    }
}

#[test]
fn parameters_are_decoded_strictly() {
    let params = Params::parse("a=1+2&b=%41%c3%a4&a=3&empty=&flag").unwrap();
    assert_eq!((params.get("a"), params.get("b"), params.get("empty"), params.get("flag")), (Some("1 2"), Some("Aä"), None, None));
    assert_eq!(params.all("a").collect::<Vec<_>>(), ["1 2", "3"]);
    for wrong in ["a=%", "a=%4", "a=%zz", "a=%ff", "a=%+1"] {
        assert!(Params::parse(wrong).is_err(), "{wrong}");
    }
    assert!(Params::parse(&"a=1&".repeat(101)).is_err());
    let told = |known: &[&str]| Params::parse("title=x").unwrap().only(known).err().unwrap().message;
    assert_eq!(told(&[]), "unknown parameter \"title\"; there are none here");
    assert_eq!(told(&["node", "type"]), "unknown parameter \"title\"; known are node, type");
    let text = "a b&c=ä/\"<";
    assert_eq!(Params::parse(&format!("x={}", encode(text))).unwrap().get("x"), Some(text));
}

#[test]
fn every_route_is_in_the_document_under_a_name_of_its_own() {
    let document = super::openapi_document();
    let mut names: Vec<&str> = ROUTES.iter().map(|route| route.name).collect();
    for route in ROUTES {
        let operation = &document["paths"][openapi_path(route.path)][route.verb.name()];
        assert_eq!(operation["operationId"], route.name, "{}", route.path);
    }
    let count: usize = document["paths"].as_object().unwrap().values().map(|item| item.as_object().unwrap().len()).sum();
    assert_eq!(count, ROUTES.len());
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ROUTES.len());
}
