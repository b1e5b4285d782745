//! A web server: HTTP/1.1 over files and over the routes of a demonstration.
//!
//! ```text
//!   service     bytes -> requests -> orders -> bytes; the only file that knows the seam
//!   order       a request's head -> what is to be done
//!   body        the body of a request, counted, kept or thrown away, within its rate
//!   demo        the routes of the demonstration
//!   file        which file, under which conditions, which of its bytes
//!   deliver     a file piece by piece, as there is room
//!   memo        the last request and its answer, for who asks again
//!   platform   what the launcher lends: files beneath a root, time that passes
//!   journal     records of requests in memory that all workers see
//!   record      a request as a line of the log
//!   fuzz        conversations whole and in pieces, which must be answered alike
//! ```
//!
//! Requests are read by [`wire::http`], as strictly as it is: what could be understood in two ways
//! is answered once, by a status from 400 on, and nothing behind it is read. The surprising thing
//! is how a file is served without a wait: the launcher promises quick looks that answer from the
//! kernel's memory or not at all, and only what they cannot answer leaves as a job.

mod body;
mod deliver;
mod demo;
mod dispatch;
mod file;
mod fuzz;
mod journal;
mod listing;
mod memo;
mod mime;
mod options;
mod platform;
mod record;
mod respond;
mod service;

pub use dispatch::MS_MAX;
pub use fuzz::fuzz;
pub use journal::Journal;
pub use mime::media_type;
pub use options::{ErrorPage, Options};
pub use platform::{Entry, LookupError, Meta, NoFiles, Platform, Resource};
pub use record::Format;
pub use service::{Job, Outcome, Session, Web};
