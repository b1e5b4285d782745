//! Load points as written in a plan file: one entry may be a whole curve.
//!
//! A list in place of a number makes one point of each element: `connections = [1, 2, 4, 8]` is a
//! closed sweep, `rate = [0.25, 0.5, 0.75]` an open curve. Two lists multiply. A small rate is a
//! share of a capacity: `rate = 0.5` is half of the slowest arm's capacity, `rate = 5000` is 5000
//! requests a second; shares end at [`SHARE_MAX`].

use super::{FileSpec, Span};
use crate::plan::{Arrivals, LoadPoint, Model, Rate};
use anyhow::{Result, anyhow, bail};
use schemars::JsonSchema;
use serde::Deserialize;
use stats::objective::{Limit, Objective};

/// Rates up to this are shares of a capacity.
const SHARE_MAX: f64 = 10.0;
/// The default resolution of a capacity search.
const RESOLUTION: f64 = 0.05;

/// One value or several.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Many<T> {
    /// One value.
    One(T),
    /// A point for each value.
    Some(Vec<T>),
}

impl<T: Clone> Many<T> {
    pub(super) fn all(&self) -> Vec<T> {
        match self {
            Many::One(value) => vec![value.clone()],
            Many::Some(values) => values.clone(),
        }
    }
}

/// One load, or a curve of them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PointSpec {
    /// Short and unique; if absent, made from the values that differ.
    pub name: Option<String>,
    /// Connections at the same time.
    pub connections: Option<Many<u32>>,
    /// Requests in flight on each (closed).
    pub depth: Option<Many<u32>>,
    /// Replies after which a connection is replaced; 0 = never.
    pub requests_per_connection: Option<Many<u64>>,
    /// Silent connections besides the busy ones.
    pub idle: Option<Many<u32>>,
    /// Offered rate: requests per second, or a share of capacity: makes the point open.
    pub rate: Option<Many<f64>>,
    /// The unit of `rate`: `slowest` (a share of the capacity of the slowest arm, so that all arms
    /// get the same load), `own` (of the arm's own capacity) or `second` (requests a second).
    pub of: Option<String>,
    /// Gaps between arrivals: `poisson` or `constant`.
    pub arrivals: Arrivals,
    /// Overload as a multiple of each arm's own capacity.
    pub overload: Option<Many<f64>>,
    /// A promise such as `p99 < 1ms`: the trial searches for the highest rate that keeps it.
    pub promise: Option<String>,
    /// The width at which the search ends (0.05 = 5 %).
    pub resolution: Option<f64>,
    /// The mix of requests in the generator's syntax.
    pub mix: Option<String>,
    /// Name of the curve.
    pub series: Option<String>,
    /// Load before the window.
    pub warmup: Option<Span>,
    /// Length of the window.
    pub window: Option<Span>,
    /// Windows on each server of a fresh pair (duets).
    pub windows: Option<u32>,
    /// Further arguments for the generator.
    pub load: Vec<String>,
    /// The path that `http` arms serve at this point, instead of the path of their row.
    pub path: Option<String>,
    /// Files that its trials find in `{dir}`.
    pub file: Vec<FileSpec>,
}

impl PointSpec {
    /// A closed point of a plan's command line.
    pub fn closed(connections: u32, depth: u32, requests_per_connection: u64) -> PointSpec {
        PointSpec {
            connections: Some(Many::One(connections)),
            depth: Some(Many::One(depth)),
            requests_per_connection: Some(Many::One(requests_per_connection)),
            ..PointSpec::default()
        }
    }

    /// The load points that this entry describes.
    ///
    /// # Errors
    /// The impossible value, in one sentence.
    pub fn points(&self) -> Result<Vec<LoadPoint>> {
        let models = self.models()?;
        if let Some(path) = self.path.as_deref().filter(|path| !path.starts_with('/')) {
            bail!("expected a path that begins with `/`, found `{path}`");
        }
        let base = LoadPoint::default();
        let connections =
            self.connections.as_ref().map_or(vec![self.connections_default()], Many::all);
        let depths = self.depth.as_ref().map_or(vec![base.depth], Many::all);
        let lives = self.requests_per_connection.as_ref().map_or(vec![0], Many::all);
        let idles = self.idle.as_ref().map_or(vec![0], Many::all);
        let series = self.series.clone().unwrap_or_else(|| self.curve().to_string());
        let mut points = Vec::new();
        for &(model, rate) in &models {
            for &connections in &connections {
                for &depth in &depths {
                    for &requests_per_connection in &lives {
                        for &idle in &idles {
                            let mut point = LoadPoint {
                                connections,
                                depth,
                                requests_per_connection,
                                idle,
                                model,
                                mix: self.mix.clone().unwrap_or_default(),
                                warmup_ms: self.warmup.map(Span::ms),
                                window_ms: self.window.map(Span::ms),
                                windows: self.windows,
                                load: self.load.clone(),
                                path: self.path.clone().unwrap_or_default(),
                                series: series.clone(),
                                ..LoadPoint::default()
                            };
                            point.x = self.place(&point, rate);
                            point.name = self.title(&point, rate);
                            points.push(point);
                        }
                    }
                }
            }
        }
        Ok(points)
    }

