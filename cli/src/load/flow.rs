//! Flows: the flags, and how a recording becomes one.

use super::flags::Args;
use ::load::script::flow_of;
use anyhow::Result;
use language::println;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tools::usage;

/// Users who go through steps; for `http://`.
#[derive(clap::Args)]
#[command(next_help_heading = "Targets http://")]
pub struct FlowArgs {
    /// Users go through the steps in this file (TOML), with cookies, data and values of earlier
    /// replies; with --sessions each session is one iteration
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_ONE_REQUEST)]
    pub flow: Option<PathBuf>,
    /// Write the requests of --har to this file, as steps for --flow, and send none
    #[arg(long, value_name = "FILE", requires = "har")]
    #[arg(conflicts_with_all = ["turns", "har_cookies"], hide_short_help = true)]
    pub write_flow: Option<PathBuf>,
}

/// Flags of requests that have no steps.
const OF_ONE_REQUEST: [&str; 12] = [
    "mix",
    "urls",
    "har",
    "method",
    "body",
    "body_file",
    "descriptor",
    "expect_status",
    "expect_length",
    "malformed",
    "session_requests",
    "find_capacity",
];

/// Writes the recording of `--har` to `file` as a flow.
pub fn write(args: &Args, file: &Path) -> Result<ExitCode> {
    let har = args.http.har.as_deref().unwrap_or(Path::new(""));
    let requests = args.target().and_then(|target| args.http.recorded(har, &target));
    let requests = requests.map_err(usage)?;
    tools::write(file, flow_of(&requests))?;
    println!("{}: {} steps", file.display(), requests.len());
    Ok(ExitCode::SUCCESS)
}
