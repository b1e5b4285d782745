//! Media types by file name extension, from `mime_guess`.

/// The type of a file without a known extension.
pub const UNKNOWN: &str = "application/octet-stream";
/// The type of our own plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// The type of our own pages.
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

/// The media type of a file with this name.
pub fn media_type(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or_default();
    let Some((stem, extension)) = name.rsplit_once('.') else { return UNKNOWN };
    if stem.is_empty() {
        return UNKNOWN;
    }
    let found = OVERRIDES.iter().find(|(known, _)| known.eq_ignore_ascii_case(extension));
    let guess = || mime_guess::from_ext(extension).first_raw();
    found.map(|(_, media_type)| *media_type).or_else(guess).unwrap_or(UNKNOWN)
}

/// Whether files of this type are worth compressing, so that a compressed one may exist beside
/// them.
pub fn is_compressible(media_type: &str) -> bool {
    const PARTS: &[&str] = &["json", "xml", "javascript", "wasm", "toml", "yaml", "image/bmp"];
    media_type.starts_with("text/") || PARTS.iter().any(|part| media_type.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_decide() {
        assert_eq!(media_type("/a/b.HTML"), HTML);
        assert_eq!(media_type("/a.b/c"), UNKNOWN);
        assert_eq!(media_type("/a.tar.gz"), "application/gzip");
        assert_eq!(media_type("/.html"), UNKNOWN);
        assert!(is_compressible(media_type("x.svg")) && !is_compressible(media_type("x.png")));
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
            assert_eq!(media_type(name), expected, "{name}");
        }
    }
}
