//! Machine code around return addresses: the call before, and an epilogue behind.
//!
//! Sources: Intel SDM, volume 2, "CALL", "POP", "RET"; Arm Architecture Reference Manual, "BL", "BLR".

use crate::Architecture;

/// Most bytes of a call instruction, without prefixes that change nothing.
pub const CALL_BYTES: usize = 8;

/// The instruction before a return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A call of the function at so many bytes behind the return address.
    Direct(i64),
    /// A call of the function in a register or in memory.
    Indirect,
}

impl Call {
    /// The call that ends `code`, whose last byte is the one before a return address; `None` if there is none. Of
    /// x86-64's instructions, which have no fixed length, bytes that look like a call count as one.
    pub fn before(architecture: Architecture, code: &[u8]) -> Option<Self> {
        match architecture {
            Architecture::X86_64 => x86_64_call(code),
            Architecture::Aarch64 => aarch64_call(u32::from_le_bytes(*code.last_chunk()?)),
        }
    }
}

/// Whether code is what the handlers of signals return to: the call of `rt_sigreturn`, which C libraries other than
/// glibc have without a table. The frame is that of [`Rule::Signal`](crate::Rule::Signal).
pub fn returns_from_signal(architecture: Architecture, code: &[u8]) -> bool {
    let starts: &[&[u8]] = match architecture {
        Architecture::X86_64 => &[
            &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], // mov $15, %rax; syscall
            &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05],             // mov $15, %eax; syscall
        ],
        Architecture::Aarch64 => &[&[0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4]], // mov x8, #139; svc #0
    };
    starts.iter().any(|start| code.starts_with(start))
}

fn x86_64_call(code: &[u8]) -> Option<Call> {
    if let Some([0xe8, a, b, c, d]) = code.last_chunk() {
        return Some(Call::Direct(i32::from_le_bytes([*a, *b, *c, *d]).into()));
    }
    (2..=7).find_map(|length| {
        let [0xff, operand, rest @ ..] = code.get(code.len().checked_sub(length)?..)? else { return None };
        (operand >> 3 & 7 == 2 && operand_bytes(*operand, rest.first())? == length - 2).then_some(Call::Indirect)
    })
}

/// Bytes of an operand behind its first: those of index and displacement.
fn operand_bytes(operand: u8, index: Option<&u8>) -> Option<usize> {
    let (mode, register) = (operand >> 6, operand & 7);
    let has_index = register == 4 && mode != 3;
    let base = if has_index { index? & 7 } else { register };
    let displacement = match mode {
        0 if base == 5 => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    Some(usize::from(has_index) + displacement)
}

fn aarch64_call(instruction: u32) -> Option<Call> {
    if instruction >> 26 == 0b10_0101 {
        // Behind the return address, which is four bytes behind the call.
        return Some(Call::Direct(i64::from((instruction << 6).cast_signed() >> 6) * 4 - 4));
    }
    // BLR, and with authentication of the pointer BLRAA and the like.
    let is_indirect = instruction & 0xffff_fc1f == 0xd63f_0000 || instruction & 0xfeff_f800 == 0xd63f_0800;
    is_indirect.then_some(Call::Indirect)
}

/// What a function of x86-64 does until it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epilogue {
    /// The distance from the stack pointer to the return address, bytes.
    pub return_address: u64,
    /// The distance to the place of the caller's frame pointer, if that is restored.
    pub frame_pointer: Option<u64>,
}

