//! The types of the running kernel, as it describes them in `/sys/kernel/btf/vmlinux`: where the fields of its
//! structures are, which differs between kernels.
//!
//! The file has a header (magic `9f eb`, version 1, flags, the header's length, then offset and length of the types and
//! of the strings, both counted from the header's end), types and strings. A type has an offset of its name, a word
//! `info` (bits 0 to 15: number of members; 24 to 28: kind; 31: whether members may be bit fields), its size or the type
//! that it refers to, and then what its kind has: a structure three words for each member (name, type, offset in bits).
//! The first type has the number 1 (`Documentation/bpf/btf.rst` of the kernel).
//!
//! ```
//! # let bytes: &[u8] = &[];
//! let types = procprof_host::btf::Btf::parse(bytes);
//! let offset = types.ok().and_then(|types| types.field("task_struct", "pid")).map(|field| field.bit_offset / 8);
//! ```

/// Most types; a kernel has about 150,000.
const TYPES_MAX: usize = 1 << 20;
/// Structures within structures.
const DEPTH_MAX: usize = 8;
/// Members looked at for a field, those of anonymous structures included.
const MEMBERS_MAX: usize = 1 << 16;

const MAGIC: u16 = 0xeb9f;
/// A type without what its kind adds.
const TYPE_BYTES: usize = 12;

/// The kinds of types that are looked for.
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const TYPEDEF: u32 = 8;
const POINTER: u32 = 2;
const PROTOTYPE: u32 = 13;

/// Why a description of types can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BtfError {
    /// The header is not one of BTF version 1, or its parts are not in the file.
    #[error("BTF: the header is malformed")]
    Header,
    /// A type of an unknown kind, or one that ends behind the others.
    #[error("BTF: type {0} is malformed")]
    Type(u32),
    /// More types than are read.
    #[error("BTF: more than {TYPES_MAX} types")]
    TooMany,
}

/// The number of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeId(pub u32);

/// Where a field is in its structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Bits from the beginning of the structure.
    pub bit_offset: u32,
    /// The number of bits of a bit field; 0 for other fields.
    pub bits: u32,
}

/// Descriptions of types.
#[derive(Debug)]
pub struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Where each type begins; the first is that of number 1.
    places: Vec<u32>,
}

impl<'a> Btf<'a> {
    /// Reads the descriptions, at most 2^20 of them.
    ///
    /// # Errors
    /// [`BtfError`], of malformed bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BtfError> {
        let word = |place: usize| u32_at(bytes, place).ok_or(BtfError::Header);
        if bytes.get(..2) != Some(&MAGIC.to_le_bytes()) || bytes.get(2) != Some(&1) {
            return Err(BtfError::Header);
        }
        let header = word(4)?;
        let part = |offset: u32, length: u32| {
            let start = header.checked_add(offset).ok_or(BtfError::Header)?;
            let end = start.checked_add(length).ok_or(BtfError::Header)?;
            bytes.get(start as usize..end as usize).ok_or(BtfError::Header)
        };
        let (types, strings) = (part(word(8)?, word(12)?)?, part(word(16)?, word(20)?)?);
        let mut places = Vec::new();
        let mut place = 0;
        while place < types.len() {
            let number = places.len() as u32 + 1;
            if places.len() == TYPES_MAX {
                return Err(BtfError::TooMany);
            }
            let info = u32_at(types, place + 4).ok_or(BtfError::Type(number))?;
            let added = bytes_behind(info).ok_or(BtfError::Type(number))?;
            let end = place + TYPE_BYTES + added;
            if end > types.len() {
                return Err(BtfError::Type(number));
            }
            places.push(place as u32);
            place = end;
        }
        Ok(Self { types, strings, places })
    }

    /// The name for a type, by which a tracepoint's arguments are described: `btf_trace_NAME`.
    pub fn typedef(&self, name: &str) -> Option<TypeId> {
        self.find(TYPEDEF, name)
    }

    /// The number of parameters of the function that a named type points to.
    pub fn parameters(&self, typedef: TypeId) -> Option<usize> {
        let (TYPEDEF, _, pointer) = self.of(typedef)? else { return None };
        let (POINTER, _, prototype) = self.of(TypeId(pointer))? else { return None };
        let (PROTOTYPE, members, _) = self.of(TypeId(prototype))? else { return None };
        Some(members)
    }

    /// A field of a structure, also one within its anonymous parts.
    pub fn field(&self, structure: &str, field: &str) -> Option<Field> {
        let id = self.find(STRUCT, structure)?;
        let mut left = MEMBERS_MAX;
        self.field_within(id, field, 0, &mut left)
    }

    fn field_within(&self, id: TypeId, wanted: &str, depth: usize, left: &mut usize) -> Option<Field> {
        let (STRUCT | UNION, members, _) = self.of(id)? else { return None };
        let place = self.place(id)?;
        let has_bit_fields = u32_at(self.types, place + 4)? >> 31 == 1;
        for member in 0..members {
            *left = left.checked_sub(1)?;
            let place = place + TYPE_BYTES + 12 * member;
            let word = |number: usize| u32_at(self.types, place + 4 * number);
            let (name, kind, offset) = (word(0)?, word(1)?, word(2)?);
            let (bit_offset, bits) = if has_bit_fields { (offset & 0xff_ffff, offset >> 24) } else { (offset, 0) };
            let found = if self.is_text(name, wanted) {
                Some(Field { bit_offset: 0, bits })
            } else if depth < DEPTH_MAX && self.is_text(name, "") {
                self.field_within(TypeId(kind), wanted, depth + 1, left)
            } else {
                None
            };
            if let Some(field) = found {
                return Some(Field { bit_offset: field.bit_offset.checked_add(bit_offset)?, ..field });
            }
        }
        None
    }

    fn find(&self, kind: u32, name: &str) -> Option<TypeId> {
        let is_it = |id: &TypeId| {
            let found = self.of(*id).is_some_and(|(found, ..)| found == kind);
            found && self.is_named(*id, name)
        };
        (1..=self.places.len() as u32).map(TypeId).find(is_it)
    }

    /// Kind, number of members, and size or type that is referred to.
    fn of(&self, id: TypeId) -> Option<(u32, usize, u32)> {
        let place = self.place(id)?;
        let info = u32_at(self.types, place + 4)?;
        Some((kind_of(info), members_of(info), u32_at(self.types, place + 8)?))
    }

    fn is_named(&self, id: TypeId, name: &str) -> bool {
        self.place(id).and_then(|place| u32_at(self.types, place)).is_some_and(|offset| self.is_text(offset, name))
    }

    fn place(&self, id: TypeId) -> Option<usize> {
        self.places.get((id.0 as usize).checked_sub(1)?).map(|place| *place as usize)
    }

    /// Whether this text is at that place; it is compared with so many bytes, since strings may have no end.
    fn is_text(&self, offset: u32, wanted: &str) -> bool {
        let rest = self.strings.get(offset as usize..).and_then(|rest| rest.strip_prefix(wanted.as_bytes()));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }
}

