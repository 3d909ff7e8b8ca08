//! Spans of hand-made symbols: `name start-end`, `~` for one without a size, `?` for a label.

use super::*;

fn spans(symbols: &[(&'static str, u64, u64)]) -> String {
    let symbols = symbols.iter().map(|(name, start, end)| Symbol {
        start: *start,
        end: *end,
        sized: !name.contains('~'),
        function: !name.contains('?'),
        binding: if name.contains("weak") { STB_WEAK } else { STB_GLOBAL },
        name: name.as_bytes(),
    });
    let spans = spans_of(symbols.collect());
    let texts = spans.iter().map(|span| format!("{} {}-{}", String::from_utf8_lossy(span.name), span.start, span.end));
    texts.collect::<Vec<_>>().join(", ")
}

#[test]
fn sizes_are_respected() {
    assert_eq!(spans(&[("a", 0, 4), ("b", 8, 12)]), "a 0-4, b 8-12");
}

#[test]
fn symbols_without_size_reach_to_the_next() {
    assert_eq!(spans(&[("~a", 0, 100), ("~b", 8, 100), ("c", 20, 30)]), "~a 0-8, ~b 8-20, c 20-30");
    assert_eq!(spans(&[("~a", 0, 100)]), "~a 0-100");
}

#[test]
fn labels_inside_sized_symbols_do_not_count() {
    assert_eq!(spans(&[("a", 0, 10), ("~?label", 4, 100)]), "a 0-10");
    assert_eq!(spans(&[("~?label", 0, 100), ("a", 0, 10)]), "a 0-10");
}

#[test]
fn of_nested_and_overlapping_symbols_the_later_start_wins() {
    assert_eq!(spans(&[("a", 0, 20), ("b", 5, 10)]), "a 0-5, b 5-10, a 10-20");
    assert_eq!(spans(&[("a", 0, 10), ("b", 5, 15)]), "a 0-5, b 5-15");
    assert_eq!(spans(&[("a", 0, 20), ("b", 0, 5)]), "b 0-5, a 5-20");
    assert_eq!(spans(&[("a", 0, 30), ("b", 5, 20), ("c", 10, 12)]), "a 0-5, b 5-10, c 10-12, b 12-20, a 20-30");
}

#[test]
fn the_best_of_several_names_wins() {
    assert_eq!(spans(&[("__malloc", 0, 4), ("malloc", 0, 4), ("amalloc weak", 0, 4)]), "malloc 0-4");
    assert_eq!(spans(&[("?a", 0, 4), ("b", 0, 4)]), "b 0-4");
}

#[test]
fn lookups_end_with_the_span() {
    let table = SymbolTable { spans: vec![Span { start: 4, end: 8, name: b"a" }] };
    for (address, found) in [(3, false), (4, true), (7, true), (8, false)] {
        assert_eq!(table.find(SymbolAddr(address)).is_some(), found, "{address}");
    }
}
