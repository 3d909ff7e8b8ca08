//! Encoded pointers (`DW_EH_PE_*`) as in `.eh_frame` and `.eh_frame_hdr`.
//!
//! The low four bits are the encoding of the value, the next three its base, the highest means that the value is the
//! address of the pointer (which is never used for code). Source: Linux Standard Base Core 5.0, 10.5.1 "DWARF Exception
//! Header Encoding".

use crate::reader::Reader;

/// `DW_EH_PE_omit`: there is no value.
pub(crate) const OMIT: u8 = 0xff;

/// `DW_EH_PE_sdata4 | DW_EH_PE_datarel`, in which linkers write the search table of `.eh_frame_hdr`.
pub(crate) const HEADER_TABLE: u8 = 0x3b;

/// `DW_EH_PE_udata4`.
pub(crate) const UNSIGNED_32: u8 = 0x03;
/// `DW_EH_PE_sdata4`.
pub(crate) const SIGNED_32: u8 = 0x0b;
/// `DW_EH_PE_pcrel`.
pub(crate) const RELATIVE_TO_PLACE: u8 = 0x10;
const RELATIVE_TO_DATA: u8 = 0x30;

/// Reads a pointer; `data` is what the base of `datarel`.
pub(crate) fn read(reader: &mut Reader<'_>, encoding: u8, data: Option<u64>) -> Option<u64> {
    let place = reader.address();
    let value = raw(reader, encoding)?;
    match encoding & 0xf0 {
        0 => Some(value),
        RELATIVE_TO_PLACE => Some(place.wrapping_add(value)),
        RELATIVE_TO_DATA => Some(data?.wrapping_add(value)),
        _ => None,
    }
}

/// The value as written, sign-extended, without its base: so lengths are encoded.
pub(crate) fn raw(reader: &mut Reader<'_>, encoding: u8) -> Option<u64> {
    match encoding & 0x0f {
        0x00 | 0x04 | 0x0c => reader.u64(),
        0x01 => reader.unsigned(),
        0x02 => reader.u16().map(u64::from),
        0x03 => reader.u32().map(u64::from),
        0x09 => reader.signed().map(|value| value as u64),
        0x0a => reader.u16().map(|value| i64::from(value as i16) as u64),
        0x0b => reader.u32().map(|value| i64::from(value as i32) as u64),
        _ => None,
    }
}
