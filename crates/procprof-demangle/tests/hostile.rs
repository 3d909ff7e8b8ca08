//! Names made to take time or memory.

use procprof_demangle::limits::{DEMANGLED_BYTES_MAX, MANGLED_BYTES_MAX};
use procprof_demangle::{Demangler, Style};

use crate::productions::names;

const STYLES: [Style; 2] = [Style::Llvm, Style::Gnu];

/// A name is refused as a whole or printed within the limit, and what was in the text stays.
fn holds(name: &str) -> bool {
    let mut demangler = Demangler::default();
    let mut is_printed = false;
    for style in STYLES {
        let mut text = String::from("before");
        is_printed = demangler.append(name, style, &mut text);
        assert!(text.starts_with("before"));
        assert!(text.len() <= "before".len() + DEMANGLED_BYTES_MAX);
        assert!(is_printed || text == "before", "{name:.60}");
    }
    is_printed
}

#[test]
fn nesting_is_bounded() {
    for (head, body, tail) in [
        ("_Z1f", "P", "i"),
        ("_Z1f", "M1A", "i"),
        ("_Z1f", "F", "i"),
        ("_Z1f", "Dp", "i"),
        ("_Z1f", "U3foo", "i"),
        ("_Z1f", "A1_", "i"),
        ("_Z1f", "1AI", "i"),
        ("_Z1f", "N1AI", "i"),
        ("_Z1f", "St4pairI", "i"),
        ("_Z1fI", "J", "i"),
        ("_Z1fI", "XL_Z1fI", ""),
        ("_Z1fIX", "ng", "Li1EEEvv"),
        ("_Z1fIX", "pl", "Li1EEEvv"),
        ("_Z1fIX", "il", "E"),
        ("_Z1fIX", "tlidi1x", "E"),
        ("_Z1fIX", "cv", "i"),
        ("_Z1fIX", "sp", "i"),
        ("_Z1fIX", "rqX", "i"),
        ("_Z1fIX", "Dt", "i"),
        ("_Z1fDT", "DT", "i"),
        ("_Z1fUl", "Ul", "vE_"),
        ("_Z1fUl", "Tt", "E"),
        ("_Z1fUl", "Tp", "Ty"),
        ("_Z", "Z", "1fv"),
        ("_ZTV", "N1AI", "i"),
        ("_ZThn8_", "Thn8_", "1fv"),
        ("_ZN1A", "cv", "i"),
        ("_ZN1A", "cvN1A", "i"),
    ] {
        let repeated = |times: usize| format!("{head}{}{tail}", body.repeat(times));
        assert!(!holds(&repeated(MANGLED_BYTES_MAX / body.len() - 20)), "{body}");
        for times in [100, 254, 255, 256, 300] {
            holds(&repeated(times));
        }
    }
    assert!(holds(&format!("_Z1f{}i", "P".repeat(200))));
}

#[test]
fn substitutions_that_double_are_bounded() {
    // Each parameter is a pair of the one before: the text would have 2^60 times `int`.
    let digits = |number: usize| std::char::from_digit(number as u32 % 36, 36).unwrap().to_ascii_uppercase();
    let doubling = |times: usize| {
        let mut name = String::from("_Z1f1AIiiE");
        for number in 0..times {
            let substitution =
                if number < 36 { format!("S{}_", digits(number)) } else { format!("S1{}_", digits(number - 36)) };
            name.push_str(&format!("S_I{substitution}{substitution}E"));
        }
        name
    };
    assert!(holds(&doubling(8)));
    assert!(!holds(&doubling(60)));
    // The same without any text: packs that are empty.
    let mut name = String::from("_Z1fIJEEvDp1AIT_E");
    for number in 2..30 {
        name.push_str(&format!("DpS1_IS{0}_S{0}_S{0}_S{0}_E", digits(number)));
    }
    holds(&name);
}

#[test]
fn references_deeper_than_the_name_are_bounded() {
    let mut name = String::from("_Z1fPi");
    let digits = |number: usize| std::char::from_digit(number as u32, 36).unwrap().to_ascii_uppercase();
    for number in 0..3000_usize {
        let substitution = match number {
            0 => "S_".to_owned(),
            1..=36 => format!("S{}_", digits(number - 1)),
            _ if number - 1 < 36 * 36 => format!("S{}{}_", digits((number - 1) / 36), digits((number - 1) % 36)),
            _ => format!(
                "S{}{}{}_",
                digits((number - 1) / 1296),
                digits((number - 1) / 36 % 36),
                digits((number - 1) % 36)
            ),
        };
        name.push_str(&format!("P{substitution}"));
    }
    assert!(!holds(&name));
}

#[test]
fn conversions_to_themselves_end() {
    for name in [
        "_ZN1AcvT_IT_EEv",
        "_ZN1AcvPT_IS1_EEv",
        "_ZN1AcvPT_IPS1_EEv",
        "_ZN1AcvRT_IRS1_EEv",
        "_ZN1AcvOT_IS1_EEv",
        "_ZcvT_IT_Ev",
    ] {
        holds(name);
    }
}

#[test]
fn counts_and_lengths_do_not_overflow() {
    let nines = "9".repeat(40);
    for name in [
        format!("_Z{nines}f"),
        format!("_ZS{nines}_"),
        format!("_Z1fT{nines}_"),
        format!("_Z1fTL{nines}_{nines}_"),
        format!("_Z1fIXfp{nines}_EEvv"),
        format!("_ZZ1fvEUlvE{nines}_"),
        format!("_ZN1AUt{nines}_E"),
        format!("_Z1fU{}objcproto{nines}Ai", nines.len() + 10),
        "_Z18446744073709551615f".to_owned(),
        "_Z1fSZZZZZZZZZZZZZZ_".to_owned(),
    ] {
        holds(&name);
    }
}

#[test]
fn letters_of_several_bytes_are_never_split() {
    for name in [
        "_Z1é",
        "_Z2év",
        "_Z3xévi",
        "_ZN1aU1éE",
        "_Z1fU9objcproto1é1A",
        "_Z1fLé",
        "_Zé",
        "_Z1fILdéééééééééééééééééEEvv",
        "é_Z1f",
    ] {
        holds(name);
    }
    assert!(holds("_Z2év"));
}

#[test]
fn changed_names_are_held_too() {
    let names = names();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let letters = b"_ZNEISTLKPRODJXFAMCQWBUdtpqsoxfcvi01289";
    for _ in 0..60_000 {
        let mut name = names[random(names.len())].clone().into_bytes();
        for _ in 0..=random(4) {
            let at = random(name.len() - 1) + 1;
            match random(4) {
                0 => name.insert(at, letters[random(letters.len())]),
                1 => name[at] = letters[random(letters.len())],
                2 => {
                    name.remove(at);
                    name.push(b'E');
                }
                _ => {
                    let other = &names[random(names.len())].as_bytes()[2..];
                    name.splice(at..at, other.iter().copied());
                }
            }
        }
        if let Ok(name) = std::str::from_utf8(&name) {
            holds(name);
        }
    }
}
