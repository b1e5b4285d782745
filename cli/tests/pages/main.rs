//! Pages in a real Chromium: the report and the exhibit from their files, others from
//! their servers. The parts that need no browser are also tested without one.

mod browser;
mod demo;
mod path;
mod report;
#[path = "../../../lab/pages/tests/sample/mod.rs"]
mod sample;
mod web;
mod websocket;

use testkit::Folder;

/// Writes a file and returns its address.
fn page(folder: &Folder, name: &str, html: &str) -> String {
    format!("file://{}", folder.file(name, html).display())
}
