//! The frame of the pages that this crate's servers give to browsers: one file that asks nobody but
//! its own server.

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
