//! Floating-point literals from the bytes they are mangled as, in C's hexadecimal notation (`%a`).

use std::fmt::Write;

/// A format's bits behind the leading one, and where its exponents begin.
struct Format {
    fraction_bits: u32,
    suffix: &'static str,
}

/// Appends the literal of type `float` (`f`), `double` (`d`), or x87's `long double` (`e`).
pub(crate) fn append(letter: u8, digits: &str, text: &mut String) {
    match letter {
        b'f' => ieee(digits, &Format { fraction_bits: 23, suffix: "f" }, text),
        b'd' => ieee(digits, &Format { fraction_bits: 52, suffix: "" }, text),
        _ => x87(digits, text),
    }
}

fn ieee(digits: &str, format: &Format, text: &mut String) {
    let Ok(bits) = u64::from_str_radix(digits, 16) else { return };
    // As a double, which holds every float.
    let value = if format.fraction_bits == 23 { f64::from(f32::from_bits(bits as u32)) } else { f64::from_bits(bits) };
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let exponent = (bits >> 52 & 0x7ff) as i32;
    text.push_str(if value.is_sign_negative() { "-" } else { "" });
    if exponent == 0x7ff {
        text.push_str(if fraction == 0 { "inf" } else { "nan" });
    } else if value == 0.0 {
        text.push_str("0x0p+0");
    } else {
        let (leading, exponent) = if exponent == 0 { (0, -1022) } else { (1, exponent - 1023) };
        hexadecimal(leading, fraction, 13, exponent, text);
    }
    text.push_str(format.suffix);
}

/// Sign and exponent in two bytes, then 64 bits with the leading one among them.
fn x87(digits: &str, text: &mut String) {
    let parts = digits.split_at_checked(4);
    let parts =
        parts.and_then(|(head, tail)| Some((u16::from_str_radix(head, 16).ok()?, u64::from_str_radix(tail, 16).ok()?)));
    let Some((head, fraction)) = parts else { return };
    let exponent = i32::from(head & 0x7fff);
    text.push_str(if head & 0x8000 != 0 { "-" } else { "" });
    if exponent == 0x7fff {
        text.push_str(if fraction << 1 == 0 { "inf" } else { "nan" });
    } else if fraction == 0 {
        text.push_str("0x0p+0");
    } else {
        // Its first four bits are before the point.
        let exponent = exponent.max(1) - 16383 - 3;
        hexadecimal(fraction >> 60, fraction & ((1 << 60) - 1), 15, exponent, text);
    }
    text.push('L');
}

fn hexadecimal(leading: u64, fraction: u64, width: usize, exponent: i32, text: &mut String) {
    let fraction = format!("{fraction:0width$x}");
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    // Writing to a text cannot fail.
    let _ = write!(text, "0x{leading:x}{point}{fraction}p{exponent:+}");
}
