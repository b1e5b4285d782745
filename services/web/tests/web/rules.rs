//! The operator's rules: fields, lifetimes, origins, redirections, a fallback.

use super::talk::{body, options, reply, request};
use ::web::{FieldRule, LifetimeRule, Options, Origin, Redirect, Rules};
use layers::Trusted;

const FILES: &[(&str, &str)] = &[
    ("index.html", "<h1>page</h1>"),
    ("js/a.js", "code"),
    ("closed.txt", "forbidden"),
    (".secret", "no"),
];

fn read<T: std::str::FromStr<Err = String>>(texts: &[&str]) -> Vec<T> {
    texts.iter().map(|text| text.parse().expect("a rule")).collect()
}

fn rules() -> Rules {
    let origins = ["https://a.example", "http://localhost:3000"];
    let moved = [
        "/old=/new?x=1",
        "308 /docs/*=https://b.example/d/*",
        "/gone/*=/",
        "307 /up/*=/*",
        "302 /js/=/js/a.js",
    ];
    Rules {
        fields: read(&["X-Frame-Options: DENY", "/js X-Js: 1", "/js/b X-B: no"]),
        lifetimes: read(&["/js/b=no-store", "*.js=max-age=9, immutable", "*.html=no-cache"]),
        origins: read(&origins),
        redirects: read(&moved),
        fallback: Some("/index.html".to_owned()),
    }
}

/// The reply has the status, each of `has` and none of `lacks`; refusals of heads end the
/// connection.
#[track_caller]
fn check(rules: &Rules, (method, target, fields): (&str, &str, &str), status: &str, has: &[&str]) {
    let options = Options { demo: false, rules: rules.clone(), ..options() };
    let (reply, _) = reply(FILES, &options, request(method, target, fields).as_bytes());
    assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{method} {target}: {reply}");
    for part in has {
        let (wanted, part) = part.strip_prefix('!').map_or((true, *part), |part| (false, part));
        assert!(reply.contains(part) == wanted, "{method} {target}: {part:?}, {wanted}: {reply}");
    }
}

#[track_caller]
fn get(target: &str, fields: &str, status: &str, has: &[&str]) {
    check(&rules(), ("GET", target, fields), status, has);
}

#[test]
fn fields_by_prefix_and_lifetimes_by_name() {
    let frame = "\r\nX-Frame-Options: DENY\r\n";
    let js = "\r\nCache-Control: max-age=9, immutable\r\n";
    get("/js/a.js", "", "200", &[frame, "\r\nX-Js: 1\r\n", js, "!X-B", "\r\nVary: Origin\r\n"]);
    get("/js/a.js", "If-None-Match: *\r\n", "304", &[frame, js]);
    get("/js/a.js", "If-Match: \"x\"\r\n", "412", &[frame, "!Cache-Control"]);
    get("/", "", "200", &[frame, "!X-Js", "\r\nCache-Control: no-cache\r\n"]);
    get("/closed.txt", "", "403", &[frame, "!Cache-Control"]);
    get("/%", "", "400", &[frame]);
    get("/js", "Host: b\r\n", "400", &[frame, "!X-Js"]);
    let none = Rules::default();
    check(
        &none,
        ("GET", "/js/a.js", "Origin: https://a.example\r\n"),
        "200",
        &["!Vary: Or", "!Access"],
    );
}

#[test]
fn origins_are_allowed_and_preflights_answered() {
    let origin = "Access-Control-Allow-Origin: ";
    let own = format!("{origin}http://localhost:3000\r\n");
    let exposed = "Access-Control-Expose-Headers: *, Accept-Ranges, ";
    let vary = "\r\nVary: Origin\r\n";
    let from = "Origin: http://localhost:3000\r\n";
    get("/js/a.js", from, "200", &[&own, exposed, vary, "!Access-Control-Allow-M"]);
    get("/js/a.js", "Origin: http://localhost\r\n", "200", &["!Access-Control", vary]);
    get("/closed.txt", from, "403", &[&own]);
    let asks = format!("{from}Access-Control-Request-Method: GET\r\n");
    let methods = "Access-Control-Allow-Methods: GET, HEAD, OPTIONS\r\n";
    let headers = "Access-Control-Allow-Headers: *\r\nAccess-Control-Max-Age: 7200\r\n";
    let preflight = ("OPTIONS", "/old", asks.as_str());
    check(&rules(), preflight, "204", &[&own, methods, headers, vary, "!Expose"]);
    check(&rules(), ("OPTIONS", "/old", from), "204", &["!Access-Control-Allow-M", &own]);
    // `*` would cover neither `Authorization` nor what is asked with credentials.
    let wanted = "Access-Control-Request-Headers: authorization,x-own\r\n";
    let listed = "Access-Control-Allow-Headers: authorization,x-own\r\n";
    check(&rules(), ("OPTIONS", "/", &format!("{asks}{wanted}")), "204", &[&own, listed]);
    let odd = "Access-Control-Request-Headers: a;b\r\n";
    check(&rules(), ("OPTIONS", "/", &format!("{asks}{odd}")), "204", &[headers]);
    let foreign = asks.replace("localhost", "elsewhere");
    check(&rules(), ("OPTIONS", "/", &foreign), "204", &["!Access-Control", vary]);
    let any = Rules { origins: read(&["*"]), ..Rules::default() };
    let star = format!("{origin}*\r\n");
    check(&any, ("GET", "/js/a.js", ""), "200", &[&star, "!Vary: Origin"]);
    check(&any, ("OPTIONS", "/", &asks), "204", &[&star, methods]);
}

