//! Stepping over debugging entries without reading them.
//!
//! Most of a unit (types, variables, declarations) does not concern code. Its abbreviations are turned into plans once:
//! mostly one addition, at worst a few steps, replace decoding each attribute. Offsets are relative to the start of the
//! unit, header included.

use gimli::{Abbreviation, Abbreviations, DwForm, DwTag};

use super::{Broken, UnitHeader};

/// Highest abbreviation code that has its plan made beforehand. Compilers number from 1 without gaps.
const DENSE_MAX: u64 = 1 << 16;

/// In place of the first step: there are none yet, and the count of steps is the abbreviation's code.
const SPARSE: u32 = u32::MAX;

/// The role of an entry in the walk over a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A function with code.
    Code,
    /// A declaration, or a function that was inlined wherever it is called.
    Declaration,
    /// An inlined call.
    Inlined,
    /// A call that was not inlined, and what is passed to it.
    CallSite,
    /// A namespace or module.
    Namespace,
    /// A type with members.
    Type,
    /// Anything else.
    Other,
}

/// The steps over entries of one abbreviation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) has_children: bool,
    /// The place of its single range of code in the entry, if known beforehand.
    pub(crate) code: Option<CodePlace>,
    first_step: u32,
    step_count: u32,
}

/// The places of `DW_AT_low_pc`, 8 bytes, and of `DW_AT_high_pc`, a size, behind the code of the
/// abbreviation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodePlace {
    low: u32,
    high: u32,
    high_bytes: u8,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Fixed(u32),
    Leb,
    Text,
    /// A length of that many bytes, then that many bytes.
    Block(u8),
    LebBlock,
    Sibling(u8),
    /// The form is in the entry.
    Indirect,
    Unknown,
}

/// The plans for the entries of one unit.
pub(crate) struct Plans<'u, 'a> {
    header: &'u UnitHeader<'a>,
    abbreviations: &'u Abbreviations,
    bytes: &'a [u8],
    big_endian: bool,
    dense: Vec<Plan>,
    steps: Vec<Step>,
}

impl<'u, 'a> Plans<'u, 'a> {
    /// Makes the plans of all abbreviations. `bytes` are those of the unit, with its header.
    pub(crate) fn new(
        header: &'u UnitHeader<'a>,
        abbreviations: &'u Abbreviations,
        bytes: &'a [u8],
        big_endian: bool,
    ) -> Self {
        let mut plans = Self { header, abbreviations, bytes, big_endian, dense: Vec::new(), steps: Vec::new() };
        for code in 1..=DENSE_MAX {
            let Some(abbreviation) = abbreviations.get(code) else {
                break;
            };
            let plan = plan(header, abbreviation, &mut plans.steps);
            plans.dense.push(plan);
        }
        plans
    }

    /// The offset of the unit's first entry.
    pub(crate) fn start(&self) -> usize {
        self.header.header_size()
    }

    pub(crate) fn end(&self) -> usize {
        self.bytes.len()
    }

    /// The plan for the entry at `at` and the offset behind its code; `None` for the end of a list.
    pub(crate) fn plan(&self, at: usize) -> Result<(Option<Plan>, usize), Broken> {
        let (code, at) = self.leb(at)?;
        if code == 0 {
            return Ok((None, at));
        }
        if let Some(plan) = self.dense.get(code as usize - 1) {
            return Ok((Some(*plan), at));
        }
        // Codes with gaps: the steps are made when they are taken.
        let abbreviation = self.abbreviations.get(code).ok_or(Broken)?;
        let step_count = u32::try_from(code).map_err(|_| Broken)?;
        let kind = kind(abbreviation);
        Ok((
            Some(Plan { kind, has_children: abbreviation.has_children(), code: None, first_step: SPARSE, step_count }),
            at,
        ))
    }

    /// The offset behind the attributes, which begin at `at`, and that of the next entry on the same level, if the
    /// entry has it.
    #[inline]
    pub(crate) fn skip(&self, plan: &Plan, at: usize) -> Result<(usize, Option<usize>), Broken> {
        if plan.first_step == SPARSE {
            let mut steps = Vec::new();
            let abbreviation = self.abbreviations.get(u64::from(plan.step_count)).ok_or(Broken)?;
            self::plan(self.header, abbreviation, &mut steps);
            return self.take(&steps, at);
        }
        let first = plan.first_step as usize;
        self.take(&self.steps[first..first + plan.step_count as usize], at)
    }

    #[inline]
    fn take(&self, steps: &[Step], mut at: usize) -> Result<(usize, Option<usize>), Broken> {
        let mut sibling = None;
        for step in steps {
            at = match step {
                Step::Fixed(bytes) => at + *bytes as usize,
                Step::Sibling(bytes) => {
                    sibling = Some(self.number(at, *bytes)? as usize);
                    at + usize::from(*bytes)
                }
                other => self.take_variable(*other, at)?,
            };
        }
        if at > self.bytes.len() {
            return Err(Broken);
        }
        Ok((at, sibling.filter(|sibling| *sibling >= at && *sibling <= self.bytes.len())))
    }

