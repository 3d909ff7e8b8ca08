//! Script and style of the viewer, joined and compressed by `build.rs`.

/// A file of the viewer, as it is and compressed.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// The content.
    pub text: &'static str,
    /// The content compressed with gzip.
    pub gzip: &'static [u8],
}

/// The script: one module without imports. It starts in the element `viewer` with the JSON of the element
/// `viewer-config`.
pub const fn script() -> Asset {
    Asset {
        text: include_str!(concat!(env!("OUT_DIR"), "/viewer.js")),
        gzip: include_bytes!(concat!(env!("OUT_DIR"), "/viewer.js.gz")),
    }
}

/// The style sheet; all its rules are for what is in the element `viewer`.
pub const fn style() -> Asset {
    Asset {
        text: include_str!(concat!(env!("OUT_DIR"), "/viewer.css")),
        gzip: include_bytes!(concat!(env!("OUT_DIR"), "/viewer.css.gz")),
    }
}

#[cfg(test)]
mod tests {
    use super::{script, style};

    /// Script and style are small enough to be there at once on a slow line.
    const COMPRESSED_MAX: usize = 30_000;

    #[test]
    fn the_viewer_is_small() {
        let (script, style) = (script(), style());
        assert!(
            script.gzip.len() + style.gzip.len() <= COMPRESSED_MAX,
            "{} + {} bytes",
            script.gzip.len(),
            style.gzip.len()
        );
        assert!(
            script.text.contains("class App") && !script.text.contains("/**") && !script.text.contains("\nimport ")
        );
        assert!(style.text.contains(".pv"));
    }
}
