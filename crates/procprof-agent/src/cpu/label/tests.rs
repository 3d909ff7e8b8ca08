//! Labels by guards: nesting, limits, and what a handler would copy.

use super::buffer::Decoded;
use super::*;
use std::time::Instant;

fn now() -> Vec<(String, Decoded)> {
    let mut words = Vec::new();
    of_this_thread(|word| words.push(word));
    decode(&words)
}

fn text(key: &str, value: &str) -> (String, Decoded) {
    (key.into(), Decoded::Text(value.into()))
}

fn number(key: &str, value: i64) -> (String, Decoded) {
    (key.into(), Decoded::Number(value))
}

#[test]
fn labels_nest_and_an_inner_one_replaces_an_outer_one_of_its_key() {
    assert_eq!(now(), []);
    let outer = label("query_id", "0198f2c4-7a01");
    {
        let _shard = label("shard", 7_u32);
        assert_eq!(now(), [text("query_id", "0198f2c4-7a01"), number("shard", 7)]);
        let _inner = label("query_id", &"ä".to_owned());
        assert_eq!(now(), [number("shard", 7), text("query_id", "ä")]);
    }
    assert_eq!(now(), [text("query_id", "0198f2c4-7a01")]);
    drop(outer);
    assert_eq!(now(), []);
    let _numbers = (label("a", -3_i64), label("b", u64::MAX), label("", ""), label("c", i32::MIN));
    assert_eq!(
        now(),
        [number("a", -3), text("b", "18446744073709551615"), text("", ""), number("c", i64::from(i32::MIN))]
    );
}

#[test]
fn guards_dropped_in_another_order_leave_no_broken_label() {
    let (a, b) = (label("a", "first"), label("b", 2_u64));
    drop(a);
    assert_eq!(now(), []);
    let c = label("c", "a longer text than that of a");
    drop(b);
    assert_eq!(now(), [text("c", "a longer text than that of a")]);
    drop(c);
    assert_eq!(now(), []);
}

#[test]
fn long_texts_are_cut_in_whole_characters_and_labels_without_room_are_counted() {
    let before = refused();
    let long = "ü".repeat(100);
    let first = label(&long, &long);
    let [(key, Decoded::Text(value))] = &now()[..] else { panic!("{:?}", now()) };
    assert_eq!((key.as_str(), value.as_str()), ("ü".repeat(31).as_str(), format!("{}…", "ü".repeat(62)).as_str()));
    drop(first);
    let many: Vec<Label> = (0..20_u64).map(|n| label("n", n)).collect();
    assert_eq!(now(), [number("n", 15)]);
    assert_eq!(refused() - before, 4);
    many.into_iter().rev().for_each(drop);
    assert_eq!(now(), []);
}

#[test]
fn threads_have_their_own_labels_and_leave_their_places() {
    let _own = label("thread", "main");
    for round in 0..2000_u64 {
        let thread = std::thread::spawn(move || {
            let before = now();
            let _label = label("round", round);
            (before, now())
        });
        let (before, labels) = thread.join().unwrap();
        assert_eq!((before, labels), (vec![], vec![number("round", round.cast_signed())]));
    }
    assert_eq!(now(), [text("thread", "main")]);
}

#[test]
#[ignore = "a measurement: cargo test --release -p procprof-agent --lib cost -- --ignored --nocapture"]
fn the_cost_of_a_label() {
    const ROUNDS: u32 = 1_000_000;
    for batch in 0..3 {
        let began = Instant::now();
        (0..ROUNDS).for_each(|_| drop(std::hint::black_box(label("query_id", "0198f2c4-7a01-7000-8000-0123456789ab"))));
        let texts = began.elapsed().as_nanos() as f64 / f64::from(ROUNDS);
        let began = Instant::now();
        (0..ROUNDS).for_each(|id| drop(std::hint::black_box(label("query_id", id))));
        let numbers = began.elapsed().as_nanos() as f64 / f64::from(ROUNDS);
        println!("batch {batch}: {texts:.1} ns a label of 36 bytes, {numbers:.1} ns a number");
    }
}
