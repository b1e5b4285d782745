//! The published figures of the stock market of a systems programming course.
//!
//! The assignment: a concurrent stock server, once with `select` (event-based), once with a pool of
//! threads. The kit's `multiclient` measures both: each of its clients sends ten orders and sleeps
//! for one second after every one. The figures are those of one report, means of three runs with
//! server and clients on two machines of the faculty. They are facts and are cited as such; the
//! conclusions are translated from the Korean.

use document::Series;
use stats::words;
use std::time::Duration;

/// The source of the figures.
pub const SOURCE: &str = "Report on the concurrent stock server of a course in systems programming \
    (Sogang University, CSE4100, project 3), section 4, performance evaluation; after Bryant and \
    O'Hallaron, Computer Systems: A Programmer's Perspective, chapter 12";

/// Orders of each client.
pub const ORDERS: u32 = 10;
/// The sleep after each order, also the last.
pub const PAUSE: Duration = Duration::from_secs(1);
/// Sizes of the crowd.
pub const CLIENTS: [u32; 5] = [1, 10, 100, 500, 1_000];
/// Worker threads of the pool: as many as the largest number of clients.
pub const WORKERS: u32 = 1_000;
/// Runs behind each mean.
pub const RUNS: u32 = 3;

/// The clients' mix of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// A third each of show, buy and sell.
    Mixed,
    /// Show only.
    Show,
    /// Buy and sell, half each.
    Trade,
}

impl Mix {
    /// All three.
    pub const ALL: [Mix; 3] = [Mix::Mixed, Mix::Show, Mix::Trade];

    /// In a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Mix::Mixed => "mixed",
            Mix::Show => "show only",
            Mix::Trade => "buy and sell only",
        }
    }

    /// As `roundhouse load --mix` and `multiclient --mix` take it.
    pub fn flag(self) -> &'static str {
        match self {
            Mix::Mixed => "show=1,buy=1,sell=1",
            Mix::Show => "show=1",
            Mix::Trade => "buy=1,sell=1",
        }
    }

    /// Published times from the first connection to the last disconnect, seconds, at each of
    /// [`CLIENTS`]: event-based and thread-based.
    pub fn elapsed_s(self) -> [[f64; 5]; 2] {
        match self {
            Mix::Mixed => [
                [10.005_461, 10.015_301_33, 10.112_910_67, 11.974_495_67, 13.140_452],
                [10.007, 10.016_666_67, 10.099, 11.369_333_33, 12.764],
            ],
            Mix::Show => [
                [10.005_278_33, 10.015_331_5, 10.115_765_33, 11.486_077, 13.167_244_33],
                [10.007_666_67, 10.016_333_33, 10.101_666_67, 11.406_333_33, 13.115],
            ],
            Mix::Trade => [
                [10.005_553, 10.014_734_67, 10.114_293, 12.554_346_33, 13.156_916],
                [10.007_666_67, 10.017, 10.096_666_67, 11.396_333_33, 13.12],
            ],
        }
    }

    /// Published requests per second: event-based and thread-based.
    pub fn throughput_rps(self) -> [[f64; 5]; 2] {
        let mut all = self.elapsed_s();
        for side in &mut all {
            for (elapsed, clients) in side.iter_mut().zip(CLIENTS) {
                *elapsed = f64::from(clients * ORDERS) / *elapsed;
            }
        }
        all
    }
}

/// The published throughput at `clients`, if that is one of the sizes.
pub fn published_rps(mix: Mix, side: usize, clients: u32) -> Option<f64> {
    let at = CLIENTS.iter().position(|it| *it == clients)?;
    Some(mix.throughput_rps()[side][at])
}

/// The published table of throughputs for these mixes.
pub fn throughputs(mixes: &[Mix]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for mix in mixes {
        let [event, thread] = mix.throughput_rps();
        for ((clients, event), thread) in CLIENTS.into_iter().zip(event).zip(thread) {
            let numbers = [words::count(clients), words::number(event), words::number(thread)];
            rows.push([mix.name().to_string()].into_iter().chain(numbers).collect());
        }
    }
    rows
}

/// The published throughputs of a mix as two series over the number of clients.
pub fn series(mix: Mix) -> [Series; 2] {
    let [event, thread] = mix.throughput_rps();
    let points = |side: [f64; 5]| CLIENTS.map(f64::from).into_iter().zip(side);
    [
        Series::published("published, event-based", points(event)),
        Series::published("published, thread-based", points(thread)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughputs_are_those_that_were_printed() {
        // The report prints both columns. The second follows from the first, except for the
        // difference between a mean of three quotients and a quotient of means.
        fn check(mix: Mix, side: usize, want: [f64; 5]) {
            for (found, want) in mix.throughput_rps()[side].into_iter().zip(want) {
                assert!((found / want - 1.0).abs() < 0.000_1, "{mix:?} {side}: {found} {want}");
            }
        }
        check(Mix::Mixed, 0, [0.999_454, 9.984_722, 98.883_5, 417.554, 761.009]);
        check(Mix::Mixed, 1, [0.999_300, 9.983_361, 99.019_7, 439.780, 783.453]);
        check(Mix::Show, 0, [0.999_472, 9.984_692, 98.855_6, 435.310, 759.460]);
        check(Mix::Show, 1, [0.999_234, 9.983_693, 98.993_6, 438.353, 762.486]);
        check(Mix::Trade, 0, [0.999_445, 9.985_287, 98.870_0, 398.268, 760.057]);
        check(Mix::Trade, 1, [0.999_234, 9.983_029, 99.042_6, 438.738, 762.195]);
    }

    #[test]
    fn what_was_not_measured_was_not_published() {
        assert_eq!(published_rps(Mix::Show, 0, 7), None);
        let found = published_rps(Mix::Mixed, 1, 1_000).expect("the last column");
        assert!((found - 783.45).abs() < 0.01);
    }
}
