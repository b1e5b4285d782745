//! The web server with foreign clients, generators and proxies, and clients that are slow on
//! purpose.
//!
//! A test whose program is missing reports that. `ROUNDHOUSE_SOAK=1` makes the storms as long as
//! `docs/web.md` says.

mod clients;
mod generators;
mod http2;
mod https;
mod proxies;
mod reach;
mod server;
mod site;
mod slow;
