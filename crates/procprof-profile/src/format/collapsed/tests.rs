use proptest::prelude::*;

use super::*;
use crate::format::fixtures::{bytes, check, complaint, decoded, error};

#[test]
fn the_fixture_decodes() {
    let profile = check("collapsed/work.txt", NAME).profile;
    assert_eq!(profile.total(0), 1015);
    let leaf = profile.sample(2).stack[0];
    assert_eq!(profile.string(profile.function(profile.lines(leaf)[0].function).name), "<[u8; 4] as Into>::into");
}

#[test]
fn all_metrics_of_austin_are_read() {
    let profile = check("collapsed/austin-full.txt", NAME).profile;
    let text = String::from_utf8(bytes("collapsed/austin-full.txt")).unwrap();
    let metrics = text.lines().filter(|line| line.starts_with('P')).map(|line| {
        let numbers = line.rsplit_once(' ').unwrap().1.split(',').map(|number| number.parse::<i64>().unwrap());
        let [time, is_idle, memory] = numbers.collect::<Vec<_>>()[..] else { panic!("{line}") };
        [1000 * time, 1000 * time * (1 - is_idle), memory]
    });
    let totals = metrics.reduce(|sum, one| [sum[0] + one[0], sum[1] + one[1], sum[2] + one[2]]).unwrap();
    assert_eq!([0, 1, 2].map(|index| profile.total(index)), totals);
}

#[test]
fn prose_is_not_claimed() {
    let cases: [(&str, Detect); 19] = [
        ("main;work 12\n", Detect::Yes),
        ("main;work 12", Detect::Yes),
        ("main;work 12\nmain;wo", Detect::Yes),
        ("main;work 12\r\n\r\nmain -3\r\n", Detect::Yes),
        ("main 12\n", Detect::NeedMore),
        ("main;wo", Detect::NeedMore),
        ("", Detect::NeedMore),
        ("profiling failed; try again\n", Detect::No),
        ("main;work 12\nthat was all\n", Detect::No),
        ("main;work 1.5\n", Detect::Yes),
        ("main;work 1.5.2\n", Detect::No),
        ("# austin: 3.4.1\n# mode: 5\n\nP1;T1;main 10\n", Detect::Yes),
        ("# austin: 3.7.0\n# mode: full\n\nP1;T1;main 10,0,4096\n", Detect::Yes),
        ("P1;T1;main 10,0,4096\n", Detect::No),
        ("main;a 10\nsome garbage\nmain;b 2\n", Detect::Yes),
        ("main;a 10\nsome garbage\nmain 2\n", Detect::No),
        ("\u{feff}main;a 10\n", Detect::Yes),
        ("main;work +5\n", Detect::No),
        ("main;\0 5\n", Detect::No),
    ];
    for (text, expected) in cases {
        assert_eq!(detect(text.as_bytes()), expected, "{text:?}");
    }
}

#[test]
fn what_breaks_a_line_is_escaped() {
    let cases = [
        ("a;b", "a\\x3bb"),
        ("a\nb\rc", "a\\x0ab\\x0dc"),
        ("\\x3b", "\\x5cx3b"),
        ("C:\\dir", "C:\\dir"),
        ("", "\\x00"),
        (" a b ", " a b "),
    ];
    for (name, escaped) in cases {
        let mut text = String::new();
        push_name(&mut text, 0, name);
        assert_eq!((text.as_str(), unescaped(&text).as_ref()), (escaped, name));
    }
}

