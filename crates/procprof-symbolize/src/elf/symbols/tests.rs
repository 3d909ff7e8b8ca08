//! Spans of hand-made symbols: `name start-end`, `~` for one without a size, `?` for a label.

use super::*;

/// The names at `addresses`, as [`Symbols::at`] returns them.
fn names(symbols: &[Symbol<'static>], addresses: &[u64]) -> Vec<Option<&'static [u8]>> {
    let ladder = Ladder::new(addresses);
    let mut near = Near::new(&ladder);
    symbols.iter().for_each(|symbol| near.add(symbol.extent, || Some(*symbol)));
    let (mut names, mut gaps) = near.names();
    let ends = gaps.ends();
    let ends = Ladder::new(&ends);
    symbols.iter().for_each(|symbol| gaps.cut(&ends, symbol.extent, || true));
    gaps.name(addresses, &mut names);
    names
}

/// The names at each address below 110, as spans.
fn spans(symbols: &[(&'static str, u64, u64)]) -> String {
    let symbols: Vec<Symbol<'static>> = symbols
        .iter()
        .map(|(name, start, end)| Symbol {
            extent: Extent { start: *start, end: *end, sized: !name.contains('~') },
            function: !name.contains('?'),
            binding: if name.contains("weak") { STB_WEAK } else { STB_GLOBAL },
            name: name.as_bytes(),
        })
        .collect();
    let names = |addresses: &[u64]| names(&symbols, addresses);
    let addresses: Vec<u64> = (0..110).collect();
    let all = names(&addresses);
    // Requested alone, with everything else discarded, each address has the same name.
    for (address, name) in addresses.iter().zip(&all) {
        assert_eq!(names(&[*address]), [*name], "{address}");
    }
    let mut texts: Vec<String> = Vec::new();
    for chunk in addresses.chunk_by(|a, b| all[*a as usize] == all[*b as usize]) {
        if let Some(name) = all[chunk[0] as usize] {
            texts.push(format!("{} {}-{}", String::from_utf8_lossy(name), chunk[0], chunk[chunk.len() - 1] + 1));
        }
    }
    texts.join(", ")
}

#[test]
fn sizes_are_respected() {
    assert_eq!(spans(&[("a", 0, 4), ("b", 8, 12)]), "a 0-4, b 8-12");
}

#[test]
fn symbols_without_size_reach_to_the_next() {
    assert_eq!(spans(&[("~a", 0, 100), ("~b", 8, 100), ("c", 20, 30)]), "~a 0-8, ~b 8-20, c 20-30");
    assert_eq!(spans(&[("~a", 0, 100)]), "~a 0-100");
    assert_eq!(spans(&[("~a", 0, 100), ("b", 0, 10)]), "b 0-10");
}

#[test]
fn labels_inside_sized_symbols_do_not_count() {
    assert_eq!(spans(&[("a", 0, 10), ("~?label", 4, 100)]), "a 0-10");
    assert_eq!(spans(&[("~?label", 0, 100), ("a", 0, 10)]), "a 0-10");
    assert_eq!(
        spans(&[("~x", 0, 100), ("a", 5, 10), ("~?label", 7, 100), ("~y", 20, 100)]),
        "~x 0-5, a 5-10, ~y 20-100"
    );
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
    assert_eq!(spans(&[("__a~", 0, 100), ("a~", 0, 100)]), "a~ 0-100");
}

#[test]
fn a_symbol_cuts_off_all_labels_that_it_covers() {
    let long = [
        ("~a", 0, 100),
        ("b", 10, 60),
        ("~c", 20, 100),
        ("d", 30, 31),
        ("~e", 40, 100),
        ("~f", 60, 100),
        ("g", 70, 71),
    ];
    assert_eq!(spans(&long), "~a 0-10, b 10-30, d 30-31, b 31-60, ~f 60-70, g 70-71");
    assert_eq!(spans(&[("~a", 10, 20), ("b", 0, 5), ("~c", 15, 20)]), "b 0-5, ~a 10-15, ~c 15-20");
}

/// By the rules of the module, one after the other.
fn name_by_rules(symbols: &[Symbol<'static>], address: u64) -> Option<&'static [u8]> {
    let sized = |symbol: &&Symbol<'_>| symbol.extent.sized;
    let covers = |symbol: &&Symbol<'_>| symbol.extent.start <= address && address < symbol.extent.end;
    let innermost =
        |symbol: &&Symbol<'static>| (u64::MAX - symbol.extent.start, symbol.extent.end, symbol.rank().2, symbol.name);
    if let Some(covering) = symbols.iter().filter(sized).filter(covers).min_by_key(innermost) {
        return Some(covering.name);
    }
    let labels = symbols.iter().filter(|symbol| !symbol.extent.sized && symbol.extent.start <= address);
    let label = labels.min_by_key(|label| (u64::MAX - label.extent.start, label.name)).filter(covers)?;
    let is_cut = symbols
        .iter()
        .filter(sized)
        .any(|symbol| symbol.extent.start <= address && label.extent.start < symbol.extent.end);
    (!is_cut).then_some(label.name)
}

#[test]
fn any_symbols_name_what_the_rules_say() {
    const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let mut state = 1u64;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    for _ in 0..2000 {
        let count = 1 + below(12) as usize;
        let mut symbol = |name: &'static str| {
            let (start, sized) = (below(40), below(2) == 0);
            // Two sections: from 0 and from 20 on.
            let section_end = if start < 20 { 20 } else { 40 };
            let end = if sized { start + 1 + below(12) } else { section_end };
            Symbol { extent: Extent { start, end, sized }, function: true, binding: STB_GLOBAL, name: name.as_bytes() }
        };
        let symbols: Vec<Symbol<'static>> = NAMES[..count].iter().map(|name| symbol(name)).collect();
        let all = Symbols::named_by(symbols.clone());
        let step = 1 + below(5) as usize;
        let addresses: Vec<u64> = (below(5)..60).step_by(step).collect();
        for (address, name) in addresses.iter().zip(names(&symbols, &addresses)) {
            let by_rules = name_by_rules(&symbols, *address);
            assert_eq!(name, by_rules, "{address} of {addresses:?} in {symbols:?}");
            let span = all.iter().find(|span| span.begin <= *address && *address < span.end);
            assert_eq!(span.map(|span| span.value), by_rules, "{address} in {symbols:?}");
        }
    }
}

#[test]
fn no_symbols_are_distinguished_from_no_answer() {
    assert!(Symbols::at(&[], &[1]).is_partial);
}
