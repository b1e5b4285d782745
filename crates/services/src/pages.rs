//! A few fixed pages and one document that changes: what a browser needs to watch something.
//!
//! ```text
//!   bulletin   the shared state: the latest edition of the document, readable without a lock
//!   service    HTTP/1.1 requests -> pages, the document, and a stream of its editions
//! ```
//!
//! The document is published whole by the launcher and served twice: at [`STATE`] as it is now, and
//! at [`EVENTS`] as a stream of server-sent events (HTML standard, section 9.2), one event for
//! each edition that the listener had time for. Because an event is never a difference, a
//! listener that was cut off misses nothing when it comes back, and a slow one skips to the
//! latest.

mod bulletin;
mod service;

pub use bulletin::{Bulletin, EDITION_MAX, TooLong};
pub use service::{EVENTS, Page, Pages, STATE};
