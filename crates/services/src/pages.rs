//! A few fixed pages and one document that changes: enough for a browser to watch a run.
//!
//! ```text
//!   bulletin   the shared state: the latest edition of the document, readable without a lock
//!   service    HTTP/1.1 requests -> pages, the document, and a stream of its editions
//! ```
//!
//! The launcher publishes the whole document, which is served in two ways: at [`STATE`] as it is
//! now, and at [`EVENTS`] as server-sent events (HTML standard, section 9.2). Each event is the
//! whole document, so a listener that reconnects misses nothing, and a slow one skips to the latest
//! edition.

mod bulletin;
mod service;

pub use bulletin::{Bulletin, EDITION_MAX, TooLong};
pub use service::{EVENTS, Page, Pages, STATE};