#[test]
fn what_other_tools_write_is_read() {
    let read = |bytes: &[u8]| {
        let decoded = decoded(bytes);
        let types =
            (0..decoded.profile.sample_types().len()).map(|index| decoded.profile.sample_type(index).0.to_owned());
        let totals: Vec<i64> =
            (0..decoded.profile.sample_types().len()).map(|index| decoded.profile.total(index)).collect();
        (types.collect::<Vec<_>>().join(","), totals, decoded.warnings.join("; "))
    };
    let plain = |total: i64, warnings: &str| ("samples".to_owned(), vec![total], warnings.to_owned());
    let types = |types: &str, totals: &[i64]| (types.to_owned(), totals.to_vec(), String::new());
    let austin = |mode: &str, lines: &str| read(format!("# austin: 3.7.0\n# mode: {mode}\n\n{lines}").as_bytes());
    assert_eq!(austin("wall", "P1;T1;main;a 10\n"), types("wall", &[10_000]));
    assert_eq!(austin("cpu", "P1;T1;main;a 10\n"), types("cpu", &[10_000]));
    assert_eq!(austin("memory", "P1;T1;main;a 10\n"), types("space", &[10]));
    let full = austin("full", "P1;T1;main;a 10,0,-4096\nP1;T1;b 7,1,0\n");
    assert_eq!(full, types("wall,cpu,space", &[17_000, 10_000, -4096]));
    let odd = austin("full", "P1;T1;main;a 10,0,4096\nP1;T1;b 7\nP1;T1;b 7,0,1,2\nP1;c 1,0,1\nP1;d 1,0,2\n");
    assert!(odd.2.contains("passed over 2 lines"), "{odd:?}");
    assert_eq!(read(b"# mode: wall\nmain;a 10\n"), plain(10, ""), "no file of Austin");
    assert_eq!(read(b"\xff\xfem\0;\0a\0 \x001\0\n\0"), plain(1, ""));
    assert_eq!(read(b"\xfe\xff\0m\0;\0a\0 \x001\0\n"), plain(1, ""));
    assert_eq!(
        read(b"main;a 10\nsome garbage\nmain;b 2\n"),
        plain(12, "collapsed: line 2: passed over 1 line not understood, the first \"some garbage\"")
    );
    assert_eq!(
        read(b"main;a 10.5\nmain;b 2\n"),
        plain(12, "collapsed: line 1 and perhaps others have numbers with fractions, which are cut off")
    );
    assert_eq!(read(b"main;a -5\nmain;b 7\n"), plain(2, ""));
    assert_eq!(read(b"main;a 10 20\nmain;b 5 0\n"), ("before,samples".to_owned(), vec![15, 20], String::new()));
    let difference = decoded(b"main;a 10 20\nmain;b 5 0\n").profile;
    assert_eq!((difference.default_sample_type(), difference.sample(0).stack.len()), (1, 2));
    assert_eq!(read(b"main;operator 5 20\nmain;b 7\n"), plain(27, ""), "a name may end in a number");
}

#[test]
fn addresses_stand_for_missing_names() {
    let mut builder = ProfileBuilder::new(&[("space", "bytes")]);
    let (leaf, root) = (builder.address(None, Addr(0x1234)), builder.frame("main"));
    builder.sample(&[leaf, root], &[5], &[]);
    builder.sample(&[], &[6], &[]);
    assert_eq!(encode(&builder.finish().unwrap()).unwrap(), b"main;0x1234 5\n 6\n");
}

#[test]
fn errors_name_the_line() {
    let large = "collapsed: line 1: expected a number below 9223372036854775808, found \"c;d 99999999999999999999\"";
    assert_eq!(error(b"c;d 99999999999999999999\n"), large);
    let one = "collapsed: line 2: passed over 1 line not understood, the first \"c;d 99999999999999999999\"";
    assert_eq!(complaint(b"a;b 1\nc;d 99999999999999999999\n"), one);
    let error = decode(b"a;b 1\nc;d\n", &Limits::default(), &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "collapsed: line 2: expected a stack, a blank and a number, found \"c;d\"");
    let error = decode(b"a;b 1\nc;d", &Limits::default(), &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "collapsed: line 2: input ends inside a stack, a blank and a number");
    assert_eq!(
        decoded(b"a;\xff 1\n").warnings,
        ["collapsed: line 1 and perhaps others are not UTF-8; what could not be read is U+FFFD"]
    );
}

proptest! {
    #[test]
    fn decoding_gives_back_what_was_encoded(samples in prop::collection::vec((prop::collection::vec("[a-c;\\\\x0235bad\n\r #\u{e9}\t]{0,6}", 0..5), any::<i64>()), 0..8)) {
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        for (names, value) in &samples {
            let stack: Vec<LocationId> = names.iter().map(|name| builder.frame(name)).collect();
            builder.sample(&stack, &[*value], &[]);
        }
        let text = encode(&builder.finish().unwrap()).unwrap();
        let again = decode(&text, &Limits::default(), &mut Vec::new()).unwrap();
        let name = |id: &LocationId| again.string(again.function(again.lines(*id)[0].function).name).to_owned();
        let read: Vec<(Vec<String>, i64)> = again.samples().map(|sample| (sample.stack.iter().map(name).collect(), sample.values[0])).collect();
        prop_assert_eq!(read, samples);
    }
}
