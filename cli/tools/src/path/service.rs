//! The editor's web service: the page, and searches on the grids that it sends.
//!
//! ```text
//!   GET  /         the page
//!   POST /search   a grid and a question in JSON -> answers with all steps of the searches
//! ```
//!
//! Helper threads answer, so a long search delays no other connection. A request whose body is
//! longer than that of the largest grid is refused before it is read.

use std::time::Duration;

use roundhouse::{Http, HttpRequest, HttpResponse, http_offload};

use super::page::{self, Query};
use crate::page::{admits, give};

/// How long a client may take to send a request, or be idle between two requests.
const PATIENCE: Duration = Duration::from_secs(15);
/// The largest grid, as rows of characters, and the JSON around it.
const BODY_MAX: usize = page::SIDE_MAX * (page::SIDE_MAX + 4) + 4096;

/// A service with this page.
pub fn editor(page: Vec<u8>) -> Http<()> {
    let mut service = http_offload(move |_: &(), request, response| {
        if admits(&request, response) {
            answer(&page, &request, response);
        }
    });
    (service.patience, service.body_max) = (PATIENCE, BODY_MAX);
    service
}

fn answer(page: &[u8], request: &HttpRequest<'_>, response: &mut HttpResponse) {
    match (request.method, request.path) {
        ("GET", "/") => give(page, response),
        ("POST", "/search") => match Query::read(request.body).and_then(|query| query.answer()) {
            Ok(answer) => response.json(answer.to_string()),
            Err(error) => {
                let reason = serde_json::json!({ "error": format!("{error:#}") });
                response.status(400).json(reason.to_string());
            }
        },
        (_, "/" | "/search") => {
            response.status(405).field("Allow", "GET, HEAD, POST");
            response.text("expected GET / or POST /search\n");
        }
        _ => response.status(404).text("expected GET / or POST /search\n"),
    }
}
