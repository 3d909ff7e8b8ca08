//! The name of a function, and where it begins.
//!
//! The entry of a function or inlined call often contains neither and refers to another one that does:
//! the abstract function, its declaration in a class, perhaps in another unit or file.

use std::borrow::Cow;
use std::sync::Arc;

use foldhash::HashMap;
use gimli::{AttributeValue, DwLang, UnitOffset, UnitSectionOffset};

use super::plan::Kind;
use super::scopes::Scopes;
use super::{DebugInfo, Dwarf, Reader, Root, UnitRef, Units};
use crate::demangle;

/// Most entries that are followed from one to the next.
const REFERENCES_MAX: usize = 16;
/// Most names of namespaces, types and functions that are put before a bare name.
const SCOPES_MAX: usize = 64;

/// The file of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    Main,
    Shared,
    /// Split off from the unit with that number.
    Split(usize),
}

/// A unit with the file it is in.
#[derive(Clone, Copy)]
pub(crate) struct Home<'u, 'a> {
    pub(crate) origin: Origin,
    pub(crate) dwarf: &'u Dwarf<'a>,
    pub(crate) root: &'u Root<'a>,
}

impl<'u, 'a> Home<'u, 'a> {
    fn unit(&self) -> UnitRef<'u, 'a> {
        self.root.unit_ref(self.dwarf)
    }

    fn key(&self, entry: UnitOffset) -> (Origin, usize) {
        let UnitSectionOffset(offset) = entry.to_unit_section_offset(&self.root.unit.header);
        (self.origin, offset)
    }
}

/// A function as the debug information has it.
#[derive(Debug, Clone)]
pub(crate) struct Function<'a> {
    /// The linker's name, or the bare one; empty if it has none.
    pub(crate) name: &'a [u8],
    /// The scope of a bare name, such as `std::vector<int>`; empty if none or unknown.
    pub(crate) scope: String,
    /// The line it begins at; 0 if unknown.
    pub(crate) line: u32,
    /// Whether its language has mangled names, so that a bare one is but a part.
    pub(crate) is_mangling: bool,
}

impl Function<'_> {
    /// Whether the name is but a part of the linker's.
    pub(crate) fn has_bare_name(&self) -> bool {
        self.is_mangling && !is_mangled(self.name)
    }

    /// The linker's name and the readable one, as in an index; `None` for the result of demangling.
    pub(crate) fn written(&self) -> (Cow<'_, str>, Option<String>) {
        let system_name = String::from_utf8_lossy(self.name);
        let name = (!self.scope.is_empty()).then(|| format!("{}::{}", self.scope, demangle(&system_name)));
        (system_name, name)
    }
}

/// Whether the outermost function must get the linker's name: the debug information has none there,
/// or a bare one only: `operator()` of a lambda, a C++ function local to its file.
pub(crate) fn needs_linker_name(function: Option<&Function<'_>>, linker_name: &[u8]) -> bool {
    function.is_none_or(|function| function.name.is_empty() || function.has_bare_name() && is_mangled(linker_name))
}

/// Whether a name looks like one that a linker sees of C++ or Rust.
pub(crate) fn is_mangled(name: &[u8]) -> bool {
    name.starts_with(b"_Z") || name.starts_with(b"_R")
}

/// The functions found by one thread, each once.
pub(crate) struct Names<'i, 'a> {
    info: &'i DebugInfo<'a>,
    known: HashMap<(Origin, usize), u32>,
    pub(crate) functions: Vec<Function<'a>>,
    scopes: HashMap<(Origin, usize), Arc<Scopes>>,
    /// Bytes of texts and scopes.
    text_bytes: usize,
}

/// The attributes of an entry.
#[derive(Default)]
struct Entry<'a> {
    linkage_name: Option<AttributeValue<Reader<'a>>>,
    name: Option<AttributeValue<Reader<'a>>>,
    line: u32,
    /// Another entry with more attributes.
    reference: Option<AttributeValue<Reader<'a>>>,
}

