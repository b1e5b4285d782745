//! The live view as a screen: rate and latency over time, the histogram, errors, and the state of
//! the generator.

use super::view::{Bin, View};
use load::drive::StressCounts;
use load::health::Verdict;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, Gauge, GraphType, Paragraph, Wrap};
use stats::words::{compact, time};

/// The colours of median, 99th percentile and longest time.
const HUES: [Color; 3] = [Color::Green, Color::Yellow, Color::Red];
/// The maximum number of kinds of faults that are shown, the most recent last.
const FAULTS_MAX: usize = 3;
/// Columns of a histogram's row besides its bar: the time and the share.
const ROW_TEXT: u16 = 19;

/// Draws a run; `hint` names the keys.
pub fn screen(frame: &mut Frame<'_>, view: &View, hint: &str) {
    let [head, bar, charts, rest] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Fill(1),
    ])
    .areas(frame.area());
    let halves = || Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]);
    let ([rate, times], [shape, health]) = (halves().areas(charts), halves().areas(rest));
    title(frame, head, view, hint);
    progress(frame, bar, view);
    rates(frame, rate, view);
    latencies(frame, times, view);
    histogram(frame, shape, view);
    generator(frame, health, view);
}

fn title(frame: &mut Frame<'_>, area: Rect, view: &View, hint: &str) {
    // A long head is cut, with a gap before the hint.
    let hint = format!("  {hint}");
    let columns = Constraint::Length(hint.chars().count() as u16);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), columns]).areas(area);
    frame.render_widget(Line::from(format!(" {}", view.head)).bold(), left);
    frame.render_widget(Line::from(hint).dim(), right);
}

fn progress(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let (share, words) = view.progress();
    let gauge = Gauge::default().ratio(share.clamp(0.0, 1.0)).label(words);
    frame.render_widget(gauge.gauge_style(Color::Blue), area);
}

fn rates(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let point = |bin: &Bin, count: u64| (view.middle(bin), bin.rate(count));
    let good: Vec<_> = view.bins.iter().map(|bin| point(bin, bin.done)).collect();
    let bad: Vec<_> = view.bins.iter().map(|bin| point(bin, bin.failed)).collect();
    let top = good.iter().chain(&bad).map(|&(_, rate)| rate).fold(1.0, f64::max) * 1.1;
    let mut sets = vec![set(&good, HUES[0], GraphType::Line)];
    if bad.iter().any(|&(_, rate)| rate > 0.0) {
        sets.push(set(&bad, HUES[2], GraphType::Line));
    }
    let heading = Line::from(vec![
        Span::raw(" replies a second · now "),
        Span::styled(format!("{} ", compact(view.rate())), HUES[0]),
    ]);
    let labels = [0.0, top / 2.0, top].map(compact);
    let y = Axis::default().bounds([0.0, top]).labels(labels).style(Style::new().dim());
    chart(frame, area, view, heading, sets, y);
}

fn latencies(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let of = |find: &dyn Fn(&Bin) -> Option<u64>| -> Vec<(f64, f64)> {
        let point = |bin: &Bin| Some((view.middle(bin), (find(bin)? as f64).max(1.0).log10()));
        view.bins.iter().filter_map(point).collect()
    };
    let p50 = of(&|bin| bin.times.quantile(0.5));
    let p99 = of(&|bin| bin.times.quantile(0.99));
    let max = of(&|bin| (bin.times.count() > 0).then(|| bin.times.max()));
    let least = p50.iter().map(|it| it.1).fold(f64::INFINITY, f64::min);
    let most = max.iter().map(|it| it.1).fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = match least <= most {
        true => (least.floor(), most.ceil().max(least.floor() + 1.0)),
        false => (3.0, 6.0),
    };
    let sets = vec![
        set(&max, HUES[2], GraphType::Scatter),
        set(&p99, HUES[1], GraphType::Line),
        set(&p50, HUES[0], GraphType::Line),
    ];
    let heading = Line::from(vec![
        Span::raw(format!(" {} time · ", view.times)),
        Span::styled("p50 ", HUES[0]),
        Span::styled("p99 ", HUES[1]),
        Span::styled("max ", HUES[2]),
    ]);
    // Labels are evenly spaced: one a decade, if all of them fit.
    let decades = (high - low) as usize;
    let step = decades.div_ceil(usize::from(area.height.saturating_sub(4)).max(1)).max(1);
    let labels: Vec<String> = match decades % step {
        0 => (0..=decades).step_by(step).map(|it| decade(low + it as f64)).collect(),
        _ => vec![decade(low), decade(high)],
    };
    let y = Axis::default().bounds([low, high]).labels(labels).style(Style::new().dim());
    chart(frame, area, view, heading, sets, y);
}

/// A power of ten of nanoseconds.
fn decade(power: f64) -> String {
    match power as i32 {
        ..3 => format!("{:.0} ns", 10f64.powf(power)),
        3..6 => format!("{:.0} µs", 10f64.powf(power - 3.0)),
        6..9 => format!("{:.0} ms", 10f64.powf(power - 6.0)),
        _ => format!("{:.0} s", 10f64.powf(power - 9.0)),
    }
}

fn chart(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &View,
    heading: Line<'_>,
    sets: Vec<Dataset<'_>>,
    y: Axis<'_>,
) {
    let end = view.end().max(1.0);
    let labels = ["0 s".to_owned(), format!("{end:.0} s")];
    let x = Axis::default().bounds([0.0, end]).labels(labels).style(Style::new().dim());
    let chart = Chart::new(sets).block(Block::bordered().title(heading)).x_axis(x).y_axis(y);
    frame.render_widget(chart.legend_position(None), area);
}

