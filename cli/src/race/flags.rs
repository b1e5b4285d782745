//! The flags of a race that shape its plan.

use lab::draft::HALF;
use lab::file::{Many, PointSpec};
use lab::service::{CONNECTIONS, ROUND_TRIPS, Service};
use std::path::PathBuf;
use std::time::Duration;
use wire::conf::span;

/// Connections of an open load.
const CLIENTS: u32 = 64;

/// The ways of asking; each list is a curve, and several may be combined.
#[derive(clap::Args)]
#[command(next_help_heading = "Load points")]
pub struct Points {
    /// Requests in flight on each connection, one load point each [default: 1,16]
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub depths: Option<Vec<u32>>,
    /// Connections at once [default: 8; with open rates 64]
    #[arg(long, value_name = "N")]
    pub connections: Option<u32>,
    /// A closed sweep over numbers of connections
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub sweep: Option<Vec<u32>>,
    /// Requests after which a connection is replaced; 0 keeps it
    #[arg(long, value_delimiter = ',', value_name = "N,…", hide_short_help = true)]
    pub churn: Option<Vec<u64>>,
    /// Idle connections in addition to those that ask
    #[arg(long, value_delimiter = ',', value_name = "N,…", hide_short_help = true)]
    pub idle: Option<Vec<u32>>,
    /// Open arrivals: requests a second, or up to 10 as a share of what the slowest arm can do
    #[arg(long, value_delimiter = ',', value_name = "RATE,…")]
    pub open: Option<Vec<f64>>,
    /// Overload as a multiple of each arm's own capacity, such as 1.2,2
    #[arg(long, value_delimiter = ',', value_name = "FACTOR,…", hide_short_help = true)]
    pub overload: Option<Vec<f64>>,
    /// Search for the highest rate at which a promise is kept, such as 'p99 < 1ms'
    #[arg(long, value_name = "PROMISE")]
    pub promise: Option<String>,
    /// The mix of requests [default for stock: show=5,buy=50,sell=45]
    #[arg(long, value_name = "MIX")]
    pub mix: Option<load::Mix>,
}

impl Points {
    /// The first flag that is given, but for --mix, which plans leave open.
    pub fn first(&self) -> Option<&'static str> {
        let all = [
            ("--depths", self.depths.is_some()),
            ("--connections", self.connections.is_some()),
            ("--sweep", self.sweep.is_some()),
            ("--churn", self.churn.is_some()),
            ("--idle", self.idle.is_some()),
            ("--open", self.open.is_some()),
            ("--overload", self.overload.is_some()),
            ("--promise", self.promise.is_some()),
        ];
        all.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
    }

    /// The mix of requests in the generator's syntax.
    pub fn mix(&self) -> Option<String> {
        self.mix.map(|mix| format!("show={},buy={},sell={}", mix.show, mix.buy, mix.sell))
    }

    /// Whether a load point is asked for next to depths: a curve, open arrivals, overload or a
    /// promise.
    pub fn is_curved(&self) -> bool {
        let curves = self.sweep.is_some() || self.churn.is_some() || self.idle.is_some();
        curves || self.open.is_some() || self.overload.is_some() || self.promise.is_some()
    }

    /// The load points; those of the service if none is asked for.
    pub fn specs(&self, service: Service, is_full: bool) -> Vec<PointSpec> {
        let connections = self.connections.unwrap_or(CONNECTIONS);
        let base =
            |depth: u32| PointSpec::closed(connections, depth, ROUND_TRIPS * u64::from(depth));
        let named = |series: &str| Some(series.to_string());
        let depth =
            |depth: &u32| PointSpec { name: Some(format!("depth {depth}")), ..base(*depth) };
        let mut found: Vec<PointSpec> = self.depths.iter().flatten().map(depth).collect();
        if let Some(connections) = some(&self.sweep) {
            found.push(PointSpec { connections: Some(connections), ..base(1) });
        }
        if let Some(lives) = some(&self.churn) {
            let series = named("requests per connection");
            found.push(PointSpec { requests_per_connection: Some(lives), series, ..base(1) });
        }
        if let Some(idle) = some(&self.idle) {
            let series = named("idle connections");
            found.push(PointSpec { idle: Some(idle), series, ..base(1) });
        }
        let connections_open = Some(Many::One(self.connections.unwrap_or(CLIENTS)));
        let open = PointSpec { connections: connections_open, ..PointSpec::default() };
        if let Some(rates) = some(&self.open) {
            found.push(PointSpec { rate: Some(rates), ..open.clone() });
        }
        if let Some(factors) = some(&self.overload) {
            found.push(PointSpec { overload: Some(factors), ..open.clone() });
        }
        if let Some(promise) = &self.promise {
            found.push(PointSpec { promise: Some(promise.clone()), ..open.clone() });
        }
        if !found.is_empty() {
            return found;
        }
        let own = service.points().into_iter();
        found.extend(own.map(|point| PointSpec {
            connections: Some(Many::One(connections)),
            mix: None,
            ..point
        }));
        if is_full {
            let rate = Some(Many::Some(vec![HALF]));
            found.push(PointSpec { name: named("half load"), rate, ..open });
        }
        found
    }
}

fn some<T: Clone>(list: &Option<Vec<T>>) -> Option<Many<T>> {
    list.clone().filter(|list| !list.is_empty()).map(Many::Some)
}

/// Sizes and seeds.
#[derive(clap::Args)]
#[command(next_help_heading = "Sizes")]
pub struct Sizes {
    /// Data to serve: a book of stocks (every trial gets its own copy, with plenty of each stock),
    /// or a page [default: data/stock.txt, else a built-in one]
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Load before the first window [default: 20ms; with more than the cost 150ms]
    #[arg(long, value_parser = span, value_name = "TIME", hide_short_help = true)]
    pub warmup: Option<Duration>,
    /// Length of a measured window [default: 20ms; with more than the cost 200ms]
    #[arg(long, value_parser = span, value_name = "TIME")]
    pub window: Option<Duration>,
    /// Arms closer together than this are equivalent, in percent [default: 3]
    #[arg(long, value_name = "PERCENT")]
    pub margin: Option<f64>,
    /// Orders and requests come from it [default: 1]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub seed: Option<u64>,
    /// The time that each server may take to start [default: 5s]
    #[arg(long, value_parser = span, value_name = "TIME", hide_short_help = true)]
    pub boot: Option<Duration>,
    /// Run without the baseline's twin
    #[arg(long, hide_short_help = true)]
    pub no_twin: bool,
}
