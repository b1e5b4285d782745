//! The stock service from outside: bytes in, bytes out, through the seam's own `Conn`.

mod client;
mod errors;
mod golden;
mod indexes;
mod model;
mod report;
mod snapshot;
mod storm;
mod transcript;
