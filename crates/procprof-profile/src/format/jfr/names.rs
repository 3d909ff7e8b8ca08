//! Names of Java classes, as people write them and the same in every run.

use std::borrow::Cow;

/// `java/util/Map` as `java.util.Map`, `[[J` as `long[][]`, and what the JVM adds to names of classes that it makes
/// itself (`Busy$$Lambda$4+0x00007f5124000c28/1252169911`) left out: it is another in each run.
pub(super) fn class_name(name: &str) -> String {
    let element = name.trim_start_matches('[');
    let dimensions = name.len() - element.len();
    let element: Cow<'_, str> = match (dimensions, element) {
        (0, name) => Cow::Borrowed(name),
        (_, "Z") => "boolean".into(),
        (_, "B") => "byte".into(),
        (_, "C") => "char".into(),
        (_, "S") => "short".into(),
        (_, "I") => "int".into(),
        (_, "J") => "long".into(),
        (_, "F") => "float".into(),
        (_, "D") => "double".into(),
        (_, name) => name.strip_prefix('L').and_then(|name| name.strip_suffix(';')).unwrap_or(name).into(),
    };
    let mut name = without_run(&element).replace('/', ".");
    for _ in 0..dimensions {
        name.push_str("[]");
    }
    name
}

/// A class's name without what differs between runs.
fn without_run(name: &str) -> &str {
    let name = without_address(name);
    let digits = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let numbered = [
        "$$Lambda$",
        "GeneratedMethodAccessor",
        "GeneratedConstructorAccessor",
        "GeneratedSerializationConstructorAccessor",
    ];
    match numbered.iter().any(|end| digits.ends_with(end)) && digits.len() < name.len() {
        true => digits.strip_suffix('$').unwrap_or(digits),
        false => name,
    }
}

/// A hidden class's name without its address and hash: `+0x00007f5124000c28/1252169911`, `.0x00007f5124000c28`,
/// `/0x0000000800c03c00`, `/1252169911`.
fn without_address(name: &str) -> &str {
    let is_hex = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let address = |name: &str| name.rfind("0x").filter(|at| *at > 1 && is_hex(&name[at + 2..])).map(|at| at - 1);
    let is_mark = |name: &str, at: usize| matches!(name.as_bytes()[at], b'+' | b'.' | b'/');
    let digits = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = match digits.strip_suffix('/') {
        Some(before) if digits.len() < name.len() => before,
        _ => name,
    };
    match address(name).filter(|at| is_mark(name, *at)) {
        Some(at) => &name[..at],
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::class_name;

    #[test]
    fn names_are_those_of_people_and_the_same_in_every_run() {
        let cases = [
            ("java/util/HashMap$Node", "java.util.HashMap$Node"),
            ("[B", "byte[]"),
            ("[[Ljava/lang/String;", "java.lang.String[][]"),
            ("byte[]", "byte[]"),
            ("Busy$$Lambda$4+0x00007f5124000c28/1252169911", "Busy$$Lambda"),
            ("Busy$$Lambda$10.0x00007f5124004ab0", "Busy$$Lambda"),
            ("a/Busy$$Lambda+0x000070003c001000", "a.Busy$$Lambda"),
            ("a/Busy$$Lambda$12/1252169911", "a.Busy$$Lambda"),
            ("java/lang/invoke/LambdaForm$MH/0x0000000800c03c00", "java.lang.invoke.LambdaForm$MH"),
            ("jdk/internal/reflect/GeneratedMethodAccessor17", "jdk.internal.reflect.GeneratedMethodAccessor"),
            ("Outer$1", "Outer$1"),
            ("p0x12", "p0x12"),
            ("", ""),
            ("[", "[]"),
        ];
        for (written, expected) in cases {
            assert_eq!(class_name(written), expected, "{written}");
        }
    }
}