impl Epilogue {
    /// The epilogue that begins at `code`: nothing but instructions that give back stack and registers up to a return.
    /// So the caller of code without tables is known where a call is the last thing that a function does. `None` if it
    /// does anything else first, and on AArch64.
    pub fn parse(architecture: Architecture, code: &[u8]) -> Option<Self> {
        if architecture != Architecture::X86_64 {
            return None;
        }
        let (mut rest, mut sp, mut frame_pointer) = (code, 0_u64, None);
        loop {
            rest = match rest {
                [0xc3, ..] | [0xf3, 0xc3, ..] | [0xc2, ..] => return Some(Self { return_address: sp, frame_pointer }),
                // add rsp, and lea rsp, [rsp + …]
                [0x48, 0x83, 0xc4, bytes, rest @ ..] | [0x48, 0x8d, 0x64, 0x24, bytes, rest @ ..] => {
                    sp = sp.checked_add_signed(i64::from(bytes.cast_signed()))?;
                    rest
                }
                [0x48, 0x81, 0xc4, a, b, c, d, rest @ ..] => {
                    sp = sp.checked_add(u32::from_le_bytes([*a, *b, *c, *d]).into())?;
                    rest
                }
                // pop rbp
                [0x5d, rest @ ..] => {
                    frame_pointer = Some(sp);
                    sp = sp.checked_add(8)?;
                    rest
                }
                // pop of another register but rsp
                [0x58..=0x5b | 0x5e | 0x5f, rest @ ..] | [0x41, 0x58..=0x5f, rest @ ..] => {
                    sp = sp.checked_add(8)?;
                    rest
                }
                [0x90, rest @ ..] => rest,
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known_by_their_bytes() {
        use Call::{Direct, Indirect};
        for (code, call) in [
            (&[0xe8, 0xf0, 0xff, 0xff, 0xff][..], Some(Direct(-16))),
            (&[0x90, 0x90, 0xe8, 1, 0, 0, 0], Some(Direct(1))),
            (&[0xff, 0xd1], Some(Indirect)),                   // call rcx
            (&[0x41, 0xff, 0xd1], Some(Indirect)),             // call r9
            (&[0xff, 0x10], Some(Indirect)),                   // call [rax]
            (&[0xff, 0x50, 0x08], Some(Indirect)),             // call [rax + 8]
            (&[0xff, 0x54, 0x24, 0x08], Some(Indirect)),       // call [rsp + 8]
            (&[0xff, 0x14, 0xc8], Some(Indirect)),             // call [rax + rcx * 8]
            (&[0xff, 0x15, 1, 0, 0, 0], Some(Indirect)),       // call [rip + 1]
            (&[0xff, 0x90, 1, 0, 0, 0], Some(Indirect)),       // call [rax + 1]
            (&[0xff, 0x14, 0xc5, 1, 0, 0, 0], Some(Indirect)), // call [rax * 8 + 1]
            (&[0xff, 0x94, 0x24, 1, 0, 0, 0], Some(Indirect)), // call [rsp + 1]
            (&[0xff, 0xe1], None),                             // jmp rcx
            (&[0xff, 0x54, 0x08], None),                       // cut short
            (&[0x0f, 0x05], None),                             // syscall
            (&[0x90], None),
            (&[], None),
        ] {
            assert_eq!(Call::before(Architecture::X86_64, code), call, "{code:x?}");
        }
        for (instruction, call) in [
            (0x9400_0000_u32, Some(Direct(-4))), // bl .
            (0x97ff_ffff, Some(Direct(-8))),     // bl .-4
            (0xd63f_0100, Some(Indirect)),       // blr x8
            (0xd63f_091f, Some(Indirect)),       // blraaz x8
            (0xd73f_0909, Some(Indirect)),       // blraa x8, x9
            (0xd61f_0100, None),                 // br x8
            (0x1400_0000, None),                 // b .
            (0xd503_201f, None),                 // nop
        ] {
            let code = instruction.to_le_bytes();
            assert_eq!(Call::before(Architecture::Aarch64, &code), call, "{instruction:x}");
        }
    }

    #[test]
    fn handlers_of_signals_return_to_code_with_exact_bytes() {
        let musl = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05, 0x90];
        assert!(returns_from_signal(Architecture::X86_64, &musl));
        assert!(returns_from_signal(Architecture::X86_64, &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05]));
        assert!(!returns_from_signal(Architecture::X86_64, &musl[..8]), "cut short");
        assert!(!returns_from_signal(Architecture::X86_64, &musl[1..]));
        assert!(returns_from_signal(
            Architecture::Aarch64,
            &[0xd280_1168_u32.to_le_bytes(), 0xd400_0001_u32.to_le_bytes()].concat()
        ));
        assert!(!returns_from_signal(Architecture::Aarch64, &musl));
    }

    #[test]
    fn epilogues_tell_where_the_return_address_is() {
        let parse = |code: &[u8]| Epilogue::parse(Architecture::X86_64, code);
        let at = |return_address, frame_pointer| Some(Epilogue { return_address, frame_pointer });
        assert_eq!(parse(&[0x48, 0x83, 0xc4, 8, 0xc3]), at(8, None));
        assert_eq!(parse(&[0x5d, 0xc3]), at(8, Some(0)));
        assert_eq!(parse(&[0x48, 0x81, 0xc4, 0, 1, 0, 0, 0x5b, 0x5d, 0x41, 0x5f, 0xc2, 8, 0]), at(280, Some(264)));
        for other in [&[][..], &[0x5c, 0xc3], &[0x48, 0x83, 0xc4, 8], &[0x48, 0x83, 0xc4, 0xf8, 0xc3], &[0xeb, 0, 0xc3]]
        {
            assert_eq!(parse(other), None, "{other:x?}");
        }
        assert_eq!(Epilogue::parse(Architecture::Aarch64, &[0xc0, 0x03, 0x5f, 0xd6]), None);
    }
}
