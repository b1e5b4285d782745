//! Media types by file name extension, from `mime_guess`.

use std::str::FromStr;

/// The type of a file without a known extension.
pub const UNKNOWN: &str = "application/octet-stream";
/// The type of our own plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// The type of our own pages.
pub const JSON: &str = "application/json";
/// See RFC 2046 for its parameter.
pub const HTML: &str = "text/html; charset=utf-8";

/// Extensions for which `mime_guess` has no type, an outdated one (RFC 9239 for scripts, RFC 9512
/// for YAML, the IANA registry for the rest), or none that says UTF-8.
const OVERRIDES: &[(&str, &str)] = &[
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("htm", HTML),
    ("html", HTML),
    ("ics", "text/calendar; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("jsonl", "application/jsonl"),
    ("log", TEXT),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mkv", "video/matroska"),
    ("otf", "font/otf"),
    ("rs", TEXT),
    ("toml", "application/toml"),
    ("ts", "video/mp2t"),
    ("txt", TEXT),
    ("vtt", "text/vtt; charset=utf-8"),
    ("woff", "font/woff"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zst", "application/zstd"),
];

/// The media type of the files with an extension, given by the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaType {
    extension: String,
    /// Options are read once and live as long as the program.
    media_type: &'static str,
}

impl FromStr for MediaType {
    type Err = String;

    fn from_str(text: &str) -> Result<MediaType, String> {
        // RFC 9110 section 8.3.1: type "/" subtype, then parameters.
        let is_word = |word: &str| {
            !word.is_empty()
                && word.bytes().all(|it| it.is_ascii_alphanumeric() || b"+-._".contains(&it))
        };
        let parsed = text.split_once('=').filter(|(extension, media_type)| {
            let (kind, rest) = media_type.split_once('/').unwrap_or_default();
            let (subtype, parameters) = rest.split_once(';').unwrap_or((rest, ""));
            let is_text = parameters.bytes().all(|it| matches!(it, b' '..=b'~'));
            is_word(extension) && is_word(kind) && is_word(subtype) && is_text
        });
        let (extension, media_type) = parsed.ok_or_else(|| {
            format!("expected EXT=TYPE, such as glb=model/gltf-binary, found `{text}`")
        })?;
        let media_type = Box::leak(media_type.to_owned().into_boxed_str());
        Ok(MediaType { extension: extension.to_owned(), media_type })
    }
}

/// The media type of a file with this name: the operator's, else the known one.
pub fn media_type(path: &str, given: &[MediaType]) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or_default();
    let Some((stem, extension)) = name.rsplit_once('.') else { return UNKNOWN };
    if stem.is_empty() {
        return UNKNOWN;
    }
    if let Some(own) = given.iter().find(|it| it.extension.eq_ignore_ascii_case(extension)) {
        return own.media_type;
    }
    let found = OVERRIDES.iter().find(|(known, _)| known.eq_ignore_ascii_case(extension));
    let guess = || mime_guess::from_ext(extension).first_raw();
    found.map(|(_, media_type)| *media_type).or_else(guess).unwrap_or(UNKNOWN)
}

/// Whether files of this type are worth compressing, so that a compressed one may exist next to
/// them.
pub fn is_compressible(media_type: &str) -> bool {
    const PARTS: &[&str] =
        &["json", "json5", "ndjson", "xml", "javascript", "wasm", "toml", "yaml", "bmp"];
    let mut parts = media_type.split(['/', '+', '-', ';']);
    media_type.starts_with("text/") || parts.any(|part| PARTS.contains(&part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(path: &str) -> &'static str {
        media_type(path, &[])
    }

    #[test]
    fn a_given_type_comes_before_a_known_one() {
        let given = |text: &str| text.parse::<MediaType>();
        let types = [given("glb=model/x").unwrap(), given("TXT=text/x; charset=utf-8").unwrap()];
        assert_eq!(media_type("/a.GLB", &types), "model/x");
        assert_eq!(media_type("/a.txt", &types), "text/x; charset=utf-8");
        assert_eq!(media_type("/a.css", &types), "text/css; charset=utf-8");
        for wrong in ["glb", "=a/b", "glb=model", "glb=/x", "a/b=c/d", "glb=a/b;\r\nX: y"] {
            assert!(given(wrong).is_err_and(|why| why.contains("EXT=TYPE")), "{wrong}");
        }
    }

    #[test]
    fn extensions_decide() {
        assert_eq!(known("/a/b.HTML"), HTML);
        assert_eq!(known("/a.b/c"), UNKNOWN);
        assert_eq!(known("/a.tar.gz"), "application/gzip");
        assert_eq!(known("/.html"), UNKNOWN);
        for (name, expected) in [("x.svg", true), ("x.json", true), ("x.png", false)] {
            assert_eq!(is_compressible(known(name)), expected, "{name}");
        }
        // Its type has `xml` in a word, and it is a zip.
        assert!(!is_compressible(known("x.docx")));
    }

    #[test]
    fn what_browsers_and_offices_ask_for_has_a_type() {
        for (name, expected) in [
            ("a.mov", "video/quicktime"),
            ("a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
            ("a.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
            ("a.heic", "image/heic"),
            ("a.tiff", "image/tiff"),
            ("a.vtt", "text/vtt; charset=utf-8"),
            ("a.rss", "application/rss+xml"),
            ("a.atom", "application/atom+xml"),
            ("a.ics", "text/calendar; charset=utf-8"),
            ("a.epub", "application/epub+zip"),
            ("a.jxl", "image/jxl"),
            ("a.jsonld", "application/ld+json"),
            ("a.wasm", "application/wasm"),
            ("a.avif", "image/avif"),
            ("a.webmanifest", "application/manifest+json"),
            ("a.woff2", "font/woff2"),
            ("a.mpd", "application/dash+xml"),
            ("a.opus", "audio/ogg"),
        ] {
            assert_eq!(known(name), expected, "{name}");
        }
    }
}
