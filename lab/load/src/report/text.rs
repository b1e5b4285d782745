//! The report as a few lines of text.
//!
//! `roundhouse load` prints a report through `Display`; `--json` prints the same structure as it
//! is, and nothing is computed here. The lines are built in English, then translated and folded to
//! 80 columns at once, so that a translation may be longer. A percentile appears only if enough
//! values lie beyond it, a censored one with `>`, because requests without a reply took at least
//! that long. Doubts come last.

use super::{KindReport as Kind, Report, Server, StressReport, TurnsReport};
use crate::censor::Percentile;
use crate::drive::StressCounts;
use crate::faults::{FaultKind, Faults};
use crate::script::status_name;
use crate::timeline::Slice;
use meter::Quantiles;
use stats::words::{folded, grouped, time};
use std::cmp::Reverse;
use std::fmt::{self, Display, Formatter, Write};

/// The width of a line on the narrowest terminal in use.
const WIDTH: usize = 80;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// In place of figures where there was nothing to count.
const NO_TIME: &str = "no request has a time";
/// The most statuses that are shown apart.
const STATUSES_MAX: usize = 8;
/// The columns before the figures of a line.
const NAMES: usize = 16;

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.lines(&mut text)?;
        writeln!(f, "{}", folded(&language::tr(&text), WIDTH, NAMES))
    }
}

impl Report {
    fn lines(&self, f: &mut String) -> fmt::Result {
        self.head(f)?;
        self.times(f)?;
        if self.stages.is_some() || self.repeated > 0 {
            self.over_time(f)?;
        }
        for kind in &self.kinds {
            let Kind { name, requests, wrong, .. } = kind;
            let times = if self.model == "closed" { &kind.service } else { &kind.response };
            writeln!(f, "    {name:<10}  {requests} · {}", quantiles(times))?;
            if let Some(error) = &kind.error {
                writeln!(f, "      wrong     {wrong}; the first: {error}")?;
            }
        }
        if let Some(tls) = &self.tls {
            let checked = if tls.checked { "checked" } else { "NOT checked (--insecure)" };
            writeln!(f, "  {:<12}  certificate {checked}, {} resumed", tls.version, tls.resumed)?;
            // A connection to this machine is made at once, and that is no time.
            if tls.connect.max_ns > 1 {
                writeln!(f, "    connecting  {}", quantiles(&tls.connect))?;
            }
            writeln!(f, "    handshake   {} · {}", tls.handshake.count, quantiles(&tls.handshake))?;
        }
        let verdict = self.health.verdict;
        let worked_ns = self.generator.cpu_ns.saturating_sub(self.generator.spun_ns);
        let each = match self.requests {
            0 => String::new(),
            count => format!(", {} CPU per request", time(worked_ns as f64 / count as f64)),
        };
        let busy = self.generator.busy * 100.0;
        writeln!(f, "  generator     {verdict}: {busy:.0} % busy{each}")?;
        if let Some(server) = &self.server {
            server.write(f)?;
        }
        let checked = match self.check.ok && self.requests_total == 0 {
            true => "no reply came",
            false => self::verdict(self.check.ok),
        };
        writeln!(f, "  check         {checked}: {}", self.check.detail)?;
        self.outcomes(f)?;
        faults(f, &self.errors)?;
        self.connections(f)?;
        self.unanswered(f)?;
        for it in &self.slo {
            let met = if it.met { "met" } else { "MISSED" };
            let found = match it.value {
                Some(rate) if it.goal.starts_with("rate") => format!("{rate:.0}/s"),
                Some(share) if it.goal.starts_with("errors") => {
                    format!("{:.4} % were", share * 100.0)
                }
                Some(ns) => time(ns),
                None if it.goal.starts_with("mean") => NO_TIME.to_owned(),
                None => format!("{:.4} % were", it.found * 100.0),
            };
            writeln!(f, "  objective     {} {met}: {found}", it.goal)?;
        }
        self.doubts.iter().try_for_each(|doubt| writeln!(f, "  doubt         {doubt}"))
    }

    /// The replies by status, the most frequent of many, and the other outcomes by fault.
    fn outcomes(&self, f: &mut String) -> fmt::Result {
        if self.statuses.is_empty() {
            return Ok(());
        }
        let mut statuses: Vec<(u16, u64)> = self.statuses.iter().map(|it| (*it.0, *it.1)).collect();
        statuses.sort_by_key(|&(_, count)| Reverse(count));
        let (shown, rest) = statuses.split_at(statuses.len().min(STATUSES_MAX));
        let others = rest.iter().map(|it| it.1).sum::<u64>();
        let mut all: Vec<_> = shown.iter().map(|it| (status_name(it.0), it.1)).collect();
        all.extend((others > 0).then(|| ("others".to_owned(), others)));
        // Wrong replies have a status.
        let faults = self.errors.list.iter().filter(|it| it.kind != FaultKind::WrongReply);
        all.extend(faults.map(|it| (it.kind.to_string(), it.count)));
        let each = all.iter().map(|(name, count)| format!("{name}: {}", grouped(*count as f64)));
        writeln!(f, "  statuses      {}", each.collect::<Vec<_>>().join(" · "))
    }

