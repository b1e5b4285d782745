//! Growing packets, sent as fast as possible, until a copy costs more than avoiding it; then a
//! growing number of streams with packets of a network's size. Blocks are paired, and their order
//! is random.

use super::{alone, sink};
use crate::contest::{Costs, Rng};
use crate::draft::{Draft, Part, one, point};
use crate::exhibit::{Effort, Fault};
use crate::stage::{Settings, Stage};
use document::Series;
use lab::pace::{Around, Work};
use lab::verdict::Verdict;
use stats::words;
use stats::{Comparison, VALUES_MIN, median, median_interval};
use std::time::Duration;

/// All paths are compared with one copy.
const BASE: &str = "wheel-mmap";
/// The others, and how often they copy.
const PATHS: [(&str, &str); 5] = [
    ("wheel-sendto", "read and sendto: two copies"),
    ("sendmmsg", "one copy, many packets a call"),
    ("sendmmsg+gso", "one copy, cut into packets by the kernel"),
    ("sendfile", "pages of the file: no copy"),
    ("msg-zerocopy", "pages of the program: no copy"),
];
/// Those that copy nothing.
const FREE: [&str; 2] = ["sendfile", "msg-zerocopy"];
/// Fifty packets a call, copied and not.
const COPIED: &str = "gso";
const PAGES: &str = "sendfile-gso";
/// Payloads, bytes: the published one, a telephone's, a network's, and beyond.
const SIZES: [u32; 6] = [32, 160, 1_316, 4_096, 16_384, 49_152];
const QUICK: [u32; 2] = [32, 16_384];
/// Streams of a rate that grows, of 1316 B each 30 ms: from the published ten to a core's many.
const STREAMS: [u32; 3] = [10, 100, 1_000];
const RATED: [&str; 2] = ["wheel-sendto", "sendfile"];

fn blocks(settings: &Settings) -> u32 {
    if settings.quick { 1 } else { settings.blocks(VALUES_MIN as u32) }
}

pub fn effort(settings: &Settings) -> Effort {
    let runs = blocks(settings) * (SIZES.len() * (PATHS.len() + 2)) as u32;
    let rated = blocks(settings) * (STREAMS.len() * (RATED.len() + 2)) as u32;
    let share = if settings.quick { 4 } else { 1 };
    let sized = Effort::new(1, Duration::from_millis(260) * runs / share);
    sized.and(Effort::new(1, Duration::from_millis(750) * rated / share / share))
}

/// The costs of the arms at one place of the axis; the first arm is the base.
pub struct At {
    place: u32,
    costs: Costs,
}

pub fn measure(stage: &mut Stage<'_>, it: &mut Draft, senders: &[String]) -> Result<(), Fault> {
    let quick = stage.settings().quick;
    let sizes: &[u32] = if quick { &QUICK } else { &SIZES };
    // A quick visit knows only some senders, so it tries paths that are not listed too.
    let works = |name: &&str| quick || senders.iter().any(|it| it == name);
    let paths: Vec<&str> = PATHS.iter().map(|(name, _)| *name).filter(works).collect();
    let sink = sink(stage);
    let around = alone(stage, sink);
    stage.begin("packets that grow, as fast as they can be sent");
    let share = if quick { 50 } else { 1 };
    let grown = |payload: u32| {
        let packets = (100_000_000 / (payload + 700)).clamp(1_500, 100_000) / share;
        Work { packets, payload, file: true, ..Work::default() }
    };
    let found = measured(stage, BASE, &paths, sizes, around, grown)?;
    let whole = whole(stage, senders, around, share)?;
    stage.step(&format!("{} sizes", found.len()));
    draft(it, &found, &whole, &paths, around);
    stage.begin("streams that become many");
    let time = Duration::from_millis(if quick { 120 } else { 500 });
    let rated = |streams| Work { streams, payload: 1_316, ..Work::audio(time) };
    let rates: &[u32] = if quick { &STREAMS[..1] } else { &STREAMS };
    let paths: Vec<&str> = RATED.into_iter().filter(works).collect();
    let many = measured(stage, BASE, &paths, rates, around, rated)?;
    stage.step(&format!("{} rates", many.len()));
    draft_rates(it, &many, &paths, around);
    Ok(())
}

/// Fifty packets of 1316 bytes a call, copied and as pages, with heads and payloads in the file
/// as they are sent.
fn whole(
    stage: &mut Stage<'_>,
    senders: &[String],
    around: Around,
    share: u32,
) -> Result<Vec<At>, Fault> {
    if [COPIED, PAGES].iter().any(|name| !senders.iter().any(|it| it == name)) {
        return Ok(Vec::new());
    }
    let packets = 400_000 / share;
    let recorded =
        |payload| Work { packets, payload, file: true, records: true, ..Work::default() };
    measured(stage, COPIED, &[PAGES], &[1_316], around, recorded)
}

