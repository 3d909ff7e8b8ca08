//! The table is complete, without leftovers, and every text keeps its values.

use std::collections::BTreeSet;

use super::{Language, SCRIPT, TABLE, text};

fn sources(folder: &std::path::Path, all: &mut Vec<String>) {
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("texts/table.rs") {
            all.push(std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn rows_are_unique_used_and_complete() {
    let mut all = Vec::new();
    sources(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut all);
    let used = all.concat();
    let mut seen = BTreeSet::new();
    for row in TABLE {
        let [english, japanese, chinese] = row;
        assert!(seen.insert(english), "{english:?} has two rows");
        assert!(used.contains(&format!("{english:?}")), "{english:?} is not used");
        for other in [japanese, chinese] {
            assert!(!other.is_empty(), "{english:?}");
            for number in 0..6 {
                let value = format!("{{{number}}}");
                assert!(english.contains(&value) || !other.contains(&value), "{english:?}: {other:?}");
            }
        }
    }
}

#[test]
fn each_thing_has_one_term() {
    for [english, japanese, chinese] in TABLE {
        for other in ["プロファイラ", "サーバ", "ユーザ", "実時間", "ウォール"] {
            let long = format!("{other}ー");
            assert!(!japanese.replace(&long, "").contains(other), "{english:?}: {japanese:?} has {other}");
        }
        for other in ["Profile", "profile", "样本", "代理", "询问", "墙上时间"] {
            assert!(!chinese.contains(other), "{english:?}: {chinese:?} has {other}");
        }
    }
}

#[test]
fn the_scripts_texts_are_those_it_looks_up() {
    let script = include_str!("../assets/page.js");
    let looked_up: BTreeSet<&str> =
        script.split("say(\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let sent: BTreeSet<&str> = SCRIPT.iter().map(|text| text.0[0]).collect();
    assert_eq!(looked_up, sent);
}

#[test]
fn the_best_accepted_language_is_chosen() {
    for (header, language) in [
        ("ja", Some(Language::Japanese)),
        ("fr, en;q=0.5, zh-Hans-CN;q=0.8", Some(Language::Chinese)),
        ("en-GB,en;q=0.9,ja;q=0.9", Some(Language::English)),
        ("zh-TW;q=0, ja;q=0.1", Some(Language::Japanese)),
        ("de, fr", None),
        ("ja;q=nonsense", None),
        ("", None),
    ] {
        assert_eq!(Language::accepted(header), language, "{header}");
    }
}

#[test]
fn values_stand_where_a_language_has_them() {
    let row = text("{0} to {1}: {2} bars of {3}");
    assert_eq!(row.with(&[&1, &2, &3, &"cpu"]), "1 to 2: 3 bars of cpu");
    let part = row.fill(&[maud::html! { b { "<" } }, maud::html! { "2" }]);
    assert_eq!(part.into_string(), "<b>&lt;</b> to 2:  bars of ");
}
