//! The same as a few lines for a person.

use super::{DuetArm, DuetReport, Report};
use crate::faults::Faults;
use meter::Quantiles;
use std::fmt::{self, Display, Formatter};

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} · closed loop · {} connections x depth {} · seed {}",
            self.target, self.connections, self.depth, self.seed
        )?;
        writeln!(
            f,
            "  requests      {} in {} ({:.0}/s), {} in all",
            self.requests,
            time(self.window_ns as f64),
            self.throughput_rps,
            self.requests_total
        )?;
        writeln!(f, "  service time  {}", quantiles(&self.service))?;
        writeln!(
            f,
            "  generator     {:.0} % busy, {} CPU a request",
            self.generator.busy * 100.0,
            time(self.generator.cpu_ns as f64 / self.requests.max(1) as f64)
        )?;
        if let Some(server) = &self.server {
            let each = |value: Option<f64>| value.map_or("-".to_owned(), time);
            writeln!(
                f,
                "  server {:<6} {} CPU a request, {} switches a request, {} processes, {} threads",
                server.pid,
                each(server.cpu_ns_per_request),
                server.switches_per_request.map_or("-".to_owned(), |n| format!("{n:.3}")),
                server.processes,
                server.threads
            )?;
            let pss = server.pss_kb.map_or("-".to_owned(), |kb| format!("{kb} kB"));
            writeln!(
                f,
                "  memory        {pss} (PSS), {} kB resident, {} kB at the peak",
                server.rss_kb, server.peak_kb
            )?;
        }
        writeln!(f, "  check         {}: {}", verdict(self.check.ok), self.check.detail)?;
        faults(f, &self.errors)?;
        if self.lost + self.censored > 0 {
            let (lost, censored) = (self.lost, self.censored);
            writeln!(f, "  unanswered    {lost} lost with their connection, {censored} censored")?;
        }
        doubts(f, &self.doubts)
    }
}

impl Display for DuetReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "duet · {} pairs of {} windows · {} connections x depth {} · seed {}",
            self.windows.len() / 2,
            time(self.window_ns as f64),
            self.connections,
            self.depth,
            self.seed
        )?;
        for (name, arm) in [("a", &self.a), ("b", &self.b)] {
            arm.write(f, name)?;
        }
        writeln!(
            f,
            "  a / b         {:.4} (log-ratio {:+.4}) by CPU a request",
            self.ratio, self.log_ratio
        )?;
        doubts(f, &self.doubts)
    }
}

impl DuetArm {
    fn write(&self, f: &mut Formatter<'_>, name: &str) -> fmt::Result {
        writeln!(
            f,
            "  {name}             {} CPU a request, {:.3} switches a request, {} requests · {}",
            time(self.cpu_ns_per_request),
            self.switches_per_request,
            self.requests,
            self.target
        )?;
        writeln!(f, "    check       {}: {}", verdict(self.check.ok), self.check.detail)?;
        faults(f, &self.errors)
    }
}

fn verdict(ok: bool) -> &'static str {
    if ok { "ok" } else { "WRONG" }
}

fn faults(f: &mut Formatter<'_>, faults: &Faults) -> fmt::Result {
    for fault in &faults.list {
        let (count, kind, example) = (fault.count, fault.kind, &fault.example);
        writeln!(f, "  error         {count} {kind}; the first: {example}; {}", kind.remedy())?;
    }
    Ok(())
}

fn doubts(f: &mut Formatter<'_>, doubts: &[String]) -> fmt::Result {
    doubts.iter().try_for_each(|doubt| writeln!(f, "  doubt         {doubt}"))
}

/// A percentile that fewer than a hundred values lie beyond is left out.
fn quantiles(found: &Quantiles) -> String {
    let p50 = (found.count >= 200).then_some(found.p50_ns);
    let p90 = (found.count >= 1000).then_some(found.p90_ns);
    let named = [("p50", p50), ("p90", p90), ("p99", found.p99_ns), ("p99.9", found.p999_ns)];
    let mut parts: Vec<String> = named
        .iter()
        .filter_map(|(name, ns)| ns.map(|ns| format!("{name} {}", time(ns as f64))))
        .collect();
    parts.push(format!("max {}", time(found.max_ns as f64)));
    parts.push(format!("mean {}", time(found.mean_ns)));
    parts.join(" · ")
}

/// Nanoseconds with a unit that leaves at most four digits before the point.
fn time(ns: f64) -> String {
    match ns {
        _ if ns < 1e4 => format!("{ns:.0} ns"),
        _ if ns < 1e7 => format!("{:.1} us", ns / 1e3),
        _ if ns < 1e10 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.1} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_percentiles() {
        assert_eq!(time(999.4), "999 ns");
        assert_eq!(time(12_345.0), "12.3 us");
        assert_eq!(time(1e9), "1000.0 ms");
        assert_eq!(time(6e10), "60.0 s");
        let few = Quantiles { count: 10, p50_ns: 5, p90_ns: 6, max_ns: 9, ..Quantiles::default() };
        assert_eq!(quantiles(&few), "max 9 ns · mean 0 ns");
        let many = Quantiles { count: 10_000, p99_ns: Some(8), ..few };
        assert_eq!(quantiles(&many), "p50 5 ns · p90 6 ns · p99 8 ns · max 9 ns · mean 0 ns");
    }
}
