//! The price of a request, of a connection, and of its idleness.

use std::time::Duration;

use lab::idle::IdleSockets;
use load::model::Model;
use load::turns::STILL_WARMING;
use load::work::Think;
use load::{Plan, Report};
use stats::words;

use super::Finding;
use crate::stand::Stand;

/// Connections that load a server to saturation.
const MANY: usize = 32;
/// The most loads until a server is warm.
const WARM_MAX: u32 = 5;
/// Idle connections that are weighed, after others that fill what a server touches once.
const WEIGHED: [u32; 2] = [100, 400];
/// Memory of an idle connection that an operator should know (bytes).
const HEAVY: f64 = 256.0 * 1024.0;

/// The minor and major page faults of all processes so far (proc_pid_stat(5), fields 10 to 13).
fn faults(stand: &Stand) -> u64 {
    let stats = stand.life.pids().into_iter().filter_map(meter::proc::stat);
    stats.map(|stat| stat[10..14].iter().sum::<u64>()).sum()
}

fn closed(stand: &Stand, connections: usize, each: Option<u64>) -> Result<Report, String> {
    let mut plan: Plan = stand.plan(connections, stand.span(1.0)).ok_or("no protocol is known")?;
    plan.model = Model::Closed { depth: 1, think: Think::None, ramp: None };
    if each.is_some() {
        plan.settings.requests_per_connection = each;
    }
    plan.settings.drain = Duration::from_millis(500);
    let report = stand.load(&plan)?;
    match report.requests {
        0 => Err("no request was answered".to_owned()),
        _ => Ok(report),
    }
}

/// CPU time of a request (ns).
fn cpu(report: &Report) -> Result<f64, String> {
    let server = report.server.as_ref().ok_or("its CPU time cannot be read")?;
    server.cpu_ns_per_request.ok_or_else(|| "no request was answered".to_owned())
}

/// A load of many clients and its page faults per request.
fn full(stand: &Stand) -> Result<(Report, f64), String> {
    let before = faults(stand);
    let report = closed(stand, MANY, None)?;
    let faults = faults(stand).saturating_sub(before) as f64 / report.requests_total.max(1) as f64;
    Ok((report, faults))
}

/// The same, once it grows no cheaper: a JIT compiles what runs.
fn warm(stand: &Stand) -> Result<(Report, f64), String> {
    let mut last = full(stand)?;
    for _ in 1..WARM_MAX {
        let next = full(stand)?;
        let is_warm = cpu(&next.0)? > cpu(&last.0)? * STILL_WARMING;
        last = next;
        if is_warm {
            break;
        }
    }
    Ok(last)
}

pub(super) fn request(stand: &mut Stand) -> Result<Finding, String> {
    let (full, faults) = warm(stand)?;
    let alone = closed(stand, 1, None)?;
    let (one, many) = (cpu(&alone)?, cpu(&full)?);
    let switches = |report: &Report| {
        let count = report.server.as_ref().and_then(|it| it.switches_per_request);
        words::or_none(count, words::rate)
    };
    let evidence = format!(
        "{} of CPU time at depth 1, {} with {MANY} clients; {} and {} context switches, {} page \
         faults per request",
        words::time(one),
        words::time(many),
        switches(&alone),
        switches(&full),
        words::rate(faults),
    );
    let finding = Finding::good(evidence).measured("cpu_ns", one).measured("cpu_full_ns", many);
    Ok(finding.measured("rate", full.throughput_rps).measured("faults", faults))
}

pub(super) fn connection(stand: &mut Stand) -> Result<Finding, String> {
    let fresh = closed(stand, 4, Some(1))?;
    let new = cpu(&fresh)?;
    let handshake = fresh.tls.as_ref().map_or(String::new(), |tls| {
        format!(
            "; a handshake of {} takes {}",
            tls.version,
            words::time(tls.handshake.p50_ns as f64)
        )
    });
    if !stand.speech.stays {
        let evidence = format!("each request has its connection: {}{handshake}", words::time(new));
        return Ok(Finding::good(evidence).measured("cpu_ns", new));
    }
    let kept = cpu(&closed(stand, 4, None)?)?;
    let price = (new - kept).max(0.0);
    let evidence = format!(
        "{} of CPU time for a new connection, next to {} for a request{handshake}",
        words::time(price),
        words::time(kept)
    );
    Ok(Finding::good(evidence).measured("cpu_ns", price))
}

pub(super) fn idle(stand: &mut Stand) -> Result<Finding, String> {
    let pid = stand.life.pid().ok_or("its process cannot be seen")?;
    let address = stand.life.at.to_string();
    let mut sockets = IdleSockets::within(stand.span(5.0));
    sockets.grow(&address, pid, WEIGHED[0]);
    sockets.grow(&address, pid, WEIGHED[1]);
    sockets.weigh(pid);
    let seen = sockets.close();
    let each = seen.bytes_each.ok_or_else(|| match seen.why.as_str() {
        "" => "its memory cannot be read".to_owned(),
        why => why.to_owned(),
    })?;
    let evidence = format!("{} of memory for an idle connection", words::size(each / 1e3));
    let finding = match each > HEAVY {
        true => Finding::attention(evidence, "thousands of idle clients take gigabytes"),
        false => Finding::good(evidence),
    };
    Ok(finding.measured("bytes", each))
}
