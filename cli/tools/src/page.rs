//! The frame of the pages that this crate's servers give to browsers: one file that asks nobody but
//! its own server.

use roundhouse::{HttpRequest, HttpResponse};
use wire::http::host;

/// The page may use its own style and script, and send requests to its own server.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; \
    form-action 'none'";

/// A page with this title, body and script.
pub fn page(title: &str, body: &str, script: &str) -> String {
    include_str!("page.html")
        .replace("{{POLICY}}", POLICY)
        .replace("{{STYLE}}", include_str!("page.css"))
        .replace("{{TITLE}}", title)
        .replace("{{SCRIPT}}", script)
        .replace("{{BODY}}", body)
}

/// Begins the answer to a browser; false if it is a refusal: a name that is no address could be
/// rebound to this machine by the page of a stranger.
pub fn admits(request: &HttpRequest<'_>, response: &mut HttpResponse) -> bool {
    // Another program may serve this address next time.
    response.field("Cache-Control", "no-store").field("X-Content-Type-Options", "nosniff");
    let is_ours = request.field("Host").is_none_or(|host| host::address(host).is_some());
    if !is_ours {
        response.status(403).text("expected an address or localhost as Host\n");
    }
    is_ours
}

/// Answers with a page.
pub fn give(page: &[u8], response: &mut HttpResponse) {
    response.field("Content-Security-Policy", format!("{POLICY}; frame-ancestors 'none'"));
    response.field("Referrer-Policy", "no-referrer");
    response.content("text/html; charset=utf-8").put(page);
}
