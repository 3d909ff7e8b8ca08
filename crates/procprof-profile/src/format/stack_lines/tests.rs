use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

/// Each word of a line as its own frame, and whether it is the first.
fn plain(text: &str) -> Vec<(&str, bool)> {
    let words = text.split_ascii_whitespace().enumerate();
    words.filter(|(_, word)| *word != "-").map(|(index, word)| (word, index == 0)).collect()
}

fn check(lines: &[String]) {
    let mut reader = StackLines::default();
    for line in lines {
        let frame =
            |word, first| Ok::<_, Infallible>((word != b"-").then(|| (std::str::from_utf8(word).unwrap(), first)));
        let Ok(frames) = reader.read(line.as_bytes(), frame);
        assert_eq!(frames, plain(line), "{line:?} of {lines:?}");
        let words: Vec<_> = reader.words.iter().map(|word| &line[word.clone()]).collect();
        assert_eq!(words, plain(line).iter().map(|(word, _)| *word).collect::<Vec<_>>());
    }
}

#[test]
fn lines_are_read_like_each_alone() {
    for lines in [
        vec!["a b c", "a b c", "a b", "b c", "c", "", "c", " c", "d  c", "  c c"],
        vec!["-", "- a", "a", "- a", "b - a", "b a", "- b a", "- - a"],
        vec![
            "0x1234567890 0x1234567890 0x1234567890",
            "0x1234567890 0x1234567890",
            "0x1234567890 0x1234567890 0x1234567890 0x1234567890",
        ],
        vec!["ab cd", "b cd", "ab cde", "xab cd", "ab  cd ", "ab cd"],
    ] {
        check(&lines.into_iter().map(str::to_owned).collect::<Vec<_>>());
    }
}

#[test]
fn an_error_forgets_the_line() {
    let mut reader = StackLines::default();
    let mut read = |text: &'static str| {
        let frame = |word: &'static [u8], _| if word == b"?" { Err(()) } else { Ok(Some(word)) };
        reader.read(text.as_bytes(), frame).map(<[_]>::len)
    };
    assert_eq!([read("a b c"), read("a ? c"), read("a b c"), read("? b c")], [Ok(3), Err(()), Ok(3), Err(())]);
}

proptest! {
    #[test]
    fn any_lines_are_read_like_each_alone(lines in prop::collection::vec("[ab -]{0,24}", 1..6)) {
        check(&lines);
    }

    #[test]
    fn long_lines_are_read_like_each_alone(lines in prop::collection::vec("(0x00112233445566[78] ){0,5}- ?(0x7f[01] ){0,9}", 1..6)) {
        check(&lines);
    }
}