fn kind_of(info: u32) -> u32 {
    info >> 24 & 0x1f
}

fn members_of(info: u32) -> usize {
    (info & 0xffff) as usize
}

/// What a type has behind its first three words; `None` for unknown kinds.
fn bytes_behind(info: u32) -> Option<usize> {
    let members = members_of(info);
    Some(match kind_of(info) {
        // Pointers, forward declarations, names, qualifiers, functions, floating point, tags of types.
        2 | 7..=12 | 16 | 18 => 0,
        // Integers, variables, tags of declarations.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Members of structures and unions, variables of sections, values of 64 bits.
        4 | 5 | 15 | 19 => 12 * members,
        // Values of enumerations, parameters of functions.
        6 | 13 => 8 * members,
        _ => return None,
    })
}

fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    bytes.get(place..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types of which each has a name's offset, `info`, size and what follows.
    fn file(types: &[u32], strings: &[u8]) -> Vec<u8> {
        let types: Vec<u8> = types.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let words = [24, 0, types.len() as u32, types.len() as u32, strings.len() as u32];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(types);
        bytes.extend(strings);
        bytes
    }

    /// `struct a { int b; union { struct { int c:3; int d:5; }; }; }`, `typedef void (*t)(int, int)`.
    fn small() -> Vec<u8> {
        let info = |kind: u32, members: u32, has_bit_fields: u32| kind << 24 | members | has_bit_fields << 31;
        let strings = b"\0a\0b\0c\0d\0t\0";
        let types: [&[u32]; 7] = [
            &[1, info(STRUCT, 2, 0), 8, 3, 7, 0, 0, 2, 32],
            &[0, info(UNION, 1, 0), 4, 0, 3, 0],
            &[0, info(STRUCT, 2, 1), 4, 5, 7, 3 << 24, 7, 7, 5 << 24 | 3],
            &[9, info(TYPEDEF, 0, 0), 5],
            &[0, info(POINTER, 0, 0), 6],
            &[0, info(PROTOTYPE, 2, 0), 0, 0, 7, 0, 7],
            &[0, info(1, 0, 0), 4, 32],
        ];
        file(&types.concat(), strings)
    }

    #[test]
    fn fields_are_found_also_in_anonymous_parts() {
        let bytes = small();
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.field("a", "b"), Some(Field { bit_offset: 0, bits: 0 }));
        assert_eq!(btf.field("a", "c"), Some(Field { bit_offset: 32, bits: 3 }));
        assert_eq!(btf.field("a", "d"), Some(Field { bit_offset: 35, bits: 5 }));
        assert_eq!((btf.field("a", "e"), btf.field("t", "b")), (None, None));
        let typedef = btf.typedef("t").unwrap();
        assert_eq!((typedef, btf.parameters(typedef)), (TypeId(4), Some(2)));
        assert_eq!((btf.typedef("a"), btf.parameters(TypeId(1)), btf.parameters(TypeId(0))), (None, None, None));
    }

    #[test]
    fn malformed_files_are_errors() {
        let good = small();
        for length in 0..good.len() {
            assert!(Btf::parse(&good[..length]).is_err(), "{length}");
        }
        assert_eq!(Btf::parse(b"\x9f\xeb\x02"), Err(BtfError::Header));
        assert_eq!(Btf::parse(&file(&[0, 31 << 24, 0], b"\0")), Err(BtfError::Type(1)));
        assert_eq!(Btf::parse(&file(&[0, STRUCT << 24 | 0xffff, 0], b"\0")), Err(BtfError::Type(1)));
        // A structure that contains itself ends.
        let itself = file(&[1, STRUCT << 24 | 3, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0], b"\0a\0");
        assert_eq!(Btf::parse(&itself).unwrap().field("a", "b"), None);
    }

    impl PartialEq for Btf<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.places == other.places
        }
    }

    proptest::proptest! {
        #[test]
        fn hostile_bytes_do_not_panic(changes in proptest::collection::vec((0..200_usize, proptest::num::u8::ANY), 1..8)) {
            let mut bytes = small();
            for (place, byte) in changes {
                let place = place % bytes.len();
                bytes[place] = byte;
            }
            if let Ok(btf) = Btf::parse(&bytes) {
                let _ = (btf.field("a", "c"), btf.typedef("t").and_then(|typedef| btf.parameters(typedef)));
            }
        }
    }
}
