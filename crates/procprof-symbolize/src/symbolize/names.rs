//! Names that a profile came with: demangled like those that are looked up, and the styles of both.

use foldhash::HashMap;
use procprof_profile::{Function, Parts, Profile, StringId};

use super::lines::FunctionWriter;
use crate::Result;
use crate::demangle::{Languages, without_parameters};

/// Bytes that demangled names may take, in times those of all texts of the profile; further names stay mangled.
const BYTES_MULTIPLE: usize = 32;
const BYTES_FREE: usize = 1 << 20;

/// The form of mangled names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameStyle {
    /// With parameters and template arguments.
    #[default]
    Full,
    /// Without parameters and the type that is returned.
    WithoutParameters,
    /// As the linker has them.
    Mangled,
}

impl NameStyle {
    /// A demangled name in this style; `None` for the mangled one.
    fn apply(self, demangled: String) -> Option<String> {
        match self {
            NameStyle::Full => Some(demangled),
            NameStyle::WithoutParameters => Some(without_parameters(&demangled)),
            NameStyle::Mangled => None,
        }
    }
}

/// Gives the functions of a profile that have mangled names their names in a style.
///
/// # Errors
/// If the profile's texts would exceed 4 GiB.
pub fn style_names(profile: Profile, style: NameStyle) -> Result<Profile> {
    let mut parts = profile.into_parts();
    let mut writer = FunctionWriter::new(&parts);
    let mut names = Names::new(&parts, style);
    for index in 0..parts.functions.len() {
        names.write(index, &mut parts, &mut writer)?;
    }
    Ok(parts.finish()?)
}

/// Demangles the names of the first `count` functions, as far as these have no other name than the linker's.
pub(super) fn demangle_names(parts: &mut Parts, writer: &mut FunctionWriter, count: usize) -> Result<()> {
    let mut names = Names::new(parts, NameStyle::Full);
    for index in 0..count {
        let Function { name, system_name, .. } = parts.functions[index];
        if system_name == name || system_name == StringId(0) {
            names.write(index, parts, writer)?;
        }
    }
    Ok(())
}

/// Names by mangled names, each demangled once.
struct Names {
    style: NameStyle,
    languages: Languages,
    /// `None` for what is not mangled.
    known: HashMap<StringId, Option<StringId>>,
    bytes_left: usize,
}

impl Names {
    fn new(parts: &Parts, style: NameStyle) -> Names {
        let texts: usize = parts.strings.iter().map(str::len).sum();
        let bytes_left = texts.saturating_mul(BYTES_MULTIPLE).saturating_add(BYTES_FREE);
        Names { style, languages: Languages::default(), known: HashMap::default(), bytes_left }
    }

    /// Names a function, if its name is a mangled one.
    fn write(&mut self, index: usize, parts: &mut Parts, writer: &mut FunctionWriter) -> Result<()> {
        let Function { name, system_name, .. } = parts.functions[index];
        let mangled = if system_name == StringId(0) { name } else { system_name };
        let styled = match self.known.get(&mangled) {
            Some(styled) => *styled,
            None => {
                let styled = self.styled(mangled, parts, writer)?;
                self.known.insert(mangled, styled);
                styled
            }
        };
        if let Some(name) = styled {
            (parts.functions[index].name, parts.functions[index].system_name) = (name, mangled);
        }
        Ok(())
    }

    fn styled(
        &mut self,
        mangled: StringId,
        parts: &mut Parts,
        writer: &mut FunctionWriter,
    ) -> Result<Option<StringId>> {
        let demangled = parts.strings.get(mangled).and_then(|name| self.languages.demangled(name));
        let Some(demangled) = demangled else { return Ok(None) };
        let Some(name) = self.style.apply(demangled) else { return Ok(Some(mangled)) };
        let Some(left) = self.bytes_left.checked_sub(name.len()) else { return Ok(None) };
        self.bytes_left = left;
        writer.string(parts, &name).map(Some)
    }
}