    fn head(&self, f: &mut String) -> fmt::Result {
        let rate = self.offered_rps.filter(|_| self.stages.is_none());
        let rate = rate.map(|rate| format!(" of {rate}/s")).unwrap_or_default();
        let stages = self.stages.as_ref().map(|it| format!(" in stages {it}")).unwrap_or_default();
        let threads =
            if self.threads > 1 { format!(" · {} threads", self.threads) } else { String::new() };
        writeln!(
            f,
            "{} · {}{rate}{stages} · {} connections x depth {}{threads} · seed {}",
            self.target,
            if self.model == "closed" { "closed loop" } else { &self.model },
            self.connections,
            self.depth,
            self.seed
        )?;
        writeln!(
            f,
            "  requests      {} in {} ({:.0}/s), {} in all",
            self.requests,
            time(self.window_ns as f64),
            self.throughput_rps,
            self.requests_total
        )
    }

    fn times(&self, f: &mut String) -> fmt::Result {
        if self.model == "closed" {
            let name = match (&self.stress, self.depth) {
                (Some(_), _) => "echo time",
                (None, 1) => "service time",
                (None, _) => "batch time",
            };
            let text = censored(&self.percentiles, &self.service);
            writeln!(f, "  {name:<12}  {text}")?;
            let Some(connect) = &self.connect else { return Ok(()) };
            writeln!(f, "  connecting    {}", quantiles(connect))?;
            return writeln!(f, "  both          {}", quantiles(&self.response));
        }
        writeln!(f, "  response      {}", censored(&self.percentiles, &self.response))?;
        writeln!(f, "  service       {}", quantiles(&self.service))?;
        writeln!(f, "  lateness      {}", quantiles(&self.lateness))?;
        writeln!(f, "    our own     {}", quantiles(&self.health.tardiness))
    }

    fn connections(&self, f: &mut String) -> fmt::Result {
        if let Some(StressReport { window, counts, .. }) = &self.stress {
            let StressCounts { connects, connect_failed, renewals, abandoned, .. } = counts;
            writeln!(
                f,
                "  connections   {connects} made, {connect_failed} not to be made, {renewals} \
                 given up by us with {abandoned} packets under way"
            )?;
            let StressCounts { logins, logins_missing, logins_twice, echoes_late, .. } = counts;
            let StressCounts { invalid, closed_by_server, .. } = counts;
            writeln!(
                f,
                "  stress        window {window}: {logins} logins, {logins_missing} missing after \
                 3 s, {logins_twice} twice; {echoes_late} echoes not within 1 s, {invalid} invalid \
                 packets, {closed_by_server} connections ended by the server"
            )?;
        }
        if self.retries + self.malformed > 0 {
            let (retries, malformed) = (self.retries, self.malformed);
            writeln!(f, "  tried again   {retries} connections; {malformed} replies malformed")?;
        }
        if let Some(first) = self.first_failure.as_ref().filter(|_| self.connect.is_some()) {
            writeln!(
                f,
                "  first failure after {} requests with {} users, {:.1} s: {}",
                first.after_requests,
                first.users,
                first.at_ms / 1e3,
                first.words
            )?;
        }
        Ok(())
    }

    fn unanswered(&self, f: &mut String) -> fmt::Result {
        if self.refused > 0 {
            writeln!(f, "  refused       {} by the overloaded server", self.refused)?;
        }
        if self.repeated > 0 {
            writeln!(f, "  sent again    {} whose connection the server ended", self.repeated)?;
        }
        if self.idle as u64 + self.idle_closed > 0 {
            let (up, closed) = (self.idle, self.idle_closed);
            writeln!(
                f,
                "  idle          {up} connections at the end, {closed} closed by the server"
            )?;
        }
        if self.lost + self.censored + self.dropped > 0 {
            let Self { lost, censored, dropped, .. } = self;
            writeln!(
                f,
                "  unanswered    {lost} lost with their connection, {censored} censored, {dropped} \
                 dropped for lack of room"
            )?;
        }
        Ok(())
    }
}

