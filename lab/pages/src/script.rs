//! The chart script, packed for the page: gzip, then base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// plotly.js as the build packed it.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plotly.js.gz"));

/// plotly.js as base64 of gzip, the form that a page can hold in a tag.
pub fn packed() -> String {
    STANDARD.encode(PACKED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_script_is_plotly_alone_and_small() {
        let packed = packed();
        assert!(packed.len() < 2_500_000, "{} bytes", packed.len());
        let bytes = STANDARD.decode(packed).expect("we encoded it");
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("we packed it");
        assert!(text.contains("plotly.js v") && text.len() < 5_000_000, "not plotly alone");
        assert!(!text.contains("</script"), "it would end its own tag");
    }
}
