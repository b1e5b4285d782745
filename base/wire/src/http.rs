//! HTTP/1.1 messages, as strictly as RFC 9112 allows: a message whose end is ambiguous is refused,
//! and nothing after it is read.
//!
//! ```text
//!   head      bytes -> a request head (by httparse), its framing and its wishes
//!   target    the request target -> path and query
//!   chunked   a chunked body, piece by piece
//!   choice    client preferences: content codings, entity tags
//!   range     the bytes of a body that a client requests
//!   date      HTTP dates
//!   host      whether a Host field can be trusted by a local server
//!   reply     status line, fields and length of a response
//! ```
//!
//! The parser also refuses a bare LF, white space before a colon, a folded line, a second
//! Content-Length even if equal, and Content-Length next to Transfer-Encoding. RFC 9112 permits
//! lenience for most of these. Each has been one half of a request smuggling attack whose other
//! half was a stricter reader before or after it. The tests compare the parser with h11, an
//! independent one (tests/h11.rs).

pub mod choice;
pub mod chunked;
pub mod date;
mod fuzz;
pub mod head;
pub mod host;
pub mod range;
pub mod reply;
pub mod target;

pub use chunked::{Chunked, is_token_byte};
pub(crate) use fuzz::fuzz;
pub use head::{Body, Head, Limits, Version, is_host, next};
pub use reply::{Reply, Status};
pub use target::{BadTarget, Target};

/// Why a request is malformed. The connection must be closed, because the bytes that follow have no
/// certain meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display, derive_more::Error)]
#[display("{}", self.why())]
pub enum Bad {
    /// The head is longer than [`Limits::head_max`], or has too many fields.
    HeadTooLong,
    /// The request line is longer than [`Limits::line_max`].
    LineTooLong,
    /// A line of the head ends with a bare LF, or contains a bare CR.
    Newline,
    /// The request line or a field violates the grammar.
    Syntax,
    /// A major version other than 1.
    Version,
    /// No Host, several, or an invalid one.
    Host,
    /// The end of the body is ambiguous.
    Framing,
    /// Transfer codings before chunked.
    Coding,
    /// An expectation other than `100-continue`.
    Expectation,
}

impl Bad {
    /// The status of the answer.
    pub fn status(self) -> Status {
        match self {
            Bad::HeadTooLong => Status::HEAD_TOO_LONG,
            Bad::LineTooLong => Status::TARGET_TOO_LONG,
            Bad::Version => Status::VERSION,
            Bad::Coding => Status::NOT_IMPLEMENTED,
            Bad::Expectation => Status::EXPECTATION,
            Bad::Newline | Bad::Syntax | Bad::Host | Bad::Framing => Status::BAD_REQUEST,
        }
    }

    /// The expectation and the finding, for the body of the answer.
    pub fn why(self) -> &'static str {
        match self {
            Bad::HeadTooLong => "expected a shorter head with fewer fields",
            Bad::LineTooLong => "expected a shorter request target",
            Bad::Newline => "expected every line to end with CR LF, found one of them alone",
            Bad::Syntax => {
                "expected a request line and fields as in RFC 9112, found another syntax"
            }
            Bad::Version => "expected HTTP/1.0 or HTTP/1.1, found another major version",
            Bad::Host => "expected exactly one Host field that names a host",
            Bad::Framing => {
                "expected one way to find the end of the body: one Content-Length in digits, or a \
                 Transfer-Encoding that ends with chunked, not both"
            }
            Bad::Coding => "expected the transfer coding chunked alone, found others before it",
            Bad::Expectation => "expected the expectation 100-continue, found another",
        }
    }
}
