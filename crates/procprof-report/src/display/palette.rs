//! Colours: the hue is a frame's kind of code, the shade its package. Dark text is readable on all of them.

use std::fmt::Write;

use crate::FrameKind;

const SHADES: usize = 6;

/// Fill colours of a kind of frame.
pub(crate) fn shades(kind: FrameKind) -> [&'static str; SHADES] {
    match kind {
        FrameKind::Native => ["#f7a65b", "#fbc95f", "#f5957a", "#fcd99a", "#f9b584", "#eebf57"],
        FrameKind::Go => ["#74c8dc", "#8fb9ee", "#7dd3c0", "#a9dcea", "#93cdf2", "#5fbcd0"],
        FrameKind::Jvm => ["#93cf83", "#b5d96b", "#7cc79a", "#c9e4a0", "#a3d5a6", "#8fc46a"],
        FrameKind::Kernel => ["#d9a5e0", "#caa6e6", "#e3b0d8", "#c0adec", "#e9bbdf", "#d4b5ef"],
        FrameKind::Unknown => ["#c3c7cc", "#ced2d6", "#b9bec4", "#d6d9dc", "#c8ccd0", "#bfc4c9"],
        FrameKind::Remark => ["#dedcd3", "#e4e2da", "#d8d6cc", "#e8e6df", "#e0ded6", "#dad8cf"],
    }
}

/// Style class of a frame: a letter for the kind, a digit for the shade.
pub(crate) fn class(kind: FrameKind, name: &str) -> String {
    format!("{}{}", letter(kind), hash(package(name)) as usize % SHADES)
}

/// The rules for all classes.
pub(crate) fn style() -> String {
    let mut out = String::new();
    for kind in FrameKind::ALL {
        for (shade, colour) in shades(kind).iter().enumerate() {
            let _ = write!(out, ".{}{shade}{{fill:{colour}}}", letter(kind));
        }
        out.push('\n');
    }
    out
}

/// The letter of a kind of code.
pub(crate) fn letter(kind: FrameKind) -> char {
    match kind {
        FrameKind::Native => 'n',
        FrameKind::Go => 'g',
        FrameKind::Jvm => 'j',
        FrameKind::Kernel => 'k',
        FrameKind::Unknown => 'u',
        FrameKind::Remark => 'r',
    }
}

/// The package of a name: the first step of a path of namespaces, a Go import path, a Java package; else the name.
pub(crate) fn package(name: &str) -> &str {
    let name = name.trim_start_matches(['<', '&', '*', '(']);
    let plain = &name[..name.find(['(', '<', ' ', '{']).unwrap_or(name.len())];
    if let Some((first, _)) = plain.split_once("::") {
        return first;
    }
    let after_path = plain.rfind('/').map_or(0, |slash| slash + 1);
    match plain[after_path..].find('.') {
        Some(dot) if after_path > 0 => &plain[..after_path + dot],
        Some(_) => {
            let mut dots = plain.match_indices('.').map(|(at, _)| at);
            let (first, second) = (dots.next(), dots.next());
            &plain[..second.or(first).unwrap_or(plain.len())]
        }
        None => plain,
    }
}

/// FNV-1a: the same on every machine and in every version.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)) >> 7
}

#[cfg(test)]
mod tests {
    use super::*;

    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        let linear = |c: f64| if c <= 0.03928 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
        0.2126 * linear(channel(1)) + 0.7152 * linear(channel(3)) + 0.0722 * linear(channel(5))
    }

    #[test]
    fn text_reads_on_every_colour() {
        let text = luminance("#1b1d21");
        let marks = ["#f078f0", "#d5d8dc"];
        for colour in FrameKind::ALL.into_iter().flat_map(shades).chain(marks) {
            let contrast = (luminance(colour) + 0.05) / (text + 0.05);
            assert!(contrast >= 6.0, "{colour}: {contrast:.1}");
        }
    }

    #[test]
    fn a_name_belongs_to_its_package() {
        let cases = [
            ("std::vec::Vec<T>::push", "std"),
            ("<alloc::vec::Vec<T> as Drop>::drop", "alloc"),
            ("net/http.(*conn).serve", "net/http"),
            ("github.com/a/b.f", "github.com/a/b"),
            ("runtime.mallocgc", "runtime"),
            ("java.util.HashMap.get", "java.util"),
            ("memcpy", "memcpy"),
            ("", ""),
        ];
        for (name, expected) in cases {
            assert_eq!(package(name), expected, "{name}");
        }
    }
}
