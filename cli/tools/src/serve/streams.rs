//! The figures of a media server's streams: as metrics while it runs, and as a line at the end.

use ::media::Orders;
use engines::StateStore;
use engines::status::Gauge;
use pacing::{Counter, StreamStats};
use seam::PacketClass;
use stats::words::time;

/// Prints how late packets left, if there were any, and the `skipped` ones (stderr).
pub fn report(stats: &StreamStats, skipped: u64) {
    let (packets, failed) = (stats.packets.read(), stats.failed.read());
    let dropped: u64 = stats.dropped.iter().map(Counter::read).sum();
    if skipped > 0 {
        language::info!("{skipped} packets were skipped, because they were too late");
    }
    if packets == 0 {
        return;
    }
    let late = |share| stats.quantile(share).map(|late| time(late.as_nanos() as f64));
    let late = match (late(0.5), late(0.99), late(0.999)) {
        (Some(half), Some(most), Some(tail)) => format!(
            "lateness p50 {half}, p99 {most}, p99.9 {tail}, {} later than 10 ms",
            stats.late.read()
        ),
        _ => "the kernel sent them and does not report when".to_owned(),
    };
    language::info!("{packets} packets in {} calls, {failed} not sent; {late}", stats.calls.read());
    if dropped > 0 {
        language::info!("{dropped} packets too late for their class were dropped");
    }
}

/// A store of a media server's state that keeps nothing, and reports on its streams.
pub struct StreamMetrics<'a> {
    /// The figures of streams by UDP.
    pub stats: &'a StreamStats,
}

impl StateStore<Orders> for StreamMetrics<'_> {
    fn gauges(&self, orders: &Orders) -> Vec<Gauge> {
        let gauge = |name: &str, help: &str, value: u64, is_total| Gauge {
            name: format!("media_{name}"),
            help: help.to_owned(),
            labels: Vec::new(),
            value: value as f64,
            is_total,
        };
        let set_up = orders.count() as u64;
        let skipped = "Packets left out because they were too late";
        let totals = orders.heard();
        let (lost, share) = (totals.lost.max(0) as u64, u64::from(totals.lost_share) * 100 / 256);
        let trip = totals.round_trip.as_micros() as u64;
        let stats = self.stats;
        let mut gauges = vec![
            gauge("transmissions", "Tracks set up for UDP", set_up, false),
            gauge("skipped", skipped, orders.skipped(), true),
            gauge("heard", "Transmissions of which receivers report", totals.reporting, false),
            gauge("heard_lost", "Packets that they miss", lost, false),
            gauge("heard_lost_percent", "The most that one missed lately", share, false),
            gauge("round_trip_us", "The longest way there and back, in us", trip, false),
            gauge("streams", "Streams running", stats.running(), false),
            gauge("packets", "Packets that the kernel took", stats.packets.read(), true),
            gauge("calls", "System calls that took them", stats.calls.read(), true),
            gauge("failed", "Packets that could not leave", stats.failed.read(), true),
            gauge("late", "Packets later than 10 ms", stats.late.read(), true),
            gauge("caught_up", "Calls of late streams", stats.caught_up.read(), true),
            gauge("reports", "Datagrams heard", stats.received.read(), true),
        ];
        gauges.extend(PacketClass::ALL.map(|class| {
            let dropped = stats.dropped[class as usize].read();
            let labels = vec![("class".to_owned(), class.name().to_owned())];
            Gauge { labels, ..gauge("dropped", "Packets too late for their class", dropped, true) }
        }));
        // Where the kernel paces, the moment of leaving is unknown.
        for (share, name, help) in [
            (0.5, "lateness_p50_us", "Half were not later, in us"),
            (0.99, "lateness_p99_us", "99 of 100 were not later, in us"),
        ] {
            let late = stats.quantile(share).map(|late| late.as_micros() as u64);
            gauges.extend(late.map(|us| gauge(name, help, us, false)));
        }
        gauges
    }
}
