//! The parts of `serve` around services and engines: files, logs, an operator's keys, and the
//! configuration of another server.

pub mod access_log;
pub mod apache;
pub mod console;
pub mod site;
