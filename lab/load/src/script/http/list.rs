//! Lists of requests from files: URLs, and what a browser recorded.
//!
//! `--urls` and `--har` are read here once, before the run. A HAR file is what a browser exports:
//! its requests keep method, path, body and fields, except those that belong to one connection and
//! those that the generator makes itself. Requests to another origin are counted and left out,
//! because a load test must not reach servers that the user did not name. Cookies are left out
//! unless they are asked for, because a recording holds live sessions.

use super::options::{REQUESTS_MAX, WebRequest};
use crate::parse::{Target, Usage};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Fields that belong to one connection, or that are made for each request (RFC 9110 section
/// 7.6.1).
const OWN_FIELDS: [&str; 10] = [
    "connection",
    "content-length",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The requests of a text with a line `[METHOD] URL|PATH [WEIGHT]` for each. Empty lines and those
/// that begin with `#` are none.
///
/// # Errors
/// The number of the first line that is none, or whose URL has another origin than the target.
pub fn urls(text: &str, target: &Target) -> Result<Vec<WebRequest>, Usage> {
    let lines = text.lines().map(str::trim).zip(1..);
    let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let request = |(line, number): (&str, usize)| {
        url(line, target).map_err(|Usage(why)| Usage(format!("line {number}: {why}")))
    };
    few(lines.map(request).collect::<Result<_, _>>()?)
}

fn url(line: &str, target: &Target) -> Result<WebRequest, Usage> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_place = |word: &str| word.starts_with('/') || word.contains("://");
    let (method, place, weight) = match words[..] {
        [place] => (None, place, "1"),
        [place, weight] if is_place(place) => (None, place, weight),
        [method, place] => (Some(method.to_owned()), place, "1"),
        [method, place, weight] => (Some(method.to_owned()), place, weight),
        _ => return Err(Usage(format!("expected [METHOD] URL [WEIGHT], found `{line}`"))),
    };
    let path = target.path_of(place).ok_or_else(|| {
        Usage(format!("expected a path, or a URL with the origin of {target}, found `{place}`"))
    })?;
    let bad = || Usage(format!("expected a weight from 1 to 1000000, found `{weight}`"));
    let weight = weight.parse().ok().filter(|n| (1..=1_000_000).contains(n)).ok_or_else(bad)?;
    // A body for all is for those that may have one.
    let is_bare = method.as_deref().is_some_and(|method| ["GET", "HEAD"].contains(&method));
    let body = is_bare.then(Vec::new);
    let request = WebRequest { method, body, ..WebRequest::from((path, weight)) };
    request.check().map(|()| request)
}

/// The part of a HAR file that is read (W3C Web Performance, HTTP Archive 1.2).
#[derive(Deserialize)]
struct Archive {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    request: Recorded,
    #[serde(default)]
    response: RecordedReply,
}

#[derive(Default, Deserialize)]
struct RecordedReply {
    /// Another number than a status of HTTP stands for a reply that never came.
    #[serde(default)]
    status: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Field>,
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct PostData {
    text: Option<String>,
}

/// The requests to the target that a browser recorded in a HAR file, in their order, and the number
/// of entries of each other origin. Cookies are left out unless `cookies`.
///
/// # Errors
/// The bytes are no HAR file, an entry (by its number from 1) is no request, or none is left.
pub fn har(
    bytes: &[u8],
    target: &Target,
    cookies: bool,
) -> Result<(Vec<WebRequest>, BTreeMap<String, usize>), Usage> {
    let archive: Archive = serde_json::from_slice(bytes)
        .map_err(|why| Usage(format!("expected a HAR file of a browser: {why}")))?;
    let (mut requests, mut others) = (Vec::new(), BTreeMap::new());
    for (entry, number) in archive.log.entries.into_iter().zip(1..) {
        let Recorded { method, url, headers, post_data } = entry.request;
        let Some(path) = target.path_of(&url) else {
            let origin = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
            *others.entry(origin).or_default() += 1;
            continue;
        };
        let bad = |why: &str| Usage(format!("entry {number} ({method} {url}): {why}"));
        let is_kept = |field: &Field| {
            let name = field.name.to_ascii_lowercase();
            // The fields of HTTP/2 that begin with a colon are its request line.
            let is_own = name.starts_with(':') || OWN_FIELDS.contains(&name.as_str());
            !is_own && (cookies || name != "cookie")
        };
        let body = match post_data.map(|data| data.text) {
            Some(None) => return Err(bad("expected postData with its text, found none")),
            Some(text) => text.map(String::into_bytes),
            None => Some(Vec::new()),
        };
        let kept = headers.into_iter().filter(is_kept);
        let request = WebRequest {
            method: Some(method.clone()),
            headers: kept.map(|field| (field.name, field.value)).collect(),
            body,
            recorded: u16::try_from(entry.response.status).unwrap_or(0),
            ..WebRequest::from((path, 1))
        };
        request.check().map_err(|Usage(why)| bad(&why))?;
        requests.push(request);
    }
    Ok((few(requests)?, others))
}

fn few(requests: Vec<WebRequest>) -> Result<Vec<WebRequest>, Usage> {
    match requests.len() {
        1..=REQUESTS_MAX => Ok(requests),
        found => Err(Usage(format!(
            "expected 1 to {REQUESTS_MAX} requests to the target, found {found}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        "http://127.0.0.1:8".parse().expect("a target")
    }

    #[test]
    fn a_line_is_a_request() {
        let text = "# pages\n/a\n\nhttp://127.0.0.1:8/b?c 3\n POST /d\nHEAD /e 2\n";
        let found = urls(text, &target()).expect("four requests");
        let shown = |it: &WebRequest| {
            format!("{} {} {}", it.method.as_deref().unwrap_or("-"), it.path, it.weight)
        };
        let shown: Vec<String> = found.iter().map(shown).collect();
        assert_eq!(shown, ["- /a 1", "- /b?c 3", "POST /d 1", "HEAD /e 2"]);
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        fn check(text: &str, want: &str) {
            let Usage(found) = urls(text, &target()).expect_err(text);
            assert!(found.contains(want), "{text}: {found}");
        }
        check("/a\nhttp://127.0.0.1:9/b", "line 2: expected a path, or a URL with the origin");
        check("https://127.0.0.1:8/", "line 1: ");
        check("/a\n\n/a b c d", "line 3: expected [METHOD] URL [WEIGHT]");
        check("/a many", "expected a weight from 1");
        check("/a 0", "expected a weight from 1");
        check("G(T /a", "expected a method such as GET, found `G(T`");
        check("a.html", "line 1: expected a path");
        check("# none\n", "expected 1 to 65535 requests");
    }

    /// A HAR file with entries of method, URL, headers and post data, as JSON.
    fn archive(entries: &[(&str, &str, &str, &str)]) -> String {
        let entry = |(method, url, headers, more): &(&str, &str, &str, &str)| {
            format!(
                "{{\"request\":{{\"method\":\"{method}\",\"url\":\"{url}\",\"headers\":\
                 [{headers}]{more}}},\"response\":{{}}}}"
            )
        };
        let entries: Vec<String> = entries.iter().map(entry).collect();
        format!("{{\"log\":{{\"version\":\"1.2\",\"entries\":[{}]}}}}", entries.join(","))
    }

    #[test]
    fn a_recording_keeps_what_is_the_requests_own() {
        let fields = r#"{"name":":path","value":"/"},{"name":"Connection","value":"close"},
            {"name":"Cookie","value":"a=b"},{"name":"Accept","value":"*/*"}"#;
        let text = archive(&[
            ("GET", "http://127.0.0.1:8/a#b", fields, ""),
            ("GET", "https://cdn.org/x/y", "", ""),
            ("POST", "http://127.0.0.1:8/c", "", r#","postData":{"text":"x=y"}"#),
            ("GET", "https://cdn.org/z", "", ""),
        ]);
        let (found, others) = har(text.as_bytes(), &target(), false).expect("two requests");
        let accept = ("Accept".to_owned(), "*/*".to_owned());
        assert_eq!((found[0].path.as_str(), &found[0].headers), ("/a", &vec![accept.clone()]));
        assert_eq!(found[1].body.as_deref(), Some(&b"x=y"[..]));
        assert_eq!(others, BTreeMap::from([("https://cdn.org".to_owned(), 2)]));
        let (found, _) = har(text.as_bytes(), &target(), true).expect("two requests");
        assert_eq!(found[0].headers, [("Cookie".to_owned(), "a=b".to_owned()), accept]);
    }

    #[test]
    fn an_entry_that_is_no_request_is_named() {
        fn check(text: &str, want: &str) {
            let Usage(found) = har(text.as_bytes(), &target(), false).expect_err(text);
            assert!(found.contains(want), "{text}: {found}");
        }
        let one =
            |url: &str, more: &str| archive(&[("GET", "/a", "", ""), ("POST", url, "", more)]);
        check("{}", "expected a HAR file of a browser: missing field `log`");
        check(
            &one("http://127.0.0.1:8/a b", ""),
            "entry 2 (POST http://127.0.0.1:8/a b): expected",
        );
        check(&one("/c", r#","postData":{"params":[]}"#), "entry 2 (POST /c): expected postData");
        check(&archive(&[("GET", "http://b.org/", "", "")]), "expected 1 to 65535 requests");
    }
}