#[test]
fn paths_move() {
    let to = |place: &str| format!("\r\nLocation: {place}\r\n");
    get("/old", "", "301", &[&to("/new?x=1")]);
    get("/old?y=2", "", "301", &[&to("/new?x=1")]);
    get("/old/x", "", "200", &[]);
    get("/docs/a%20b/%c3%bc?q=1", "", "308", &[&to("https://b.example/d/a%20b/%C3%BC?q=1")]);
    get("/gone/a/b", "", "301", &[&to("/")]);
    get("/up//evil.example/", "", "307", &[&to("/evil.example/")]);
    get("/up/%0d%0aX:y", "", "307", &[&to("/%0D%0AX%3Ay")]);
    get("/js/", "", "302", &[&to("/js/a.js")]);
    let post = ("POST", "/docs/x", "Content-Length: 0\r\n");
    check(&rules(), post, "308", &[&to("https://b.example/d/x")]);
}

#[test]
fn an_absent_file_has_a_stand_in() {
    let options = Options { demo: false, rules: rules(), ..options() };
    for target in ["/app/route", "/app/", "/js/a.js/"] {
        let (reply, _) = reply(FILES, &options, request("GET", target, "").as_bytes());
        assert_eq!(body(&reply), "<h1>page</h1>", "{target}: {reply}");
        assert!(reply.contains("Cache-Control: no-cache\r\n"), "{reply}");
    }
    get("/.secret", "", "404", &[]);
    get("/app/.git/config", "", "404", &[]);
    let lost = Rules { fallback: Some("none".to_owned()), ..Rules::default() };
    check(&lost, ("GET", "/app", ""), "404", &[]);
}

/// The reply with gzip or brotli is as long as it says, shorter than the file, and has a tag of its
/// own; ranges are those of the file, and small files and pictures stay as they are.
#[test]
fn text_is_compressed_on_the_fly() {
    let text = "line of text\n".repeat(20_000);
    let files = [("a.txt", text.as_str()), ("a.png", &text), ("short.txt", "short")];
    let options = Options { demo: false, compress_max: 1 << 20, ..options() };
    let get = |target: &str, fields: &str| {
        let (reply, _) = reply(&files, &options, request("GET", target, fields).as_bytes());
        let len = reply.split("Content-Length: ").nth(1).and_then(|it| it.lines().next());
        (reply.clone(), len.map_or(0, |len| len.parse().expect("digits")))
    };
    let any = "Accept-Encoding: gzip, br\r\n";
    let gzip = "Accept-Encoding: br;q=0.2, gzip;q=0.5, identity;q=0.3\r\n";
    for (accept, coding) in [(any, "br"), (gzip, "gzip"), ("Accept-Encoding: *\r\n", "br")] {
        let (reply, len) = get("/a.txt", accept);
        assert!(reply.contains(&format!("\r\nContent-Encoding: {coding}\r\n")), "{reply:.300}");
        assert!(reply.contains("\r\nVary: Accept-Encoding\r\n") && len < 5_000, "{len} bytes");
        let tag = format!("-{coding}\"");
        let etag = reply.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("a tag");
        assert!(etag.ends_with(&tag), "{etag}");
        let known = format!("{accept}If-None-Match: {etag}\r\n");
        assert!(get("/a.txt", &known).0.starts_with("HTTP/1.1 304 "));
        let part = format!("{accept}Range: bytes=0-3\r\n");
        let (reply, _) = get("/a.txt", &part);
        assert!(reply.starts_with("HTTP/1.1 206 ") && body(&reply) == "line", "{reply:.300}");
        let resumed = format!("{part}If-Range: {etag}\r\n");
        assert_eq!(get("/a.txt", &resumed).1, text.len(), "another form cannot be resumed");
    }
    for (target, accept) in [
        ("/a.txt", ""),
        ("/a.txt", "Accept-Encoding: br;q=0, identity\r\n"),
        ("/a.txt", "Accept-Encoding: gzip;q=0.5, identity\r\n"),
        ("/a.txt", "Accept-Encoding: br;q=0.3, gzip;q=0.5, identity;q=0.7\r\n"),
        ("/a.png", any),
        ("/short.txt", any),
    ] {
        let (reply, _) = get(target, accept);
        assert!(!reply.contains("Content-Encoding"), "{target}: {reply:.300}");
    }
}

#[test]
fn rules_that_are_none() {
    fn refused<T: std::str::FromStr<Err = String>>(texts: &[&str]) {
        for text in texts {
            let why = text.parse::<T>().err().unwrap_or_else(|| panic!("{text} is accepted"));
            assert!(why.starts_with("expected "), "{why}");
        }
    }
    refused::<FieldRule>(&["", "A", "A b: c", ": c", "A:", "A: \u{e9}", "A: b\r\nC: d", "/x A"]);
    refused::<FieldRule>(&["Content-Length: 1", "transfer-encoding: x", "/x Date: y"]);
    refused::<LifetimeRule>(&["", "*.js", "js=1", "*=1", "*.js=", "*.js=\n"]);
    refused::<Origin>(&["", "example.org", "https://a/", "https://", "https://A.org", "null"]);
    refused::<Redirect>(&["", "/a", "a=/b", "/a=b", "/a=/b/*", "/a*=/b", "303 /a=/b", "/a=/ b"]);
    refused::<Trusted>(&["", "localhost", "10.0.0.0/33", "::/129", "1.2.3.4/-1", "/8"]);
}
