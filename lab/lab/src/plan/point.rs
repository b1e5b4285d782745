//! Load points.
//!
//! A point is closed (clients wait for replies) or open (requests arrive whether the server keeps
//! up or not). Points that belong to one curve have the same `series` and differ in `x`. Most rates
//! cannot be written down beforehand: "half of the slowest arm's capacity" is known only after a
//! pilot. The pilot is run and recorded before the first block, so no outcome can influence it.

use super::Provision;
use crate::metric::Metric;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One load: the number of connections, their depth, the requests and the arrival model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// Short and unique.
    pub name: String,
    /// Connections held at the same time.
    pub connections: u32,
    /// Requests in flight on each connection (closed loop).
    pub depth: u32,
    /// Replies after which a connection is closed and replaced; 0 = never.
    pub requests_per_connection: u64,
    /// The mix of requests in the generator's syntax; empty = its default.
    pub mix: String,
    /// The rule that decides when a request is sent.
    #[serde(default)]
    pub model: Model,
    /// Name of the curve that this point belongs to; empty for a separate point.
    #[serde(default)]
    pub series: String,
    /// Its position on that curve: connections of a closed sweep, share or rate of an open one.
    pub x: Option<f64>,
    /// Further connections that the laboratory opens and leaves silent.
    #[serde(default)]
    pub idle: u32,
    /// Load before the window in place of the plan's, milliseconds.
    pub warmup_ms: Option<u64>,
    /// Length of the window in place of the plan's, milliseconds.
    pub window_ms: Option<u64>,
    /// Further arguments for the generator.
    #[serde(default)]
    pub load: Vec<String>,
    /// The path that `http` arms serve at this point; empty = the path of their row.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Files in the `{dir}` of its trials, next to those of the plan and of the arm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Provision>,
    /// Windows on each server of a fresh pair in place of the plan's (duets).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<u32>,
}

impl Default for LoadPoint {
    fn default() -> LoadPoint {
        LoadPoint {
            name: String::new(),
            connections: 8,
            depth: 1,
            requests_per_connection: 0,
            mix: String::new(),
            model: Model::Closed,
            series: String::new(),
            x: None,
            idle: 0,
            warmup_ms: None,
            window_ms: None,
            load: Vec::new(),
            path: String::new(),
            files: Vec::new(),
            windows: None,
        }
    }
}

/// The rule that decides when a request is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Model {
    /// Each client waits for its replies and sends again at once: times are *service times*.
    #[default]
    Closed,
    /// A seeded schedule: times are *response times*, from the intended moment of sending.
    Open {
        /// Requests per second.
        rate: Rate,
        /// Gaps between them.
        #[serde(default)]
        arrivals: Arrivals,
    },
    /// For a while more than the server's capacity, then half of it. Measures how much throughput
    /// is kept during the overload, and how long the latency stays raised afterwards.
    Overload {
        /// Offered load as a multiple of the arm's own capacity.
        factor: f64,
    },
    /// The highest rate at which a promise is kept: doubling, then bisection, each probe with a
    /// fresh process.
    Capacity {
        /// The share of requests that the promise covers, such as 0.99.
        quantile: f64,
        /// The time within which they must be answered, nanoseconds.
        limit_ns: u64,
        /// The search ends when the bracket is this narrow (0.05 = 5 %).
        resolution: f64,
    },
}

/// Gaps between arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Exponential gaps: independent users.
    #[default]
    Poisson,
    /// Equal gaps.
    Constant,
}

/// An offered rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "of", content = "value", rename_all = "snake_case")]
pub enum Rate {
    /// Requests per second, the same for all arms.
    Absolute(f64),
    /// A share of the capacity of the arm that was slowest in the pilot, the same for all arms.
    Slowest(f64),
    /// A share of each arm's own capacity. The arms then have different loads, so their results are
    /// not paired.
    Own(f64),
}

impl LoadPoint {
    /// Whether times run from the intended moment of sending.
    pub fn is_open(&self) -> bool {
        !matches!(self.model, Model::Closed)
    }

    /// The metric that answers the point's question: p99 under open load, the capacity if one is
    /// searched for, otherwise requests per second.
    pub fn lead(&self) -> Metric {
        match self.model {
            Model::Open { .. } => Metric::P99,
            Model::Capacity { .. } => Metric::Capacity,
            Model::Closed | Model::Overload { .. } => Metric::Throughput,
        }
    }

    /// Whether the point's trials can have that metric at all.
    pub fn can_have(&self, metric: Metric) -> bool {
        match metric {
            Metric::ConnectionMemory => self.idle > 0,
            Metric::Capacity => matches!(self.model, Model::Capacity { .. }),
            Metric::Recovery => matches!(self.model, Model::Overload { .. }),
            _ => true,
        }
    }

    /// Whether this point needs a pilot to measure the arms' capacities.
    pub fn needs_pilot(&self) -> bool {
        match self.model {
            Model::Closed => false,
            Model::Open { rate, .. } => !matches!(rate, Rate::Absolute(_)),
            Model::Overload { .. } | Model::Capacity { .. } => true,
        }
    }

    /// The fault in its model, if any.
    pub fn fault(&self) -> Option<&'static str> {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        match self.model {
            Model::Closed => None,
            Model::Open { rate, .. } => {
                let (Rate::Absolute(it) | Rate::Slowest(it) | Rate::Own(it)) = rate;
                (!positive(it)).then_some("expected a rate above 0")
            }
            Model::Overload { factor } => (!(factor > 1.0 && factor <= 100.0))
                .then_some("expected an overload factor above 1, such as 1.2"),
            Model::Capacity { quantile, limit_ns, resolution } => {
                let fits = quantile > 0.0 && quantile < 1.0 && limit_ns > 0;
                (!(fits && resolution > 0.0 && resolution < 1.0))
                    .then_some("expected a promise such as p99 within 1ms, resolution below 1")
            }
        }
    }

    /// Whether the load is meant to be more than the server can take: refused connections and
    /// retransmissions are then outcomes, not disturbances.
    pub fn is_overload(&self) -> bool {
        matches!(self.model, Model::Overload { .. } | Model::Capacity { .. })
    }
}
