//! The chart script, packed for the page: gzip, then base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};
use std::sync::OnceLock;

/// plotly.js out of the script tags that the crate offers. It comes with a second script, MathJax,
/// which no chart here needs; the two are apart by their tags.
fn source(tags: &str) -> Option<&str> {
    let (_, rest) = tags.split_once('>')?;
    let (script, _) = rest.split_once("</script>")?;
    script.contains("plotly.js v").then_some(script)
}

/// plotly.js as base64 of gzip, or `None` if the crate's tags do not have the expected form: the
/// page then states that it has no charts. Packed once in a process.
///
/// # Errors
/// None in practice: it writes into memory.
pub fn packed() -> io::Result<Option<&'static str>> {
    static PACKED: OnceLock<Option<String>> = OnceLock::new();
    if let Some(packed) = PACKED.get() {
        return Ok(packed.as_deref());
    }
    let tags = plotly::Plot::offline_js_sources();
    let packed = source(&tags).map(pack).transpose()?;
    Ok(PACKED.get_or_init(|| packed).as_deref())
}

fn pack(source: &str) -> io::Result<String> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(source.as_bytes())?;
    Ok(STANDARD.encode(packer.finish()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_script_is_plotly_alone_and_small() {
        let packed = packed().expect("memory is writable").expect("the tags hold plotly.js");
        assert!(packed.len() < 2_500_000, "{} bytes", packed.len());
        let bytes = STANDARD.decode(packed).expect("we encoded it");
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("we packed it");
        assert!(text.contains("plotly.js v") && text.len() < 5_000_000, "not plotly alone");
        assert!(!text.contains("</script"), "it would end its own tag");
    }

    #[test]
    fn other_tags_give_no_script() {
        assert_eq!(source("<script>something else</script>"), None);
        assert_eq!(source("nothing"), None);
    }
}