impl<'i, 'a> Names<'i, 'a> {
    pub(crate) fn new(info: &'i DebugInfo<'a>) -> Self {
        Self { info, known: HashMap::default(), functions: Vec::new(), scopes: HashMap::default(), text_bytes: 0 }
    }

    /// The number of the function that a reference in `home` leads to.
    pub(crate) fn referred<'u>(&mut self, home: Home<'u, 'a>, reference: AttributeValue<Reader<'a>>) -> Option<u32>
    where
        'i: 'u,
    {
        let (home, entry) = self.follow(home, reference)?;
        Some(self.function(home, entry))
    }

    /// The number of the function with that entry.
    pub(crate) fn function<'u>(&mut self, home: Home<'u, 'a>, entry: UnitOffset) -> u32
    where
        'i: 'u,
    {
        let key = home.key(entry);
        if let Some(function) = self.known.get(&key) {
            return *function;
        }
        let function = self.read(home, entry);
        let number = self.functions.len() as u32;
        // The linker's name, the readable one, and what comes before it.
        self.text_bytes += 2 * (function.name.len() + function.scope.len());
        self.functions.push(function);
        self.known.insert(key, number);
        number
    }

    /// Bytes that are kept of them, and that their names will take when they are demangled.
    pub(crate) fn held_bytes(&self) -> usize {
        /// The heads of two texts, and a place in each of the tables by entry, by function and by name.
        const NAME_BYTES: usize = 128;
        self.functions.len() * (size_of::<Function<'_>>() + NAME_BYTES) + self.text_bytes
    }

    fn read<'u>(&mut self, home: Home<'u, 'a>, entry: UnitOffset) -> Function<'a>
    where
        'i: 'u,
    {
        let (mut last, mut bare, mut line) = ((home, entry), None, 0);
        for _ in 0..REFERENCES_MAX {
            let attributes = read_or_default(last.0, last.1);
            if line == 0 {
                line = attributes.line;
            }
            if let Some(name) = attributes.linkage_name.and_then(|name| text(last.0.unit(), name)) {
                if line == 0 {
                    line = attributes
                        .reference
                        .and_then(|next| self.follow(last.0, next))
                        .map_or(0, |(home, entry)| declared_line(home, entry));
                }
                return Function { name, scope: String::new(), line, is_mangling: is_mangling(home.root.language) };
            }
            bare = bare.or_else(|| text(last.0.unit(), attributes.name?));
            match attributes.reference.and_then(|next| self.follow(last.0, next)) {
                Some(next) => last = next,
                None => break,
            }
        }
        let name = bare.unwrap_or_default();
        let is_mangling = is_mangling(last.0.root.language);
        let scope = if is_mangling && !name.is_empty() { self.scope(last.0, last.1) } else { String::new() };
        Function { name, scope, line, is_mangling }
    }

    fn follow<'u>(
        &self,
        home: Home<'u, 'a>,
        reference: AttributeValue<Reader<'a>>,
    ) -> Option<(Home<'u, 'a>, UnitOffset)>
    where
        'i: 'u,
    {
        let info: &'i DebugInfo<'a> = self.info;
        let find = |origin, dwarf: &'i Dwarf<'a>, units: &'i Units<'a>, offset| {
            let (unit, entry) = units.holding(offset)?;
            Some((Home { origin, dwarf, root: units.root(dwarf, unit)? }, entry))
        };
        let shared = |offset| find(Origin::Shared, info.dwarf.sup.as_deref()?, info.shared.as_ref()?, offset);
        match (reference, home.origin) {
            (AttributeValue::UnitRef(entry), _) => Some((home, entry)),
            (AttributeValue::DebugInfoRef(offset), Origin::Main) => {
                find(Origin::Main, &info.dwarf, &info.units, offset)
            }
            (AttributeValue::DebugInfoRef(offset), Origin::Shared) | (AttributeValue::DebugInfoRefSup(offset), _) => {
                shared(offset)
            }
            (AttributeValue::DebugInfoRef(offset), Origin::Split(_)) => {
                Some((home, offset.to_unit_offset(&home.root.unit.header)?))
            }
            _ => None,
        }
    }

    /// The names of what an entry is in, outermost first, joined by `::`.
    fn scope<'u>(&mut self, home: Home<'u, 'a>, entry: UnitOffset) -> String
    where
        'i: 'u,
    {
        let (mut home, mut entry) = (home, entry);
        // Innermost first.
        let mut names: Vec<String> = Vec::new();
        'from: for _ in 0..REFERENCES_MAX {
            let scopes = self.scopes(home);
            for (scope, kind) in scopes.around(entry.0).take(SCOPES_MAX) {
                let mut attributes = read_or_default(home, UnitOffset(scope));
                let mut place = (home, UnitOffset(scope));
                let mut moved = false;
                for _ in 0..REFERENCES_MAX {
                    let next = attributes.reference.filter(|_| attributes.name.is_none());
                    let Some(next) = next.and_then(|next| self.follow(place.0, next)) else {
                        break;
                    };
                    (place, moved) = (next, true);
                    attributes = read_or_default(place.0, place.1);
                }
                let name = attributes.name.and_then(|name| text(place.0.unit(), name));
                names.push(name.map_or_else(|| nameless(kind), |name| String::from_utf8_lossy(name).into_owned()));
                if names.len() == SCOPES_MAX {
                    break 'from;
                }
                if moved {
                    // A function that is declared elsewhere is named by its declaration.
                    (home, entry) = place;
                    continue 'from;
                }
            }
            break;
        }
        names.reverse();
        names.join("::")
    }

    fn scopes(&mut self, home: Home<'_, 'a>) -> Arc<Scopes> {
        let key = home.key(UnitOffset(0));
        let text_bytes = &mut self.text_bytes;
        let scopes = self.scopes.entry(key).or_insert_with(|| {
            let scopes = Scopes::read(home.dwarf, home.root);
            *text_bytes += scopes.held_bytes();
            Arc::new(scopes)
        });
        Arc::clone(scopes)
    }
}

