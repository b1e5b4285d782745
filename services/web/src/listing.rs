//! The page that lists a folder. Names may contain anything, so each is escaped twice: as a URL and
//! as HTML.

use std::fmt::{Display, Write};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::platform::Entry;
use super::record::{put_json, put_stamp};

/// Folders first; names in byte order, without those that begin with a dot.
fn in_order(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.retain(|entry| !entry.name.starts_with(b"."));
    entries.sort_by(|a, b| (a.len.is_some(), &a.name).cmp(&(b.len.is_some(), &b.name)));
    entries
}

/// The entries as a list of objects.
pub fn json(entries: Vec<Entry>) -> Vec<u8> {
    let mut out = b"[".to_vec();
    for (at, Entry { name, len, modified_ns }) in in_order(entries).iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"\n{\"name\":\"" } else { b",\n{\"name\":\"" });
        put_json(&String::from_utf8_lossy(name), &mut out);
        let kind = if len.is_some() { "file" } else { "folder" };
        let size = len.map_or("null".to_owned(), |len| len.to_string());
        out.extend_from_slice(format!("\",\"kind\":\"{kind}\",\"size\":{size}").as_bytes());
        out.extend_from_slice(b",\"modified\":\"");
        put_stamp(modified_ns / 1_000_000_000, b'T', &mut out);
        out.extend_from_slice(b"Z\"}");
    }
    out.extend_from_slice(b"\n]\n");
    out
}

/// The page of the folder at `path`, which begins and ends with `/`.
pub fn page(path: &[u8], entries: Vec<Entry>) -> Vec<u8> {
    let entries = in_order(entries);
    let title = escaped(path);
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <h1>{title}</h1>\n<table>\n"
    );
    if path != b"/" {
        text.push_str("<tr><td><a href=\"../\">../</a><td><td>\n");
    }
    for Entry { name, len, modified_ns } in &entries {
        let slash = if len.is_none() { "/" } else { "" };
        let (link, shown) = (encoded(name), escaped(name));
        let size = len.map(|len| len.to_string()).unwrap_or_default();
        let mut stamp = Vec::new();
        put_stamp(modified_ns / 1_000_000_000, b' ', &mut stamp);
        let stamp = String::from_utf8_lossy(&stamp);
        // `./` keeps a name with a colon from being taken for a scheme.
        writeln!(
            text,
            "<tr><td><a href=\"./{link}{slash}\">{shown}{slash}</a><td>{size}<td>{stamp}"
        )
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
        let file = |name: &[u8]| Entry {
            name: name.to_vec(),
            len: Some(5),
            modified_ns: 784_111_777_000_000_001,
        };
        let folder = Entry { name: b"z".to_vec(), len: None, modified_ns: 0 };
        let entries = vec![file(b"b c\xff"), file(b".hidden"), file(b"<a>&\"'%"), folder];
        let data = String::from_utf8(json(entries.clone())).expect("text");
        let object = |name: &str, kind: &str, size: &str, date: &str| {
            let start = format!("{{\"name\":\"{name}\",\"kind\":\"{kind}\",\"size\":{size}");
            format!("{start},\"modified\":\"{date}Z\"}}")
        };
        let objects = [
            object("z", "folder", "null", "1970-01-01T00:00:00"),
            object("<a>&\\\"'%", "file", "5", "1994-11-06T08:49:37"),
            object("b c\\ufffd", "file", "5", "1994-11-06T08:49:37"),
        ];
        assert_eq!(data, format!("[\n{}\n]\n", objects.join(",\n")));
        let text = String::from_utf8(page(b"/x/", entries)).expect("text");
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("<tr>")).collect();
        assert_eq!(
            rows,
            [
                "<tr><td><a href=\"../\">../</a><td><td>",
                "<tr><td><a href=\"./z/\">z/</a><td><td>1970-01-01 00:00:00",
                "<tr><td><a href=\"./%3Ca%3E%26%22%27%25\">&lt;a&gt;&amp;&quot;&#39;%</a><td>5\
                 <td>1994-11-06 08:49:37",
                "<tr><td><a href=\"./b%20c%FF\">b c\u{fffd}</a><td>5<td>1994-11-06 08:49:37",
            ]
        );
        assert!(!String::from_utf8(page(b"/", Vec::new())).expect("text").contains("../"));
    }
}
