//! The web server among strangers and in bad weather: clients, generators and proxies that we have
//! not written, workers that are killed, binaries that are replaced under load, and clients that
//! are slow on purpose.
//!
//! Where a program is missing its test says so. `ROUNDHOUSE_SOAK=1` makes the storms as long as
//! `docs/web.md` says.

mod clients;
mod generators;
mod proxies;
mod server;
mod site;
mod slow;
mod storm;
mod takeover;
mod traffic;
