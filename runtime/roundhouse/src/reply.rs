//! The values that the function of a route may return: the body, status or error of its reply.

use std::error::Error;

use serde::Serialize;

use crate::call::Call;
use crate::http::HttpResponse;

/// A value that is the reply of a route ([`crate::Routes`]).
///
/// | value | reply |
/// |---|---|
/// | `()` | 200, or what the function has put into its own response |
/// | `u16` | that status |
/// | text | a body of plain text |
/// | `Vec<u8>` | a body of `application/octet-stream` |
/// | [`Json`] | a body of JSON |
/// | [`Html`] | a page |
/// | `(u16, value)` | that status with the value |
/// | `Option` | 404 without a value |
/// | `Result<value, HttpError>` | the value, or the status and words of the error |
pub trait IntoReply {
    /// Fills `response`.
    fn put(self, call: &Call<'_>, response: &mut HttpResponse);
}

/// A body of JSON from any value that `serde` writes.
#[derive(Clone, Copy, Debug)]
pub struct Json<V>(pub V);

/// A page of HTML in UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Html<V>(pub V);

/// An error as a reply: a status, and words for the client.
///
/// Any other error becomes one by `?`: it is 500 for the client, who learns no more, and its words
/// and causes are a line on stderr.
#[derive(Debug)]
pub struct HttpError {
    status: u16,
    words: String,
    /// The words for the log.
    cause: Option<String>,
}

impl HttpError {
    /// An error with words that say what was expected.
    pub fn new(status: u16, words: impl Into<String>) -> HttpError {
        HttpError { status, words: words.into(), cause: None }
    }
}

impl<E: Error> From<E> for HttpError {
    fn from(error: E) -> HttpError {
        let mut cause = error.to_string();
        let mut source = error.source();
        while let Some(deeper) = source {
            cause += &format!(": {deeper}");
            source = deeper.source();
        }
        HttpError { status: 500, words: "internal error".to_owned(), cause: Some(cause) }
    }
}

impl IntoReply for HttpError {
    #[cold]
    fn put(self, call: &Call<'_>, response: &mut HttpResponse) {
        if let Some(cause) = self.cause {
            engines::eprintln!("{} {}: {cause}: {}", call.method, call.path, self.status);
        }
        response.clear();
        response.status(self.status).text(self.words + "\n");
    }
}

impl IntoReply for () {
    fn put(self, _: &Call<'_>, _: &mut HttpResponse) {}
}

impl IntoReply for u16 {
    fn put(self, _: &Call<'_>, response: &mut HttpResponse) {
        response.status(self);
    }
}

impl IntoReply for &str {
    fn put(self, _: &Call<'_>, response: &mut HttpResponse) {
        response.text(self);
    }
}

impl IntoReply for String {
    fn put(self, call: &Call<'_>, response: &mut HttpResponse) {
        self.as_str().put(call, response);
    }
}

impl IntoReply for Vec<u8> {
    fn put(self, _: &Call<'_>, response: &mut HttpResponse) {
        response.content("application/octet-stream").put(self);
    }
}

impl<V: AsRef<str>> IntoReply for Html<V> {
    fn put(self, _: &Call<'_>, response: &mut HttpResponse) {
        response.content("text/html; charset=utf-8").put(self.0.as_ref());
    }
}

impl<V: Serialize> IntoReply for Json<V> {
    fn put(self, call: &Call<'_>, response: &mut HttpResponse) {
        response.content("application/json");
        if let Err(error) = serde_json::to_writer(&mut response.body, &self.0) {
            HttpError::from(error).put(call, response);
        }
    }
}

impl<R: IntoReply> IntoReply for (u16, R) {
    fn put(self, call: &Call<'_>, response: &mut HttpResponse) {
        response.status(self.0);
        self.1.put(call, response);
    }
}

impl<R: IntoReply> IntoReply for Option<R> {
    fn put(self, call: &Call<'_>, response: &mut HttpResponse) {
        match self {
            Some(value) => value.put(call, response),
            None => HttpError::new(404, "expected something that exists").put(call, response),
        }
    }
}

impl<R: IntoReply> IntoReply for Result<R, HttpError> {
    fn put(self, call: &Call<'_>, response: &mut HttpResponse) {
        match self {
            Ok(value) => value.put(call, response),
            Err(error) => error.put(call, response),
        }
    }
}
