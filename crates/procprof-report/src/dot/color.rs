//! The colors of nodes and edges: red by their share of the total, green for what is negative, grey for little.

/// Color for a share from -1 to 1, pale for a background.
pub(super) fn color(share: f64, is_background: bool) -> String {
    let (full, value) = if is_background { (0.1, 0.93) } else { (1.0, 0.7) };
    let share = share.clamp(-1.0, 1.0);
    let saturation = if share.abs() < 0.2 { full * (share.abs() / 0.2) } else { full };
    // Small shares are moved away from grey.
    let shifted = share.abs().powf(0.3);
    let fading = value * (1.0 - saturation * shifted);
    let (red, green) = if share < 0.0 { (fading, value) } else { (value, fading) };
    let blue = value * (1.0 - saturation);
    let [red, green, blue] = [red, green, blue].map(|part| (part * 255.0) as u8);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::color;

    #[test]
    fn shares_are_grey_to_red_and_losses_green() {
        assert_eq!(color(0.0, false), "#b2b2b2");
        assert_eq!(color(1.0, false), "#b20000");
        assert_eq!(color(-1.0, false), "#00b200");
        assert_eq!(color(7.0, true), color(1.0, true));
        assert_eq!(color(f64::NAN, false).len(), 7);
    }
}
