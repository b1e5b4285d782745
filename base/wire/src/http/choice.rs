//! Client preferences: content codings (RFC 9110 section 12.5.3) and entity tags (section 13.1).

/// The client's weight for a content coding, in thousandths; 0 means not acceptable. Without the
/// field every coding is allowed but none is requested, so the weight is 0.
pub fn quality(accept: Option<&[u8]>, coding: &str) -> u16 {
    let Some(text) = accept.and_then(|value| std::str::from_utf8(value).ok()) else { return 0 };
    let mut any = 0;
    for item in text.split(',') {
        let mut words = item.split(';').map(|word| word.trim_matches([' ', '\t']));
        let name = words.next().unwrap_or_default();
        let weight = words.find_map(|word| word.strip_prefix("q=").or(word.strip_prefix("Q=")));
        let quality = weight.map_or(1000, thousandths);
        // `x-gzip` is an old name of gzip (RFC 9110 section 8.4.1.3).
        let is_alias = coding == "gzip" && name.eq_ignore_ascii_case("x-gzip");
        if name.eq_ignore_ascii_case(coding) || is_alias {
            return quality;
        }
        if name == "*" {
            any = quality;
        }
    }
    any
}

/// `0.5` as 500; malformed weights are 0.
fn thousandths(text: &str) -> u16 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    match whole {
        "1" if part.bytes().all(|byte| byte == b'0') => 1000,
        "0" if digits && !part.is_empty() => {
            part.parse::<u16>().unwrap_or(0) * [1000, 100, 10, 1][part.len()]
        }
        _ => 0,
    }
}

/// Whether a list of entity tags, or `*`, contains `tag`, which includes its quotes. A weak
/// comparison ignores `W/`; in a strong one a weak tag never matches.
pub fn names_tag(list: &[u8], tag: &str, weak: bool) -> bool {
    let Ok(list) = std::str::from_utf8(list) else { return false };
    if list.trim() == "*" {
        return true;
    }
    let strong = tag.strip_prefix("W/");
    if strong.is_some() && !weak {
        return false;
    }
    let bare = strong.unwrap_or(tag);
    let mut rest = list;
    while let Some(open) = rest.find('"') {
        let is_weak = rest[..open].ends_with("W/");
        let Some(len) = rest[open + 1..].find('"') else { return false };
        let found = &rest[open..open + len + 2];
        if found == bare && (weak || !is_weak) {
            return true;
        }
        rest = &rest[open + len + 2..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codings_have_weights() {
        fn check(accept: &str, coding: &str, want: u16) {
            assert_eq!(quality(Some(accept.as_bytes()), coding), want, "{accept}: {coding}");
        }
        check("gzip, deflate, br", "br", 1000);
        check("gzip;q=0.5, br;q=0.125", "gzip", 500);
        check("gzip;q=0.5, br;q=0.125", "br", 125);
        check("gzip; q=0", "gzip", 0);
        check("x-gzip;q=0.5", "gzip", 500);
        check("*", "br", 1000);
        check("*;q=0.1, br;q=0", "br", 0);
        check("GZIP;Q=1.000", "gzip", 1000);
        check("gzip;q=x", "gzip", 0);
        check("gzip;q=0.1234", "gzip", 0);
        check("identity", "gzip", 0);
        assert_eq!(quality(None, "gzip"), 0);
    }

    #[test]
    fn tags_are_compared_strongly_or_weakly() {
        fn check(list: &str, tag: &str, strong: bool, weak: bool) {
            let found = [false, true].map(|kind| names_tag(list.as_bytes(), tag, kind));
            assert_eq!(found, [strong, weak], "{list} for {tag}");
        }
        check("\"a\"", "\"a\"", true, true);
        check("W/\"a\"", "\"a\"", false, true);
        check("\"a\"", "W/\"a\"", false, true);
        check("\"x\", \"a,b\" ,W/\"a\"", "\"a\"", false, true);
        check("\"x\", \"a,b\"", "\"a,b\"", true, true);
        check("*", "\"a\"", true, true);
        check("\"ab\"", "\"a\"", false, false);
        check("a", "\"a\"", false, false);
        check("\"a", "\"a\"", false, false);
    }
}
