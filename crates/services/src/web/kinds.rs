//! Media types by the ending of a name (the IANA registry, and RFC 9239 for scripts).

/// The type of what has no known ending.
pub const UNKNOWN: &str = "application/octet-stream";
/// The type of our own words.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// The type of our own pages.
pub const HTML: &str = "text/html; charset=utf-8";

/// Endings and their types, sorted by ending.
const KINDS: &[(&str, &str)] = &[
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("bz2", "application/x-bzip2"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("flac", "audio/flac"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", HTML),
    ("html", HTML),
    ("ico", "image/x-icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("log", TEXT),
    ("m4a", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mkv", "video/matroska"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("rs", TEXT),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("toml", "application/toml"),
    ("ts", "video/mp2t"),
    ("ttf", "font/ttf"),
    ("txt", TEXT),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// The media type of a file of that name.
pub fn kind(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or_default();
    let Some((stem, ending)) = name.rsplit_once('.') else { return UNKNOWN };
    if stem.is_empty() {
        return UNKNOWN;
    }
    let found = KINDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending));
    found.map_or(UNKNOWN, |(_, kind)| kind)
}

/// Whether a type is worth compressing beforehand, so that a packed file may stand beside it.
pub fn is_packable(kind: &str) -> bool {
    const PACKABLE: &[&str] = &["json", "xml", "javascript", "wasm", "toml", "yaml", "image/bmp"];
    kind.starts_with("text/") || PACKABLE.iter().any(|part| kind.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_decide() {
        assert_eq!(kind("/a/b.HTML"), HTML);
        assert_eq!(kind("/a.b/c"), UNKNOWN);
        assert_eq!(kind("/a.tar.gz"), "application/gzip");
        assert_eq!(kind("/.html"), UNKNOWN);
        assert!(is_packable(kind("x.svg")) && !is_packable(kind("x.png")));
    }
}