    /// The default number of connections: open arrivals need some in reserve, a closed loop has its
    /// own.
    fn connections_default(&self) -> u32 {
        match (&self.rate, &self.overload, &self.promise) {
            (None, None, None) => LoadPoint::default().connections,
            _ => 64,
        }
    }

    /// Each model with its number: rate, share or factor.
    fn models(&self) -> Result<Vec<(Model, f64)>> {
        let asked = [self.rate.is_some(), self.overload.is_some(), self.promise.is_some()];
        if asked.iter().filter(|&&it| it).count() > 1 {
            bail!("expected one of `rate`, `overload` and `promise` in a point, found several");
        }
        if let Some(rates) = &self.rate {
            let model = |value| Ok((self.open(value)?, value));
            return rates.all().into_iter().map(model).collect();
        }
        if let Some(factors) = &self.overload {
            let model = |factor| (Model::Overload { factor }, factor);
            return Ok(factors.all().into_iter().map(model).collect());
        }
        if let Some(promise) = &self.promise {
            let (quantile, limit_ns) = self::promise(promise)?;
            let resolution = self.resolution.unwrap_or(RESOLUTION);
            return Ok(vec![(Model::Capacity { quantile, limit_ns, resolution }, 0.0)]);
        }
        Ok(vec![(Model::Closed, 0.0)])
    }

    fn open(&self, value: f64) -> Result<Model> {
        let rate = match self.of.as_deref() {
            Some("slowest") => Rate::Slowest(value),
            Some("own") => Rate::Own(value),
            Some("second") => Rate::Absolute(value),
            None if value <= SHARE_MAX => Rate::Slowest(value),
            None => Rate::Absolute(value),
            Some(other) => bail!("expected of = slowest, own or second, found `{other}`"),
        };
        Ok(Model::Open { rate, arrivals: self.arrivals })
    }

    fn is_list(&self) -> [bool; 5] {
        fn many<T>(value: &Option<Many<T>>) -> bool {
            matches!(value, Some(Many::Some(list)) if list.len() > 1)
        }
        [
            many(&self.connections),
            many(&self.depth),
            many(&self.requests_per_connection),
            many(&self.idle),
            many(&self.rate),
        ]
    }

    /// The variable of the curve that this entry's points form; empty for none.
    fn curve(&self) -> &'static str {
        let names =
            ["closed sweep", "depth", "requests per connection", "idle connections", "open curve"];
        let lists = self.is_list();
        match lists.iter().filter(|&&it| it).count() {
            1 => lists.iter().position(|&it| it).map_or("", |at| names[at]),
            _ => "",
        }
    }

    /// The position of a point on its curve.
    fn place(&self, point: &LoadPoint, rate: f64) -> Option<f64> {
        match self.is_list().iter().position(|&it| it)? {
            0 => Some(f64::from(point.connections)),
            1 => Some(f64::from(point.depth)),
            2 => Some(point.requests_per_connection as f64),
            3 => Some(f64::from(point.idle)),
            _ => Some(rate),
        }
    }

    fn title(&self, point: &LoadPoint, rate: f64) -> String {
        let [connections, depths, lives, idles, _] = self.is_list();
        let several = [connections, depths, lives, idles].iter().any(|&it| it);
        let mut parts: Vec<String> = self.name.iter().cloned().collect();
        match point.model {
            Model::Open { rate: Rate::Absolute(_), .. } => parts.push(format!("{rate:.0}/s")),
            Model::Open { rate: Rate::Own(_), .. } => {
                parts.push(format!("{:.0} % of its own capacity", rate * 100.0));
            }
            Model::Open { .. } => parts.push(format!("{:.0} % of the slowest", rate * 100.0)),
            Model::Overload { factor } => parts.push(format!("overload {factor}x")),
            Model::Capacity { .. } => parts.extend(self.promise.clone()),
            Model::Closed => {}
        }
        if connections || (parts.is_empty() && !several && point.depth == 1 && point.idle == 0) {
            parts.push(format!("{} connections", point.connections));
        }
        let closed = matches!(point.model, Model::Closed);
        if depths || (closed && self.name.is_none() && point.depth > 1) {
            parts.push(format!("depth {}", point.depth));
        }
        if lives {
            parts.push(match point.requests_per_connection {
                0 => "kept alive".to_string(),
                n => format!("{n} per connection"),
            });
        }
        if idles || (self.name.is_none() && point.idle > 0) {
            parts.push(format!("{} idle", point.idle));
        }
        parts.join(", ")
    }
}