/// Every arm once in each block and at each place, in random order; the base twice.
fn measured(
    stage: &mut Stage<'_>,
    base: &str,
    paths: &[&str],
    places: &[u32],
    around: Around,
    work: impl Fn(u32) -> Work,
) -> Result<Vec<At>, Fault> {
    let names: Vec<&str> = [base].into_iter().chain(paths.iter().copied()).collect();
    let mut rng = Rng::new(u64::from(stage.settings().seed));
    let mut found = Vec::new();
    for &place in places {
        let mut costs: Vec<Vec<f64>> = vec![Vec::new(); names.len() + 1];
        for _ in 0..blocks(stage.settings()) {
            for at in rng.order(costs.len()) {
                // The last is the base once more.
                let sender = names.get(at).copied().unwrap_or(base);
                let reading = stage.cast(sender, work(place), around)?;
                // A failed run yields NaN; ratios leave it out.
                costs[at].push(reading.map_or(f64::NAN, |it| it.each_ns()));
            }
        }
        let twin = costs.pop().unwrap_or_default();
        if !stage.stopped() {
            found.push(At { place, costs: Costs::new(&names, costs, twin) });
        }
    }
    Ok(found)
}

/// A ratio with its interval, if it has one.
fn compared(it: &Comparison) -> String {
    match &it.interval {
        Some(range) => format!("{:.2} {}", it.ratio, words::interval(range)),
        None => format!("{:.2}", it.ratio),
    }
}

/// Whether every figure has an interval.
fn is_claim(found: &[At]) -> bool {
    let has = |at: &At| at.costs.twin().is_some_and(|it| it.interval.is_some());
    found.iter().all(has)
}

/// The place's ratios to one copy, in the order of `paths`, and how far the base is from itself.
fn cells(at: &At, paths: &[&str]) -> Vec<String> {
    let floor = at.costs.twin().map(|it| compared(&it));
    let none = || words::NONE.to_string();
    let against = |path: &&str| at.costs.against(path, BASE).map(|it| compared(&it));
    let mut cells: Vec<String> = paths.iter().map(|it| against(it).unwrap_or_else(none)).collect();
    cells.push(floor.unwrap_or_else(none));
    cells
}

pub fn draft(it: &mut Draft, found: &[At], whole: &[At], paths: &[&str], around: Around) {
    let ways: Vec<String> = PATHS.iter().map(|(name, how)| format!("{name} ({how})")).collect();
    let by_call = whole.first().and_then(|at| at.costs.against(PAGES, COPIED));
    it.set("base", BASE);
    it.set("ways", ways);
    it.set("copies_sink", around.sink.words());
    it.set("copies_first", found.first().map(free));
    it.set("copies_last", found.last().map(free));
    it.set("crossings", FREE.map(|path| crossing(found, path)));
    it.set("copies_claim", is_claim(found));
    it.set("by_call", by_call.as_ref().map(compared));
    it.set("pages_call", PAGES);
    it.set("copied_call", COPIED);
    let mut part = Part::default();
    part.head.extend(paths.iter().map(ToString::to_string));
    part.head.push("one copy again".to_string());
    for at in found {
        let ns = at.costs.median(BASE).unwrap_or(f64::NAN);
        let row = [words::count(at.place), words::number(ns.round())].into_iter();
        part.rows.push(row.chain(cells(at, paths)).collect());
    }
    ratios(&mut part, found, paths);
    it.room("copies", part);
    let cheapest = |at: &At, than: &str| {
        let all = FREE.into_iter().filter_map(|path| at.costs.against(path, than));
        all.min_by(|a, b| a.ratio.total_cmp(&b.ratio))
    };
    let smallest = found.first().and_then(|at| cheapest(at, "wheel-sendto"));
    it.expect_ratio("copies-do-not-matter", smallest.as_ref());
    let largest = found.last().and_then(|at| cheapest(at, BASE));
    it.expect_ratio("copies-matter", largest.as_ref());
    it.expect_ratio("copies-matter-by-the-call", by_call.as_ref());
}

/// Ratios to one copy, against the growing quantity.
fn ratios(part: &mut Part, found: &[At], paths: &[&str]) {
    for path in paths {
        let points = found
            .iter()
            .filter_map(|at| Some(point(f64::from(at.place), &at.costs.against(path, BASE)?)));
        part.series(Series::measured(*path, points));
    }
    part.series(one("one copy", found.iter().map(|at| f64::from(at.place))));
}