fn nameless(kind: Kind) -> String {
    match kind {
        Kind::Namespace => "(anonymous namespace)",
        Kind::Type => "(anonymous class)",
        _ => "(anonymous)",
    }
    .to_owned()
}

fn declared_line(home: Home<'_, '_>, entry: UnitOffset) -> u32 {
    read_or_default(home, entry).line
}

/// The attributes of the entry; none if it is broken.
fn read_or_default<'a>(home: Home<'_, 'a>, entry: UnitOffset) -> Entry<'a> {
    read_entry(home.unit(), entry).unwrap_or_default()
}

fn read_entry<'a>(unit: UnitRef<'_, 'a>, entry: UnitOffset) -> gimli::Result<Entry<'a>> {
    let mut attributes = Entry::default();
    let mut entries = unit.entries_raw(Some(entry))?;
    let Some(abbreviation) = entries.read_abbreviation()? else {
        return Ok(attributes);
    };
    for attribute in abbreviation.attributes() {
        let attribute = entries.read_attribute(*attribute)?;
        match attribute.name() {
            gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                attributes.linkage_name = Some(attribute.value())
            }
            gimli::DW_AT_name => attributes.name = Some(attribute.value()),
            gimli::DW_AT_decl_line => {
                attributes.line = attribute.udata_value().and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
            }
            gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => attributes.reference = Some(attribute.value()),
            _ => {}
        }
    }
    Ok(attributes)
}

fn text<'a>(unit: UnitRef<'_, 'a>, value: AttributeValue<Reader<'a>>) -> Option<&'a [u8]> {
    unit.attr_string(value).ok().map(|text| text.slice()).filter(|text| !text.is_empty())
}

/// Whether compilers of the language mangle names.
fn is_mangling(language: Option<DwLang>) -> bool {
    matches!(
        language,
        Some(
            gimli::DW_LANG_C_plus_plus
                | gimli::DW_LANG_C_plus_plus_03
                | gimli::DW_LANG_C_plus_plus_11
                | gimli::DW_LANG_C_plus_plus_14
                | gimli::DW_LANG_C_plus_plus_17
                | gimli::DW_LANG_C_plus_plus_20
                | gimli::DW_LANG_Rust
        )
    )
}