/// A promise such as `p99 < 1ms`, as a quantile and nanoseconds.
fn promise(text: &str) -> Result<(f64, u64)> {
    let wrong = |why: &str| anyhow!("expected a promise such as `p99 < 1ms`, found `{text}`{why}");
    let promise = Objective::parse(text, &["p50", "p90", "p99", "p99.9"])
        .map_err(|why| wrong(&format!(": {why}")))?;
    match (promise.share(), &promise) {
        (Some(share), Objective { arm: None, point: None, is_above: false, limit, .. }) => {
            match *limit {
                Limit::Value(ns) => Ok((share, ns as u64)),
                Limit::Times(..) => Err(wrong("; a promise has no other arm")),
            }
        }
        _ => Err(wrong("")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let spec: PointSpec = toml::from_str(text).expect("a point");
        let points = spec.points().expect("it can be");
        points.into_iter().map(|point| point.name).collect()
    }

    #[test]
    fn lists_make_curves() {
        fn check(text: &str, want: &[&str], series: &str) {
            assert_eq!(names(text), want, "{text}");
            let spec: PointSpec = toml::from_str(text).expect("a point");
            let points = spec.points().expect("it can be");
            assert!(points.iter().all(|point| point.series == series), "{points:?}");
        }
        check("depth = [1, 16]", &["depth 1", "depth 16"], "depth");
        check("connections = [1, 64]", &["1 connections", "64 connections"], "closed sweep");
        let shares = ["25 % of the slowest", "50 % of the slowest"];
        check("rate = [0.25, 0.5]", &shares, "open curve");
        check("rate = 5000", &["5000/s"], "");
        check("overload = [1.2, 2.0]", &["overload 1.2x", "overload 2x"], "");
        check("promise = 'p99 < 1ms'", &["p99 < 1ms"], "");
        check("idle = [0, 100]", &["0 idle", "100 idle"], "idle connections");
        let lives = ["kept alive", "1 per connection"];
        check("requests_per_connection = [0, 1]", &lives, "requests per connection");
        check("name = 'show only'\nmix = 'show=1'", &["show only"], "");
        check("", &["8 connections"], "");
        let both = ["1 connections, depth 1", "1 connections, depth 4"];
        assert_eq!(names("connections = [1, 2]\ndepth = [1, 4]")[..2], both);
    }

    #[test]
    fn models_are_what_they_say() {
        let spec = |text: &str| toml::from_str::<PointSpec>(text).expect("a point");
        let point =
            &spec("rate = 0.5\nof = 'own'\narrivals = 'constant'").points().expect("open")[0];
        let arrivals = Arrivals::Constant;
        assert_eq!(point.model, Model::Open { rate: Rate::Own(0.5), arrivals });
        assert_eq!(point.connections, 64);
        let point = &spec("promise = 'p99.9 < 20us'").points().expect("a promise")[0];
        let Model::Capacity { quantile, limit_ns, .. } = point.model else { panic!("{point:?}") };
        assert!((quantile - 0.999).abs() < 1e-12 && limit_ns == 20_000, "{point:?}");
    }

    #[test]
    fn what_cannot_be_says_why() {
        fn check(text: &str, want: &str) {
            let spec: PointSpec = toml::from_str(text).expect("a point");
            let found = spec.points().expect_err("it cannot be").to_string();
            assert!(found.contains(want), "{text}: {found}");
        }
        check("path = '1k'", "begins with `/`, found `1k`");
        check("rate = 1\noverload = 2.0", "one of `rate`");
        check("promise = 'quick'", "such as `p99 < 1ms`");
        check("promise = 'p95 < 1ms'", "p50, p90, p99, p99.9");
        check("promise = 'p99 < 1'", "a duration with a unit");
        check("promise = 'p99 > 1ms'", "such as `p99 < 1ms`");
        check("rate = 1\nof = 'fastest'", "slowest, own or second");
        assert!(toml::from_str::<PointSpec>("rates = 1").is_err(), "unknown keys are errors");
    }
}
