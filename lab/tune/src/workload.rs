//! Workloads: the shipped ones, plans, recordings and addresses.

use anyhow::{Context, Result, anyhow, bail};
use lab::draft::{Resolver, TunedLoad, workload};
use lab::file::{Many, PlanFile, PointSpec};
use lab::plan::{LoadPoint, Model, Rate};
use stats::words;
use std::path::Path;

const SHIPPED: [(&str, &str); 6] = [
    ("cpu", include_str!("workloads/cpu.toml")),
    ("page", include_str!("workloads/page.toml")),
    ("stock", include_str!("workloads/stock.toml")),
    ("downstream", include_str!("workloads/downstream.toml")),
    ("idle", include_str!("workloads/idle.toml")),
    ("media", include_str!("workloads/media.toml")),
];
/// The objective of a recording or an address that comes without one is an error; their load is
/// this share of the capacity of the default server.
const SHARE: f64 = 0.4;

/// The workload of that name, file or address; files for the generator are made in `room`.
///
/// # Errors
/// There is none, or it is no workload.
pub fn read(what: &str, room: &Path, resolver: &Resolver<'_>) -> Result<TunedLoad> {
    if let Some((_, text)) = SHIPPED.iter().find(|it| it.0 == what) {
        return workload(PlanFile::parse(text)?, Path::new("."), resolver);
    }
    let path = Path::new(what);
    let has_ending = |ending: &str| path.extension().is_some_and(|it| it == ending);
    if has_ending("toml") {
        let folder = path.parent().unwrap_or(Path::new("."));
        return workload(PlanFile::read(path)?, folder, resolver);
    }
    if has_ending("har") {
        let urls = room.join("urls.txt");
        std::fs::write(&urls, recorded(path)?).context("cannot write the list of requests")?;
        let question = format!("The requests of {what}");
        let load = vec!["--urls".to_string(), urls.display().to_string()];
        return web(question, None, load, resolver);
    }
    if let Some((_, rest)) = what.split_once("://") {
        let path = rest.find('/').map_or("/", |at| &rest[at..]);
        return web(format!("Requests for {path}"), Some(path.to_string()), Vec::new(), resolver);
    }
    let names = || SHIPPED.iter().map(|it| it.0);
    let all: Vec<&str> = names().collect();
    let advice = words::nearest(what, names()).map(|it| format!("; did you mean {it}?"));
    bail!(
        "expected {}, a plan (FILE.toml), a recording (FILE.har) or a URL, found `{what}`{}",
        all.join(", "),
        advice.unwrap_or_default()
    )
}

fn web(
    question: String,
    path: Option<String>,
    load: Vec<String>,
    resolver: &Resolver<'_>,
) -> Result<TunedLoad> {
    let rate = Some(Many::One(SHARE));
    let point = vec![PointSpec { rate, path, load, ..PointSpec::default() }];
    let (question, service) = (Some(question), Some("web".to_string()));
    let file = PlanFile { question, service, point, ..PlanFile::default() };
    workload(file, Path::new("."), resolver)
}

/// The requests of a recording, one `METHOD PATH` a line. Only GET and HEAD can be repeated against
/// servers that hold nothing else.
fn recorded(path: &Path) -> Result<String> {
    let shown = path.display();
    let text = sys::input::read_text(path, sys::input::LARGE)
        .with_context(|| format!("cannot read {shown}"))?;
    let har: serde_json::Value =
        serde_json::from_str(&text).with_context(|| format!("{shown} is not a recording (HAR)"))?;
    let entries = har["log"]["entries"].as_array();
    let entries = entries.ok_or_else(|| anyhow!("{shown}: expected log.entries, found none"))?;
    let mut lines = String::new();
    for entry in entries {
        let (method, url) = (&entry["request"]["method"], &entry["request"]["url"]);
        let (Some(method @ ("GET" | "HEAD")), Some(url)) = (method.as_str(), url.as_str()) else {
            continue;
        };
        let rest = url.split_once("://").map_or(url, |it| it.1);
        let path = rest.find('/').map_or("/", |at| &rest[at..]);
        lines += &format!("{method} {path}\n");
    }
    if lines.is_empty() {
        bail!("{shown}: expected requests with GET or HEAD, found none");
    }
    Ok(lines)
}

/// Gives a load point its rate.
///
/// # Errors
/// It is not positive.
pub fn set_rate(point: &mut LoadPoint, rate: f64) -> Result<()> {
    if !(rate > 0.0 && rate.is_finite()) {
        bail!("expected a rate above 0, found {rate}");
    }
    if let Model::Open { rate: old, .. } = &mut point.model {
        *old = Rate::Absolute(rate);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(what: &str, room: &Path) -> Result<TunedLoad> {
        let arm = |_, _: &lab::file::ArmSpec| bail!("a workload has no arms");
        read(what, room, &Resolver { arm: &arm, files: &|_, _| Ok(Vec::new()) })
    }

    #[test]
    fn every_shipped_workload_has_a_load_point_and_an_objective() {
        for (name, _) in SHIPPED {
            let found = asked(name, Path::new(".")).expect(name);
            assert!(found.slo.is_some_and(|slo| slo.contains('<')), "{name}");
            assert!(found.plan.points[0].is_open() && !found.plan.question.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_recording_and_an_address_are_workloads_and_others_are_refused() {
        let room = tempfile::tempdir().expect("a folder");
        let har = room.path().join("a.har");
        let entry = |method: &str, url: &str| {
            format!("{{\"request\":{{\"method\":\"{method}\",\"url\":\"{url}\"}}}}")
        };
        let entries = [
            entry("GET", "https://a.org/x?y=1"),
            entry("POST", "https://a.org/"),
            entry("GET", "https://a.org"),
        ];
        let text = format!("{{\"log\":{{\"entries\":[{}]}}}}", entries.join(","));
        std::fs::write(&har, text).expect("written");
        assert_eq!(recorded(&har).expect("two requests"), "GET /x?y=1\nGET /\n");
        let found = asked(&har.display().to_string(), room.path()).expect("a workload");
        assert_eq!(found.plan.points[0].load[0], "--urls");
        let found = asked("http://a.org:80/b?c", room.path()).expect("a workload");
        assert_eq!(found.plan.points[0].path, "/b?c");
        let why = asked("pge", room.path()).map(|_| ()).expect_err("no such workload").to_string();
        assert!(why.contains("did you mean page?"), "{why}");
    }
}
