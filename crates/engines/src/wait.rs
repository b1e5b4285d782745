//! How a worker waits for bytes and moves them. Each file has `serve`: accept, wait, move bytes,
//! ask [`seam::Conn`] what it wants, close.

pub mod blocking;
pub mod epoll;
pub mod parked;
pub mod poll;
pub mod port;
pub mod select;
pub mod uring;
