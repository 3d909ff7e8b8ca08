//! Call instructions of x86-64, recognized by their bytes.

/// The longest call instruction that is looked for.
pub(crate) const LONGEST: usize = 7;

/// Whether bytes of code end in a call instruction: `call rel32`, `call *register`, `call *memory`.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn ends(bytes: &[u8; LONGEST]) -> bool {
    /// `/2` in the byte behind `0xff`: its upper two bits and its lower three, the operand.
    const CALL: u8 = 2;
    if bytes[2] == 0xe8 {
        return true;
    }
    (2..=LONGEST).any(|length| {
        let code = &bytes[LONGEST - length..];
        // An instruction of 7 bytes has a prefix, as one of 3 may.
        let code = if length == 7 && code[0] & 0xf0 == 0x40 { &code[1..] } else { code };
        if code[0] != 0xff || code[1] >> 3 & 7 != CALL {
            return false;
        }
        let (mode, operand) = (code[1] >> 6, code[1] & 7);
        let more = match (mode, operand) {
            (3, _) => 0,
            // A byte that names two registers, and a displacement if it has one.
            (0, 4) => 1 + 4 * usize::from(code.len() > 2 && code[2] & 7 == 5),
            (0, 5) => 4,
            (0, _) => 0,
            (1, operand) => 1 + usize::from(operand == 4),
            (_, operand) => 4 + usize::from(operand == 4),
        };
        code.len() == 2 + more
    })
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn calls_are_recognized_by_their_bytes() {
        let ends_in = |code: &[u8]| {
            let mut bytes = [0x90; LONGEST];
            bytes[LONGEST - code.len()..].copy_from_slice(code);
            ends(&bytes)
        };
        let calls: [&[u8]; 10] = [
            &[0xe8, 1, 2, 3, 4],
            &[0xff, 0xd0],
            &[0x41, 0xff, 0xd4],
            &[0xff, 0x10],
            &[0xff, 0x50, 0x18],
            &[0xff, 0x15, 1, 2, 3, 4],
            &[0xff, 0x90, 0, 1, 0, 0],
            &[0xff, 0x14, 0xc7],
            &[0xff, 0x14, 0xc5, 1, 2, 3, 4],
            &[0xff, 0x94, 0x24, 1, 2, 3, 4],
        ];
        assert!(calls.iter().all(|code| ends_in(code)));
        let others: [&[u8]; 5] =
            [&[0x90], &[0xff, 0xe0], &[0xe9, 1, 2, 3, 4], &[0xff, 0x25, 1, 2, 3, 4], &[0xff, 0x35, 1, 2, 3, 4]];
        assert!(!others.iter().any(|code| ends_in(code)));
    }
}