    fn take_variable(&self, step: Step, at: usize) -> Result<usize, Broken> {
        let (length, at) = match step {
            Step::Fixed(bytes) => (u64::from(bytes), at),
            Step::Sibling(bytes) => (u64::from(bytes), at),
            Step::Leb => (0, self.leb(at)?.1),
            Step::Text => {
                let text = self.bytes.get(at..).ok_or(Broken)?;
                (text.iter().position(|byte| *byte == 0).ok_or(Broken)? as u64 + 1, at)
            }
            Step::Block(bytes) => (self.number(at, bytes)?, at + usize::from(bytes)),
            Step::LebBlock => self.leb(at)?,
            Step::Indirect => {
                let (form, at) = self.leb(at)?;
                let step = variable_step(DwForm(u16::try_from(form).map_err(|_| Broken)?));
                return match step {
                    // An indirect form that is indirect could continue without end.
                    Step::Indirect => Err(Broken),
                    Step::Unknown => {
                        let size = gimli::AttributeSpecification::new(gimli::DW_AT_name, DwForm(form as u16), None)
                            .size(self.header);
                        Ok(at + size.ok_or(Broken)?)
                    }
                    step => self.take_variable(step, at),
                };
            }
            Step::Unknown => return Err(Broken),
        };
        let left = self.bytes.len().checked_sub(at).ok_or(Broken)?;
        if length > left as u64 { Err(Broken) } else { Ok(at + length as usize) }
    }

    /// The one range of code of an entry whose attributes begin at `at`.
    #[inline]
    pub(crate) fn code_range(&self, place: CodePlace, at: usize) -> Result<(u64, u64), Broken> {
        let low = self.number(at + place.low as usize, 8)?;
        let size = self.number(at + place.high as usize, place.high_bytes)?;
        Ok((low, low.saturating_add(size)))
    }

    #[inline]
    fn number(&self, at: usize, bytes: u8) -> Result<u64, Broken> {
        let bytes = self.bytes.get(at..at + usize::from(bytes)).ok_or(Broken)?;
        let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Ok(if self.big_endian { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) })
    }

    #[inline]
    fn leb(&self, mut at: usize) -> Result<(u64, usize), Broken> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = *self.bytes.get(at).ok_or(Broken)?;
            at += 1;
            if shift < 64 {
                number |= u64::from(byte & 0x7f) << shift;
            }
            if byte & 0x80 == 0 {
                return Ok((number, at));
            }
            shift += 7;
        }
    }
}

fn kind(abbreviation: &Abbreviation) -> Kind {
    let has = |name| abbreviation.attributes().iter().any(|attribute| attribute.name() == name);
    match abbreviation.tag() {
        gimli::DW_TAG_subprogram if has(gimli::DW_AT_low_pc) || has(gimli::DW_AT_ranges) => Kind::Code,
        gimli::DW_TAG_subprogram => Kind::Declaration,
        gimli::DW_TAG_inlined_subroutine => Kind::Inlined,
        gimli::DW_TAG_call_site | gimli::DW_TAG_GNU_call_site => Kind::CallSite,
        gimli::DW_TAG_namespace | gimli::DW_TAG_module => Kind::Namespace,
        tag if is_type(tag) => Kind::Type,
        _ => Kind::Other,
    }
}

fn is_type(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_class_type
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_interface_type
            | gimli::DW_TAG_enumeration_type
    )
}

fn plan(header: &UnitHeader<'_>, abbreviation: &Abbreviation, steps: &mut Vec<Step>) -> Plan {
    let kind = kind(abbreviation);
    let first_step = steps.len() as u32;
    let (mut low, mut high) = (None, None);
    // The distance of the attribute, as long as all before have a fixed size.
    let mut place = Some(0);
    for attribute in abbreviation.attributes() {
        let size = attribute.size(header).and_then(|size| u32::try_from(size).ok());
        match attribute.name() {
            gimli::DW_AT_low_pc if attribute.form() == gimli::DW_FORM_addr && size == Some(8) => low = place,
            gimli::DW_AT_high_pc if matches!(attribute.form(), gimli::DW_FORM_data4 | gimli::DW_FORM_data8) => {
                high = place.zip(size)
            }
            _ => {}
        }
        place = place.zip(size).map(|(place, size): (u32, u32)| place.saturating_add(size));
        match size {
            Some(size @ 1..=8) if attribute.name() == gimli::DW_AT_sibling => steps.push(Step::Sibling(size as u8)),
            Some(size) => match steps.get_mut(first_step as usize..).and_then(<[Step]>::last_mut) {
                Some(Step::Fixed(before)) => *before = before.saturating_add(size),
                _ => steps.push(Step::Fixed(size)),
            },
            None => steps.push(variable_step(attribute.form())),
        }
    }
    let code = low.zip(high).filter(|_| kind == Kind::Code);
    let code = code.map(|(low, (high, high_bytes))| CodePlace { low, high, high_bytes: high_bytes as u8 });
    let step_count = steps.len() as u32 - first_step;
    Plan { kind, has_children: abbreviation.has_children(), code, first_step, step_count }
}

fn variable_step(form: DwForm) -> Step {
    match form {
        gimli::DW_FORM_block1 => Step::Block(1),
        gimli::DW_FORM_block2 => Step::Block(2),
        gimli::DW_FORM_block4 => Step::Block(4),
        gimli::DW_FORM_block | gimli::DW_FORM_exprloc => Step::LebBlock,
        gimli::DW_FORM_string => Step::Text,
        gimli::DW_FORM_indirect => Step::Indirect,
        gimli::DW_FORM_udata
        | gimli::DW_FORM_sdata
        | gimli::DW_FORM_ref_udata
        | gimli::DW_FORM_strx
        | gimli::DW_FORM_GNU_str_index
        | gimli::DW_FORM_addrx
        | gimli::DW_FORM_GNU_addr_index
        | gimli::DW_FORM_loclistx
        | gimli::DW_FORM_rnglistx => Step::Leb,
        _ => Step::Unknown,
    }
}
