//! The stock service from outside: bytes in, bytes out, through the seam's own `Conn`.

mod books;
mod desk;
mod errors;
mod golden;
mod report;
mod snapshot;
mod splits;
mod storm;
