//! MD5, for the function of that name alone.

/// Rotations of the rounds.
const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The MD5 sum of some bytes (RFC 1321).
pub(super) fn md5(bytes: &[u8]) -> [u8; 16] {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend_from_slice(&(bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded.chunks_exact(64) {
        let word = |at: usize| {
            block[at * 4..at * 4 + 4].iter().rev().fold(0_u32, |number, byte| number << 8 | u32::from(*byte))
        };
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64_usize {
            let (mixed, at) = match step / 16 {
                0 => (b & c | !b & d, step),
                1 => (d & b | !d & c, (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), 7 * step % 16),
            };
            let constant = ((step as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32;
            let sum = a.wrapping_add(mixed).wrapping_add(constant).wrapping_add(word(at));
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(ROTATIONS[step / 16][step % 4]));
        }
        for (own, other) in state.iter_mut().zip([a, b, c, d]) {
            *own = own.wrapping_add(other);
        }
    }
    let mut sum = [0; 16];
    for (place, number) in sum.chunks_exact_mut(4).zip(state) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    sum
}