impl Report {
    /// The throughput of each slice of the window as a bar; a dot stands for no reply.
    fn over_time(&self, f: &mut String) -> fmt::Result {
        let rate = |it: &Slice| it.requests as f64 * 1e3 / it.for_ms.max(1e-3);
        let most = self.timeline.iter().map(rate).fold(1.0, f64::max);
        let bar = |it: &Slice| match it.requests {
            0 => '·',
            _ => BARS[(rate(it) / most * (BARS.len() - 1) as f64).round() as usize],
        };
        let bars: String = self.timeline.iter().map(bar).collect();
        let each = self.timeline.first().map_or(0.0, |it| it.for_ms * 1e6);
        writeln!(f, "  over time     {bars} up to {most:.0}/s, each {}", time(each))
    }
}

impl Server {
    fn write(&self, f: &mut String) -> fmt::Result {
        let each = |value: Option<f64>| value.map_or("-".to_owned(), time);
        writeln!(
            f,
            "  server {:<6} {} CPU per request, {} switches per request, {} processes, {} threads",
            self.pid,
            each(self.cpu_ns_per_request),
            self.switches_per_request.map_or("-".to_owned(), |n| format!("{n:.3}")),
            self.processes,
            self.threads
        )?;
        let pss = self.pss_kb.map_or("-".to_owned(), |kb| format!("{kb} kB"));
        writeln!(
            f,
            "  memory        {pss} (PSS), {} kB resident, {} kB at the peak",
            self.rss_kb, self.peak_kb
        )
    }
}

impl Display for TurnsReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "turns · {} windows of {} each", self.windows, time(self.window_ns as f64))?;
        for turn in &self.turns {
            match (&turn.report, &turn.failure) {
                (Some(report), _) => writeln!(f, "\n{report}")?,
                (None, failure) => writeln!(f, "\n{}", failure.as_deref().unwrap_or_default())?,
            }
        }
        Ok(())
    }
}

fn verdict(ok: bool) -> &'static str {
    if ok { "ok" } else { "WRONG" }
}

fn faults(f: &mut String, faults: &Faults) -> fmt::Result {
    for fault in &faults.list {
        let (count, kind, example) = (fault.count, fault.kind, &fault.example);
        writeln!(f, "  error         {count} {kind}; the first: {example}; {}", kind.remedy())?;
    }
    Ok(())
}

/// Percentiles, some known only from below, then maximum and mean of the known times.
fn censored(percentiles: &[Percentile], known: &Quantiles) -> String {
    let one = |it: &Percentile| {
        let more = if it.beyond { "> " } else { "" };
        format!("p{} {more}{}", it.percent, time(it.ns as f64))
    };
    // "More than zero" says nothing.
    let shown = percentiles.iter().filter(|it| it.ns > 0 || !it.beyond);
    let mut parts: Vec<String> = shown.map(one).collect();
    match known.count {
        0 => parts.push(NO_TIME.to_owned()),
        _ => {
            parts.push(format!("max {}", time(known.max_ns as f64)));
            parts.push(format!("mean {}", time(known.mean_ns)));
        }
    }
    parts.join(" · ")
}

/// Leaves out percentiles with fewer than a hundred values beyond them.
fn quantiles(found: &Quantiles) -> String {
    if found.count == 0 {
        return NO_TIME.to_owned();
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_need_values_beyond_them() {
        let few = Quantiles { count: 10, p50_ns: 5, p90_ns: 6, max_ns: 9, ..Quantiles::default() };
        assert_eq!(quantiles(&few), "max 9 ns · mean 0 ns");
        let many = Quantiles { count: 10_000, p99_ns: Some(8), ..few };
        assert_eq!(quantiles(&many), "p50 5 ns · p90 6 ns · p99 8 ns · max 9 ns · mean 0 ns");
    }

    #[test]
    fn outcomes_are_counted_by_status_and_by_fault() {
        let mut report = Report::default();
        let lines = |report: &Report| {
            let mut text = String::new();
            report.outcomes(&mut text).expect("a String takes every text");
            text
        };
        assert_eq!(lines(&report), "");
        report.statuses = [(500, 43), (200, 9801)].into();
        report.errors.count(FaultKind::WrongReply, String::new);
        report.errors.count(FaultKind::Reset, String::new);
        assert_eq!(lines(&report), "  statuses      200: 9,801 · 500: 43 · connections reset: 1\n");
        report.statuses.extend((400..420).map(|status| (status, 1)));
        assert!(lines(&report).contains("405: 1 · others: 14 · connections reset"), "{report}");
    }

    #[test]
    fn a_percentile_that_is_only_known_from_below_says_so() {
        let percentile = |percent, beyond| Percentile { percent, ns: 5000, beyond };
        let percentiles = [percentile(50.0, false), percentile(99.9, true)];
        let one = Quantiles { count: 1, ..Quantiles::default() };
        let text = censored(&percentiles, &one);
        assert_eq!(text, "p50 5.00 µs · p99.9 > 5.00 µs · max 0 ns · mean 0 ns");
        let text = censored(&percentiles, &Quantiles::default());
        assert!(text.ends_with("no request has a time"), "{text}");
    }
}
