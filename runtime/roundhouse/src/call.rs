//! The request of a route, and the typed values that it carries.

use std::fmt::Display;
use std::str::FromStr;

use matchit::Params;
use serde::Deserialize;

use crate::http::HttpRequest;
use crate::reply::HttpError;

/// A request that a route answers, with the parts of its path.
#[derive(Debug, derive_more::Deref)]
pub struct Call<'a> {
    /// The request; its fields are those of the call, too.
    #[deref]
    pub request: HttpRequest<'a>,
    parts: &'a Parts<'a>,
}

/// The parts of a path that differ, if it can have some.
pub(crate) type Parts<'a> = Option<Params<'a, 'a>>;

impl<'a> Call<'a> {
    pub(crate) fn new(request: HttpRequest<'a>, parts: &'a Parts<'a>) -> Call<'a> {
        Call { request, parts }
    }

    /// The part of the path that the route calls `{name}`.
    ///
    /// # Errors
    /// 400 if it is no `V`.
    ///
    /// # Panics
    /// If the route has no such part.
    pub fn param<V: FromStr>(&self, name: &str) -> Result<V, HttpError> {
        let text = self.parts.as_ref().and_then(|parts| parts.get(name));
        let text = text.unwrap_or_else(|| panic!("expected a route with `{{{name}}}`"));
        text.parse().map_err(|_| {
            let kind = std::any::type_name::<V>();
            HttpError::new(400, format!("expected {name} as {kind}, found `{text}`"))
        })
    }

    /// The values of the query, such as those of `?page=2&size=10`, by name.
    ///
    /// # Errors
    /// 400 if they are no `V`.
    pub fn query<V: Deserialize<'a>>(&self) -> Result<V, HttpError> {
        let read = serde_urlencoded::from_str(self.request.query);
        read.map_err(|why| HttpError::new(400, format!("expected another query: {why}")))
    }

    /// The values of a form of a page, by name.
    ///
    /// # Errors
    /// 415 for a body of another type, 422 if the values are no `V`.
    pub fn form<V: Deserialize<'a>>(&self) -> Result<V, HttpError> {
        self.expect("application/x-www-form-urlencoded")?;
        let read = serde_urlencoded::from_bytes(self.body);
        read.map_err(|why| HttpError::new(422, format!("expected another form: {why}")))
    }

    /// The body as JSON. A `V` that borrows, such as one with a `&str`, copies nothing.
    ///
    /// # Errors
    /// 415 for a body of another type, 400 if it is not JSON, 422 if it is no `V`.
    pub fn json<V: Deserialize<'a>>(&self) -> Result<V, HttpError> {
        self.expect("application/json")?;
        // One check of the whole text costs less than one of each word (RFC 8259 section 8.1).
        let text = str::from_utf8(self.body).map_err(|why| other_body(400, &why))?;
        let read = serde_json::from_str(text);
        read.map_err(|why| other_body(if why.is_data() { 422 } else { 400 }, &why))
    }

    /// Refuses a body of another media type; one without a type is taken.
    fn expect(&self, kind: &str) -> Result<(), HttpError> {
        let Some(sent) = self.request.head.kind else { return Ok(()) };
        let essence = || sent.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        if sent == kind.as_bytes() || essence().eq_ignore_ascii_case(kind.as_bytes()) {
            return Ok(());
        }
        Err(HttpError::new(415, format!("expected a body of type {kind}")))
    }
}

#[cold]
fn other_body(status: u16, why: &dyn Display) -> HttpError {
    HttpError::new(status, format!("expected another body: {why}"))
}
