//! Exact decimals: a whole number and how many of its digits are behind the point.

use datafusion::arrow::datatypes::i256;

use super::types::SCALE_MAX;

/// Digits of one of MySQL's words: it divides by words, so quotients keep whole ones.
const WORD: u8 = 9;
/// Digits that a quotient has more than its dividend.
pub(super) const INCREMENT: u8 = 4;

/// A decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    pub(super) digits: i128,
    pub(super) scale: u8,
}

fn power(exponent: u8) -> i256 {
    i256::from_i128(10).wrapping_pow(exponent.into())
}

/// Divides, and rounds halves away from zero.
fn rounded(value: i256, divisor: i256) -> i256 {
    let half = divisor.wrapping_div(i256::from_i128(2));
    let (quotient, rest) = (value.wrapping_div(divisor), value.wrapping_rem(divisor));
    if rest.wrapping_abs() >= half && divisor != i256::ONE {
        quotient.wrapping_add(if rest < i256::ZERO { i256::MINUS_ONE } else { i256::ONE })
    } else {
        quotient
    }
}

fn words(digits: u8) -> u8 {
    digits.div_ceil(WORD) * WORD
}

/// Digits behind the point that a quotient keeps.
pub(super) fn quotient_scale(dividend: u8, divisor: u8) -> u8 {
    let (left, right) = (words(dividend), words(divisor));
    let spare = left - dividend + right - divisor;
    words(left + right + INCREMENT.saturating_sub(spare)).min(SCALE_MAX)
}

impl Decimal {
    pub(super) fn whole(value: i64) -> Decimal {
        Decimal { digits: value.into(), scale: 0 }
    }

    /// With so many digits behind the point, rounded; `None` if it has too many in all.
    pub(super) fn rescaled(self, scale: u8) -> Option<Decimal> {
        let value = i256::from_i128(self.digits);
        let digits = if scale >= self.scale {
            value.checked_mul(power(scale - self.scale))?
        } else {
            rounded(value, power(self.scale - scale))
        };
        Some(Decimal { digits: digits.to_i128().filter(|digits| digits.unsigned_abs() < 10_u128.pow(38))?, scale })
    }

    /// Without the digits behind so many.
    pub(super) fn truncated(self, scale: u8) -> Decimal {
        match self.scale.checked_sub(scale) {
            None | Some(0) => self,
            Some(more) => Decimal { digits: self.digits / 10_i128.pow(more.into()), scale },
        }
    }

    pub(super) fn add(self, other: Decimal) -> Option<Decimal> {
        let scale = self.scale.max(other.scale);
        let (left, right) = (self.rescaled(scale)?, other.rescaled(scale)?);
        Some(Decimal { digits: left.digits.checked_add(right.digits)?, scale })
    }

    pub(super) fn negated(self) -> Decimal {
        Decimal { digits: -self.digits, scale: self.scale }
    }

    pub(super) fn multiply(self, other: Decimal) -> Option<Decimal> {
        let product = i256::from_i128(self.digits).checked_mul(i256::from_i128(other.digits))?;
        let scale = self.scale + other.scale;
        let (product, scale) =
            if scale > SCALE_MAX { (rounded(product, power(scale - SCALE_MAX)), SCALE_MAX) } else { (product, scale) };
        Some(Decimal { digits: product.to_i128()?, scale })
    }

    /// The quotient with so many digits behind the point, without the rest; `None` for a divisor of zero.
    pub(super) fn divide(self, other: Decimal, scale: u8) -> Option<Decimal> {
        if other.digits == 0 {
            return None;
        }
        let shift = i16::from(scale) + i16::from(other.scale) - i16::from(self.scale);
        let (mut left, mut right) = (i256::from_i128(self.digits), i256::from_i128(other.digits));
        if shift >= 0 {
            left = left.checked_mul(power(shift as u8))?;
        } else {
            right = right.checked_mul(power(-shift as u8))?;
        }
        Some(Decimal { digits: left.checked_div(right)?.to_i128()?, scale })
    }

    pub(super) fn remainder(self, other: Decimal) -> Option<Decimal> {
        let scale = self.scale.max(other.scale);
        let (left, right) = (self.rescaled(scale)?, other.rescaled(scale)?);
        Some(Decimal { digits: left.digits.checked_rem(right.digits)?, scale })
    }

    pub(super) fn compare(self, other: Decimal) -> std::cmp::Ordering {
        let scale = self.scale.max(other.scale);
        let at = |decimal: Decimal| {
            i256::from_i128(decimal.digits).checked_mul(power(scale - decimal.scale)).unwrap_or(i256::MAX)
        };
        at(self).cmp(&at(other))
    }

    pub(super) fn real(self) -> f64 {
        // Its text is read, since a division would round twice.
        self.to_string().parse().unwrap_or(0.0)
    }

    /// Rounded to a whole number, within the numbers there are.
    pub(super) fn integer(self) -> i128 {
        self.rescaled(0).map_or(0, |whole| whole.digits)
    }

    /// Reads as far as there is one; the number of bytes read.
    pub(super) fn parse(text: &str) -> Option<(Decimal, usize)> {
        let bytes = text.as_bytes();
        let mut at = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let negative = bytes.get(at) == Some(&b'-');
        if matches!(bytes.get(at), Some(b'-' | b'+')) {
            at += 1;
        }
        let (mut digits, mut scale, mut count, mut behind) = (0_i128, 0_u8, 0, false);
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'0'..=b'9' => {
                    if scale < SCALE_MAX || !behind {
                        digits = digits.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
                        scale += u8::from(behind);
                    }
                    count += 1;
                }
                b'.' if !behind => behind = true,
                _ => break,
            }
            at += 1;
        }
        (count > 0).then_some((Decimal { digits: if negative { -digits } else { digits }, scale }, at))
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.digits < 0 { "-" } else { "" };
        let digits = format!("{:0width$}", self.digits.unsigned_abs(), width = usize::from(self.scale) + 1);
        let (whole, behind) = digits.split_at(digits.len() - usize::from(self.scale));
        if behind.is_empty() { write!(f, "{sign}{whole}") } else { write!(f, "{sign}{whole}.{behind}") }
    }
}
