//! The request of a route, and the typed values that it carries.

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
    params: Params<'a, 'a>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(request: HttpRequest<'a>, params: Params<'a, 'a>) -> Call<'a> {
        Call { request, params }
    }

    /// The part of the path that the route calls `{name}`.
    ///
    /// # Errors
    /// 400 if it is no `V`.
    ///
    /// # Panics
    /// If the route has no such part.
    pub fn param<V: FromStr>(&self, name: &str) -> Result<V, HttpError> {
        let text = self.params.get(name);
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
        serde_json::from_slice(self.body).map_err(|why| {
            let status = if why.is_data() { 422 } else { 400 };
            HttpError::new(status, format!("expected another body: {why}"))
        })
    }

    /// Refuses a body of another media type; one without a type is taken.
    fn expect(&self, kind: &str) -> Result<(), HttpError> {
        let Some(sent) = self.field("Content-Type") else { return Ok(()) };
        let essence = || sent.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        if sent == kind.as_bytes() || essence().eq_ignore_ascii_case(kind.as_bytes()) {
            return Ok(());
        }
        Err(HttpError::new(415, format!("expected a body of type {kind}")))
    }
}
