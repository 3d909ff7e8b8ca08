//! Reading the numbers that recordings are made of, within the bounds of their bytes.

/// The highest bit of each byte of a word: set where a number goes on.
const GOES_ON: u64 = 0x8080_8080_8080_8080;
/// Bytes of the longest number; the last of them has eight bits.
const LONGEST: usize = 9;

/// A place in bytes. Every read is `None` at their end, and nothing was read then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Cursor<'a> {
        Cursor { bytes, at }
    }

    /// The offset of the next byte.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    pub(super) fn slice(&mut self, len: u64) -> Option<&'a [u8]> {
        let end = self.at.checked_add(usize::try_from(len).ok()?)?;
        let slice = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(slice)
    }

    /// A number: seven bits a byte, lowest first, the ninth byte whole.
    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
        let first = *self.bytes.get(self.at)?;
        if first < 0x80 {
            self.at += 1;
            return Some(u64::from(first));
        }
        self.long_number()
    }

    fn long_number(&mut self) -> Option<u64> {
        let mut number = 0;
        for (index, byte) in self.bytes.get(self.at..)?.iter().take(LONGEST).enumerate() {
            let is_last = index + 1 == LONGEST;
            let bits = if is_last { *byte } else { byte & 0x7f };
            number |= u64::from(bits) << (7 * index);
            if is_last || *byte < 0x80 {
                self.at += index + 1;
                return Some(number);
            }
        }
        None
    }

    /// Passes over that many numbers. Eight bytes at a time are searched for ends of numbers: most of a recording is
    /// passed over.
    #[inline]
    pub(super) fn skip_numbers(&mut self, mut count: u64) -> Option<()> {
        while count > 0 {
            let word = self.bytes.get(self.at..)?.first_chunk::<8>();
            let ends = word.map_or(0, |word| !u64::from_le_bytes(*word) & GOES_ON);
            let complete = u64::from(ends.count_ones());
            if count == 1 && ends != 0 {
                self.at += 1 + ends.trailing_zeros() as usize / 8;
                return Some(());
            }
            if (1..=count).contains(&complete) {
                self.at += 8 - ends.leading_zeros() as usize / 8;
                count -= complete;
            } else {
                self.number()?;
                count -= 1;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(mut number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < LONGEST - 1 && number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    }

    #[test]
    fn numbers_of_every_length_are_read_and_passed_over() {
        let numbers: Vec<u64> = (0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1, u64::MAX >> bit, 5]).collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| encoded(*number)).collect();
        let mut cursor = Cursor::new(&bytes, 0);
        let mut places = vec![0];
        for number in &numbers {
            assert_eq!(cursor.number(), Some(*number));
            places.push(cursor.at());
        }
        assert_eq!((cursor.left(), cursor.number(), cursor.byte()), (0, None, None));
        for from in 0..numbers.len() {
            for to in from..=numbers.len() {
                let mut cursor = Cursor::new(&bytes, places[from]);
                assert_eq!(cursor.skip_numbers((to - from) as u64), Some(()));
                assert_eq!(cursor.at(), places[to], "{from} to {to}");
            }
        }
        assert_eq!(Cursor::new(&bytes, 0).skip_numbers(numbers.len() as u64 + 1), None);
        assert_eq!(Cursor::new(&bytes, 0).slice(u64::MAX), None);
        assert_eq!(Cursor::new(&[0xff; 8], 0).number(), None);
    }
}
