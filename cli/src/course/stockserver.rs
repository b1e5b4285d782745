//! `stockserver PORT`: `serve stock` with the habits of the course's server.
//!
//! It serves the `stock.txt` of the current directory on every address (the course put client and
//! server on two machines), answers in blocks of 8192 bytes, and logs connections, requests and the
//! elapsed time to stderr. It takes every flag of `serve stock`.

use std::process::ExitCode;

use anyhow::Result;

use crate::serve::stock;

/// The arguments of `stockserver`.
#[derive(clap::Parser)]
#[command(
    name = "stockserver",
    version,
    max_term_width = 80,
    about = "Serve the market like the course's server: ./stock.txt, replies of 8192 bytes",
    mut_arg("engine", |arg| arg.default_value("select")),
    mut_arg("host", |arg| arg.default_value("0.0.0.0")),
    mut_arg("data", |arg| {
        arg.default_value("stock.txt").help("The file of stocks, `ID LEFT PRICE` a line")
    }),
    mut_arg("framing", |arg| arg.default_value("fixed:8192")),
    mut_arg("port", |arg| arg.hide(true).conflicts_with("course_port")),
    mut_arg("quiet", |arg| arg.help("Print neither connections nor requests nor times")),
    mut_arg("verbose", |arg| arg.hide(true)),
    mut_arg("timer", |arg| arg.hide(true)),
)]
// Without its own id this group would share that of the flattened one.
#[group(id = "stockserver")]
pub struct Args {
    /// The port to listen on; 0 picks one
    #[arg(id = "course_port", value_name = "PORT")]
    port: u16,
    #[command(flatten)]
    stock: stock::Args,
}

pub fn run(args: Args) -> Result<ExitCode> {
    let mut stock = args.stock;
    stock.server.port = Some(args.port);
    stock.server.watch.verbose = true;
    stock.server.watch.timer |= !stock.server.watch.quiet;
    stock::run(stock)
}