/// The size at which a path without a copy becomes as cheap as one copy: the straight line between
/// two sizes, on logarithmic axes, in each block; `None` unless every block has one.
fn crossings(found: &[At], path: &str) -> Option<Vec<f64>> {
    let blocks = found.first()?.costs.of(BASE).len();
    let ratio = |at: &At, block: usize| {
        let of = |name: &str| at.costs.of(name).get(block).copied();
        Some((f64::from(at.place).ln(), (of(path)? / of(BASE)?).ln()))
    };
    let one = |block: usize| {
        let all: Vec<(f64, f64)> = found.iter().filter_map(|at| ratio(at, block)).collect();
        let two = all.windows(2).rfind(|two| two[0].1 > 0.0 && two[1].1 <= 0.0)?;
        let [(x, y), (far, low)] = [two[0], two[1]];
        Some((x + (far - x) * y / (y - low)).exp())
    };
    (0..blocks).map(one).collect()
}

/// `from 9,412 bytes on [7,020, 12,800]`, or that it does not.
fn crossing(found: &[At], path: &str) -> String {
    let Some(sizes) = crossings(found, path).filter(|it| !it.is_empty()) else {
        let most = words::count(found.last().map_or(0, |at| at.place));
        return format!("{path} does not become cheaper up to {most} bytes");
    };
    let bytes = |it: f64| words::number(it.round());
    let range = median_interval(&sizes)
        .map_or(String::new(), |it| format!(" [{}, {}]", bytes(it.low), bytes(it.high)));
    let middle = median(&sizes).unwrap_or(f64::NAN);
    format!("{path} is cheaper from {}{range} bytes on", bytes(middle))
}

/// The paths without a copy by one copy, such as `at 32 bytes sendfile 1.20 [1.15, 1.26]`.
fn free(at: &At) -> String {
    let each = FREE
        .into_iter()
        .filter_map(|path| Some(format!("{path} {}", compared(&at.costs.against(path, BASE)?))));
    format!("at {} bytes {}", words::count(at.place), each.collect::<Vec<_>>().join(", "))
}

pub fn draft_rates(it: &mut Draft, found: &[At], paths: &[&str], around: Around) {
    let clear = found.iter().flat_map(|at| {
        paths.iter().filter_map(|path| {
            let it = at.costs.against(path, BASE)?;
            let is_clear = [Verdict::Better, Verdict::Worse].contains(&at.costs.verdict(&it));
            is_clear
                .then(|| format!("{path} at {} streams {}", words::count(at.place), compared(&it)))
        })
    });
    it.set("rates_clear", clear.collect::<Vec<_>>());
    it.set("rates_sink", around.sink.words());
    it.set("rates_claim", is_claim(found));
    let mut part = Part::default();
    part.head.extend(paths.iter().map(ToString::to_string));
    part.head.push("one copy again".to_string());
    for at in found {
        let ns = at.costs.median(BASE).unwrap_or(f64::NAN);
        let rate = words::number((f64::from(at.place) / 0.03).round());
        let row = [words::count(at.place), rate, format!("{:.2}", ns / 1e3)].into_iter();
        part.rows.push(row.chain(cells(at, paths)).collect());
    }
    ratios(&mut part, found, paths);
    it.room("rates", part);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(place: u32, free: &[f64]) -> At {
        let names = [BASE, "sendfile"];
        let base = vec![100.0; free.len()];
        At { place, costs: Costs::new(&names, vec![base.clone(), free.to_vec()], base) }
    }

    #[test]
    fn a_crossing_lies_where_the_ratio_passes_one_in_every_block() {
        // Twice as dear at 100 bytes, half as dear at 10,000: one at a thousand.
        let found = [at(100, &[200.0; 6]), at(10_000, &[50.0; 6])];
        let sizes = crossings(&found, "sendfile").expect("every block crosses");
        assert!(sizes.iter().all(|it| (it - 1000.0).abs() < 1e-6), "{sizes:?}");
        let said = crossing(&found, "sendfile");
        assert_eq!(said, "sendfile is cheaper from 1,000 [1,000, 1,000] bytes on");
        let never = [at(100, &[200.0; 6]), at(10_000, &[150.0, 50.0, 50.0, 50.0, 50.0, 50.0])];
        assert_eq!(crossings(&never, "sendfile"), None);
        assert!(crossing(&never, "sendfile").contains("up to 10,000 bytes"));
    }
}
