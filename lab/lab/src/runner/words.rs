//! The generator's command line: the only place that knows its flags.

use crate::plan::{Arm, Arrivals, LoadPoint, Model, Plan};
use crate::server::Server;
use std::path::Path;

/// The requests of one run.
pub(crate) struct Request<'a> {
    pub(crate) arm: &'a Arm,
    pub(crate) point: &'a LoadPoint,
    pub(crate) warmup_ms: u64,
    pub(crate) window_ms: u64,
    pub(crate) seed: u64,
    /// Offered requests per second; `None` for a closed loop.
    pub(crate) rate: Option<f64>,
    /// Whether it reads the server's process tree.
    pub(crate) watch: bool,
}

impl<'a> Request<'a> {
    /// The request of a plan's point.
    pub(crate) fn of(
        plan: &Plan,
        arm: &'a Arm,
        point: &'a LoadPoint,
        seed: u64,
        rate: Option<f64>,
    ) -> Request<'a> {
        let (warmup_ms, window_ms) = plan.spans(point);
        Request { arm, point, warmup_ms, window_ms, seed, rate, watch: true }
    }
}

/// The command prefix that pins a command to one core.
pub fn pin(exe: &Path, core: usize) -> Vec<String> {
    [&exe.display().to_string(), "pin", &core.to_string(), "--"].map(String::from).to_vec()
}

/// One call of the generator.
pub(super) fn generator(
    exe: &Path,
    request: &Request<'_>,
    server: &Server,
    cores: Option<(usize, usize)>,
) -> Vec<String> {
    let mut words = vec![exe.display().to_string(), "load".to_string(), "--json".to_string()];
    words.extend(["--for".to_string(), format!("{}ms", request.window_ms)]);
    if let Some((_, generator)) = cores {
        words.extend(["--cpu".to_string(), generator.to_string()]);
    }
    words.extend(run(request, server));
    words
}

/// The arguments of one run, without its length and its processor.
pub(crate) fn run(request: &Request<'_>, server: &Server) -> Vec<String> {
    let (arm, point) = (request.arm, request.point);
    let mut words = vec![arm.target.replace("{address}", &server.address)];
    let mut flag = |name: &str, value: String| words.extend([name.to_string(), value]);
    match request.rate {
        None => {
            flag("--closed", point.connections.to_string());
            flag("--depth", point.depth.to_string());
        }
        Some(rate) => {
            flag("--open", format!("{rate:.3}"));
            flag("--arrivals", arrivals(point).to_string());
            flag("--connections", point.connections.to_string());
        }
    }
    if point.requests_per_connection > 0 {
        flag("--requests-per-connection", point.requests_per_connection.to_string());
    }
    flag("--warmup", format!("{}ms", request.warmup_ms));
    // A mix consists of the market's commands; arms of other protocols have their own arguments.
    if !point.mix.is_empty() && arm.target.starts_with("stock") {
        flag("--mix", point.mix.clone());
    }
    flag("--seed", request.seed.to_string());
    if request.watch {
        flag("--watch", server.root().to_string());
    }
    words.extend(arm.load.iter().chain(&point.load).cloned());
    words
}

fn arrivals(point: &LoadPoint) -> &'static str {
    match point.model {
        Model::Open { arrivals: Arrivals::Constant, .. } => "constant",
        _ => "poisson",
    }
}
