//! The colors of nodes and edges: red by their share of the total, blue for negative values, grey for small ones.

use std::fmt;

/// Red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color(pub [u8; 3]);

impl Color {
    pub(crate) const BLACK: Color = Color([0; 3]);
    pub(crate) const GREY: Color = Color([0x8a; 3]);

    /// Color for a share from -1 to 1, of a line.
    pub(super) fn from_share(share: f64) -> Color {
        shade(share, 1.0, 0.7)
    }

    /// Color for a share from -1 to 1, of a background.
    pub(super) fn pale(share: f64) -> Color {
        shade(share, 0.1, 0.93)
    }
}

/// As `#rrggbb`.
impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

fn shade(share: f64, full: f64, value: f64) -> Color {
    let share = share.clamp(-1.0, 1.0);
    let saturation = if share.abs() < 0.2 { full * (share.abs() / 0.2) } else { full };
    // Small shares are moved away from grey.
    let shifted = share.abs().powf(0.3);
    let fading = value * (1.0 - saturation * shifted);
    let parts = if share < 0.0 { [fading, fading, value] } else { [value, fading, value * (1.0 - saturation)] };
    Color(parts.map(|part| (part * 255.0) as u8))
}

#[cfg(test)]
mod tests {
    use super::Color;

    #[test]
    fn shares_are_grey_to_red_and_losses_blue() {
        assert_eq!(Color::from_share(0.0).to_string(), "#b2b2b2");
        assert_eq!(Color::from_share(1.0).to_string(), "#b20000");
        assert_eq!(Color::from_share(-1.0).to_string(), "#0000b2");
        assert_eq!(Color::pale(7.0), Color::pale(1.0));
        assert_eq!(Color::from_share(f64::NAN).to_string().len(), 7);
    }
}
