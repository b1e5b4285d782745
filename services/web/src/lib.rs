//! A web server: HTTP/1.1 for files and for demonstration routes.
//!
//! ```text
//!   service     bytes -> requests -> replies; the only file that knows the seam
//!   dispatch    a request's head -> the action to take
//!   auth        paths that need a name and a password
//!   body        the body of a request: counted, kept or discarded, within its minimum rate
//!   demo        the demonstration routes
//!   ending      the end of a request and its line in the access log
//!   file        which file, under which conditions, which of its bytes
//!   compress    files compressed on the fly, in a bounded cache
//!   deliver     sends a file piece by piece as the output has room
//!   respond     the head of a reply with its date, and our own short bodies
//!   rules       what the operator adds: fields, redirections, a fallback
//!   memo        the last request and its reply, for clients that repeat it
//!   platform    what the launcher provides: files beneath a root, CPU time, sleep
//!   journal     access-log lines in memory that all workers share
//!   record      a request as an access-log line
//!   mime        media types by file name extension
//! ```
//!
//! [`wire::http`] parses requests strictly: an ambiguous request is answered once, with a status of
//! 400 or more, and nothing after it is read. Files are served without blocking: the launcher
//! offers lookups and reads that answer from the kernel's memory or not at all, and only what those
//! cannot answer becomes a job.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod auth;
mod body;
mod compress;
mod deliver;
mod demo;
mod dispatch;
mod ending;
mod file;
mod journal;
mod listing;
mod memo;
mod memory_files;
mod mime;
mod options;
mod platform;
mod record;
mod respond;
mod rules;
mod service;

pub use auth::{BadUsers, Guard};
pub use dispatch::MS_MAX;
pub use journal::Journal;
pub use memory_files::{CHANGED_NS, MemoryFiles};
pub use mime::{MediaType, media_type};
pub use options::{ErrorPage, Options};
pub use platform::{Entry, LookupError, Meta, Platform, Resource};
pub use record::Format;
pub use rules::{FIELDS_MAX, FieldRule, LifetimeRule, Origin, Redirect, Rules};
pub use service::{Job, Outcome, Session, Web};
