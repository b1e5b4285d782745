//! The page that lists a folder. Names may contain anything, so each is escaped twice: as a URL and
//! as HTML.

use std::fmt::{Display, Write};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::platform::Entry;

/// The page of the folder at `path`, which begins and ends with `/`. Folders come first; names are
/// in byte order; names that begin with a dot are left out.
pub fn page(path: &[u8], mut entries: Vec<Entry>) -> Vec<u8> {
    entries.retain(|entry| !entry.name.starts_with(b"."));
    entries.sort_by(|a, b| (a.len.is_some(), &a.name).cmp(&(b.len.is_some(), &b.name)));
    let title = escaped(path);
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <h1>{title}</h1>\n<table>\n"
    );
    if path != b"/" {
        text.push_str("<tr><td><a href=\"../\">../</a><td>\n");
    }
    for Entry { name, len } in &entries {
        let slash = if len.is_none() { "/" } else { "" };
        let (link, shown) = (encoded(name), escaped(name));
        let size = len.map(|len| len.to_string()).unwrap_or_default();
        // `./` keeps a name with a colon from being taken for a scheme.
        writeln!(text, "<tr><td><a href=\"./{link}{slash}\">{shown}{slash}</a><td>{size}")
            .expect("a String takes every letter");
    }
    text.push_str("</table>\n");
    text.into_bytes()
}

/// Escapes text for elements and quoted attributes; bytes that are not UTF-8 become U+FFFD.
fn escaped(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(letter),
        }
    }
    out
}

/// Everything but the unreserved characters and the slash (RFC 3986 section 2).
const RESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A path as the target of a request.
pub fn encoded(path: &[u8]) -> impl Display + '_ {
    percent_encode(path, RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_sorted() {
        let file = |name: &[u8]| Entry { name: name.to_vec(), len: Some(5) };
        let folder = Entry { name: b"z".to_vec(), len: None };
        let entries = vec![file(b"b c\xff"), file(b".hidden"), file(b"<a>&\"'%"), folder];
        let text = String::from_utf8(page(b"/x/", entries)).expect("text");
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("<tr>")).collect();
        assert_eq!(
            rows,
            [
                "<tr><td><a href=\"../\">../</a><td>",
                "<tr><td><a href=\"./z/\">z/</a><td>",
                "<tr><td><a href=\"./%3Ca%3E%26%22%27%25\">&lt;a&gt;&amp;&quot;&#39;%</a><td>5",
                "<tr><td><a href=\"./b%20c%FF\">b c\u{fffd}</a><td>5",
            ]
        );
        assert!(!String::from_utf8(page(b"/", Vec::new())).expect("text").contains("../"));
    }
}
