//! Names of functions as a drawn node shows them: without packages, arguments and outer namespaces, one part a line.

use regex::Regex;

use crate::display::place::{Place, base_name};
use crate::display::text::one_line;

/// The expressions that names are shortened by.
pub(super) struct ShortNames {
    version: Regex,
    shapes: [Regex; 3],
}

impl ShortNames {
    pub(super) fn new() -> ShortNames {
        let regex = |text: &str| Regex::new(text).expect("a constant that the tests compile");
        ShortNames {
            version: regex(r"^(.*?)/v(?:[2-9]|[1-9][0-9]+)([./].*)$"),
            shapes: [
                // Go: what follows the last slash.
                regex(r"^(?:(?-u:[\w\-\.])+/)+([^.]+\..+)"),
                // Java: class and method.
                regex(r"^(?:[a-z](?-u:\w)*\.)*([A-Z](?-u:[\w$])*\.(?:<init>|[a-z](?-u:[\w$])*(?:\$[0-9]+)?))(?:\(|$)"),
                // C++: class and method.
                regex(r"^(?:[_a-zA-Z](?-u:\w)*::)+(_*[A-Z](?-u:\w)*::~?[_a-zA-Z](?-u:\w)*(?:<.*>)?)"),
            ],
        }
    }

    /// The lines of a place's label.
    pub(super) fn lines(&self, place: &Place<'_>) -> Vec<String> {
        let name = one_line(&self.short(place.name)).replace("::", "\n").replace("[...]", "[…]").replace('.', "\n");
        let file = if place.file.is_empty() { String::new() } else { one_line(base_name(&place.file)).into_owned() };
        let parts = Place { name: &name, file: file.into(), ..place.clone() }.components();
        parts.iter().flat_map(|part| part.split('\n')).map(str::to_owned).collect()
    }

    fn short(&self, name: &str) -> String {
        let name = name.strip_prefix("(anonymous namespace)::").unwrap_or(name);
        let name = self.version.replace(name, "${1}${2}");
        let found = self.shapes.iter().find_map(|shape| Some(shape.captures(&name)?.get(1)?.as_str().to_owned()));
        found.unwrap_or_else(|| name.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::ShortNames;

    #[test]
    fn names_are_short() {
        let cases = [
            ("main.work", "main.work"),
            ("github.com/user/project/pkg.(*Type).Method", "pkg.(*Type).Method"),
            ("github.com/user/project/v3/pkg.Func[...]", "pkg.Func[...]"),
            ("com.example.Store.get(String)", "Store.get"),
            ("com.example.Store$Inner.<init>", "Store$Inner.<init>"),
            ("a::b::Class::method<int>", "Class::method<int>"),
            ("(anonymous namespace)::helper", "helper"),
            ("std::vec::push", "std::vec::push"),
        ];
        let names = ShortNames::new();
        for (name, expected) in cases {
            assert_eq!(names.short(name), expected, "{name}");
        }
    }
}