fn set(data: &[(f64, f64)], hue: Color, kind: GraphType) -> Dataset<'_> {
    Dataset::default().data(data).marker(Marker::Braille).graph_type(kind).style(hue)
}

fn histogram(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let heading = format!(" {} times, {} of them ", view.times, view.sum.times.count());
    let block = Block::bordered().title(heading);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let rows = rows(view, usize::from(inner.height));
    let most = rows.iter().map(|&(_, count)| count).max().unwrap_or(0).max(1);
    let all = view.sum.times.count().max(1) as f64;
    let width = f64::from(inner.width.saturating_sub(ROW_TEXT));
    let line = |&(edge, count): &(u64, u64)| {
        let bar = bar(count as f64 / most as f64 * width, count > 0);
        let share = count as f64 / all * 100.0;
        Line::from(vec![
            Span::raw(format!("{:>9} ", time(edge as f64))).dim(),
            Span::styled(bar, Color::Blue),
            Span::raw(if count > 0 { format!(" {share:.3} %") } else { String::new() }),
        ])
    };
    let lines: Vec<Line<'_>> = rows.iter().map(line).collect();
    frame.render_widget(Paragraph::new(lines), inner);
}

/// The histogram on the finest scale whose rows all fit, with the empty ones between them.
fn rows(view: &View, height: usize) -> Vec<(u64, u64)> {
    let times = &view.sum.times;
    for bits in (0..=3).rev() {
        let found = times.buckets(bits);
        let (Some(&(first, _)), Some(&(last, _))) = (found.first(), found.last()) else {
            return Vec::new();
        };
        let edges = edges(first, last, bits);
        if edges.len() <= height {
            let count = |edge: u64| found.iter().find(|it| it.0 == edge).map_or(0, |it| it.1);
            return edges.into_iter().map(|edge| (edge, count(edge))).collect();
        }
    }
    // Even one octave a row does not fit, so a row gets several.
    let octaves = times.buckets(0);
    let (first, last) = (octaves[0].0, octaves[octaves.len() - 1].0);
    let all = edges(first, last, 0);
    let each = all.len().div_ceil(height.max(1));
    let sum = |chunk: &[u64]| {
        let inside = |it: &&(u64, u64)| chunk.contains(&it.0);
        (chunk[0], octaves.iter().filter(inside).map(|it| it.1).sum())
    };
    all.chunks(each).map(sum).collect()
}

/// Lower edges of rows, `2^bits` an octave (see [`meter::Spectrum::buckets`]).
fn edges(first: u64, last: u64, bits: u32) -> Vec<u64> {
    let next = |edge: &u64| Some(edge + (1 << edge.ilog2() >> bits)).filter(|it| *it <= last);
    std::iter::successors(Some(first), next).collect()
}

/// A bar of this many columns, in eighths.
fn bar(columns: f64, some: bool) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = ((columns * 8.0).round() as usize).max(usize::from(some));
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

fn generator(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let health = view.health();
    let hue = match health.verdict {
        Verdict::Ok => Color::Green,
        Verdict::GeneratorLimited => Color::Yellow,
        Verdict::Invalid => Color::Red,
    };
    let heading = Line::from(vec![
        Span::raw(" generator "),
        Span::styled(format!("{} ", health.verdict), hue),
    ]);
    let mut lines: Vec<Line<'_>> = Vec::new();
    let times = view.percentiles();
    let times = times.iter().map(|&(name, ns)| format!("{name} {}", time(ns as f64)));
    lines.push(Line::from(times.collect::<Vec<_>>().join(" · ")).bold());
    let (outstanding, connections) = view.open();
    lines.push(Line::from(format!("{outstanding} outstanding on {connections} connections")));
    lines.extend(view.strain.as_ref().map(strain));
    let late = &health.tardiness;
    let noticed = match late.count {
        0 => String::new(),
        _ => format!(" · p99 of its lateness {}", time(late.p99_ns.unwrap_or(late.p90_ns) as f64)),
    };
    let stalls = match health.stalled_ns {
        0 => String::new(),
        ns => format!(" · kept from running {}", time(ns as f64)),
    };
    lines.push(Line::from(format!("{:.0} % busy{noticed}{stalls}", health.busy * 100.0)));
    lines.extend(health.reasons.into_iter().map(|reason| Line::from(reason).fg(hue)));
    let wrong = view.faults.total() + view.sum.failed > 0;
    let hue = if wrong { HUES[2] } else { Color::Reset };
    lines.push(Line::from(view.errors()).fg(hue));
    for fault in view.faults.list.iter().rev().take(FAULTS_MAX) {
        let text = format!("{} {}: {}", fault.count, fault.kind, fault.example);
        lines.push(Line::from(text).fg(HUES[2]));
    }
    let text = Paragraph::new(lines).wrap(Wrap { trim: true });
    frame.render_widget(text.block(Block::bordered().title(heading)), area);
}

/// The counts of a stress client; errors other than those of the connection are among the faults.
fn strain(strain: &StressCounts) -> Line<'static> {
    let StressCounts { logins, logins_missing, logins_twice, echoes_late, .. } = strain;
    let StressCounts { renewals, abandoned, closed_by_server, .. } = strain;
    let text = format!(
        "logins {logins}, missing {logins_missing}, twice {logins_twice} · echoes not within 1 s \
         {echoes_late} · ended by the server {closed_by_server} · renewed {renewals} with \
         {abandoned} under way"
    );
    let bad = logins_missing + logins_twice + echoes_late + closed_by_server > 0;
    Line::from(text).fg(if bad { HUES[2] } else { Color::Reset })
}

#[cfg(test)]
mod tests;
