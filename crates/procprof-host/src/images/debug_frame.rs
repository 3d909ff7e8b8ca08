//! `.debug_frame` rewritten in the form of `.eh_frame`, for files whose compiler wrote no other (Go, and C with
//! `-fno-asynchronous-unwind-tables -g`).
//!
//! Entries differ in two places, which have the same size in both: a CIE has the id 0xffffffff, not 0, and an FDE has
//! the offset of its CIE in the section, not the distance back to it. Without an augmentation, addresses are absolute
//! in both. A CIE of version 4 has two more bytes, the sizes of addresses and segments. Source: DWARF 5, 6.4.1.

/// Rewrites entries up to the first that is cut short or in the 64-bit form.
pub(super) fn as_eh_frame(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut offset = 0;
    while let Some(next) = rewrite(&mut bytes, offset) {
        offset = next;
    }
    bytes.truncate(offset);
    bytes
}

/// The end of the entries of an `.eh_frame`: at its terminator, or where one is cut short.
pub(super) fn entries_end(eh_frame: &[u8]) -> usize {
    let mut offset = 0_usize;
    loop {
        let next = match word(eh_frame, offset) {
            None | Some(0) => return offset,
            Some(u32::MAX) => {
                let length = eh_frame.get(offset + 4..).and_then(|rest| rest.first_chunk());
                length.and_then(|length| usize::try_from(u64::from_le_bytes(*length)).ok()?.checked_add(offset + 12))
            }
            Some(length) => offset.checked_add(4 + length as usize),
        };
        match next.filter(|next| *next <= eh_frame.len()) {
            Some(next) => offset = next,
            None => return offset,
        }
    }
}

/// Rewrites the entry at an offset; that of the next.
fn rewrite(bytes: &mut [u8], offset: usize) -> Option<usize> {
    let (length, id_at) = (word(bytes, offset)?, offset + 4);
    let next = id_at.checked_add(length as usize).filter(|next| *next <= bytes.len())?;
    if length == u32::MAX || length < 4 {
        return None;
    }
    let id = match word(bytes, id_at)? {
        u32::MAX => {
            let body = bytes.get_mut(id_at + 4..next)?;
            if body.first() == Some(&4) {
                lower_version(body)?;
            }
            0
        }
        // The CIE of an entry before it is no CIE to the reader, so that the entry is left out.
        cie => id_at.checked_sub(cie as usize).and_then(|back| u32::try_from(back).ok()).unwrap_or(u32::MAX),
    };
    bytes.get_mut(id_at..id_at + 4)?.copy_from_slice(&id.to_le_bytes());
    Some(next)
}

/// Makes a CIE of version 3 of one of version 4: without the two sizes, and with two instructions more that do nothing.
fn lower_version(body: &mut [u8]) -> Option<()> {
    let end = body.iter().skip(1).position(|byte| *byte == 0)? + 2;
    let sizes = body.get(end..end + 2)?;
    if sizes != [8, 0] {
        return None;
    }
    body.copy_within(end + 2.., end);
    let length = body.len();
    body.get_mut(length - 2..)?.fill(0);
    *body.first_mut()? = 3;
    Some(())
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u32, body: &[u8]) -> Vec<u8> {
        let length = 4 + body.len() as u32;
        [&length.to_le_bytes()[..], &id.to_le_bytes(), body].concat()
    }

    #[test]
    fn ids_and_versions_become_those_of_eh_frame() {
        let cie = [4, 0, 8, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1];
        let fde = [0x11; 16];
        let section = [entry(u32::MAX, &cie), entry(0, &fde), entry(20, &fde)].concat();
        let expected = [entry(0, &[3, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0]), entry(24, &fde), entry(28, &fde)];
        assert_eq!(as_eh_frame(section), expected.concat());
    }

    #[test]
    fn what_can_not_be_rewritten_is_left_out() {
        let cie = entry(u32::MAX, &[1, 0, 1, 0x78, 16, 0, 0, 0]);
        for wrong in [
            &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0][..],
            &[9, 0, 0, 0, 1],
            &[3, 0, 0, 0, 0, 0, 0],
            &[0],
            &entry(u32::MAX, &[4, 0, 4, 0, 1]),
            &entry(u32::MAX, &[4, b'z']),
            &entry(u32::MAX, &[4]),
        ] {
            assert_eq!(as_eh_frame([&cie, wrong].concat()).len(), cie.len(), "{wrong:?}");
        }
        assert_eq!(entries_end(&[&cie[..], &[0; 4], &cie].concat()), cie.len());
        assert_eq!(entries_end(&[&cie[..], &cie[..9]].concat()), cie.len());
        assert_eq!(entries_end(&[&cie[..], &[0xff; 16]].concat()), cie.len());
        // A CIE that is behind its entry.
        assert_eq!(as_eh_frame(entry(100, &[0; 16])), entry(u32::MAX, &[0; 16]));
    }
}
