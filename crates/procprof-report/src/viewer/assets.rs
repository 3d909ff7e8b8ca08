//! Script and style of the viewer, joined and compressed by `build.rs`.

/// A file of the viewer, as it is and compressed.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// The content.
    pub text: &'static str,
    /// The content compressed with gzip.
    pub gzip: &'static [u8],
}

/// A script that `build.rs` made.
macro_rules! script {
    ($language:literal) => {
        Asset {
            text: include_str!(concat!(env!("OUT_DIR"), "/viewer.", $language, ".js")),
            gzip: include_bytes!(concat!(env!("OUT_DIR"), "/viewer.", $language, ".js.gz")),
        }
    };
}

/// The script in English, Japanese and Chinese: one module without imports. It starts in the element `viewer` with the
/// JSON of the element `viewer-config`.
pub const fn scripts() -> [Asset; 3] {
    [script!("en"), script!("ja"), script!("zh-CN")]
}

/// The script in English.
pub const fn script() -> Asset {
    let [english, ..] = scripts();
    english
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
    use super::{scripts, style};

    /// Script and style are small enough to be there at once on a slow line.
    const COMPRESSED_MAX: usize = 30 << 10;

    #[test]
    fn the_viewer_is_small() {
        let style = style();
        for script in scripts() {
            let (script_bytes, style_bytes) = (script.gzip.len(), style.gzip.len());
            assert!(script_bytes + style_bytes <= COMPRESSED_MAX, "{script_bytes} + {style_bytes} bytes");
            assert!(!script.text.contains("/**") && !script.text.contains("\nimport "));
            assert!(script.text.contains("class App"));
        }
        assert!(style.text.contains(".pv"));
    }
}
