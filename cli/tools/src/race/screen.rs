//! The race on a terminal: narrowing estimates, the machine's noise, and events.
//!
//! The view is drawn below the last line of the terminal, at most four times a second, and is
//! erased at its end; the tables follow it. It does not use raw mode. So Ctrl-C stays a signal, and
//! an abrupt end leaves the terminal in order.

use lab::live::{Estimate, Live, Snapshot};
use language::Level;
use pages::words;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Gauge, Paragraph, Row, Sparkline, Table};
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use stats::{Comparison, Decision};
use std::io::{IsTerminal, Stderr, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lab::verdict::Metric;

/// Between two drawings.
const PERIOD: Duration = Duration::from_millis(250);
/// Lines in addition to the estimates: head, bar, heading, noise, two of news.
const FRAME: u16 = 6;
/// Estimates beyond this number are not drawn.
const ROWS_MAX: u16 = 24;
/// The widest and the narrowest strip of an interval; where there is less room, there is none.
const STRIP: [usize; 2] = [9, 33];
/// The widths of the other columns, with a blank: `memory`, `0.58× [0.46, 0.61]`, `unresolved`.
const KINDS: usize = 7;
const RATIOS: usize = 20;
const WORDS: usize = 17;
/// Half the width of the strips' axis, as a factor.
const AXIS: f64 = 2.0;

/// A running screen; dropping it clears it.
pub struct Screen {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Screen {
    /// Begins to draw the state of `live`; `None` if stderr is not a terminal, or cannot be drawn
    /// on, or if the level of messages asks for less or for more.
    pub fn open(live: &Live) -> Option<Screen> {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if !stderr().is_terminal() || dumb || Level::chosen() != Level::Plain {
            return None;
        }
        let height = FRAME + live.snapshot().rows.min(ROWS_MAX.into()) as u16;
        let viewport = Viewport::Inline(height);
        let backend = CrosstermBackend::new(stderr());
        let mut terminal = Terminal::with_options(backend, TerminalOptions { viewport }).ok()?;
        let over = Arc::new(AtomicBool::new(false));
        let (mine, live) = (Arc::clone(&over), live.clone());
        let thread = thread::Builder::new().name("screen".to_string()).spawn(move || {
            while !mine.load(Ordering::Relaxed) {
                let shot = live.snapshot();
                if terminal.draw(|frame| draw(frame, &shot)).is_err() {
                    return;
                }
                thread::park_timeout(PERIOD);
            }
            leave(&mut terminal);
        });
        Some(Screen { over, thread: Some(thread.ok()?) })
    }
}

/// Clears the drawing and restores the cursor.
fn leave(terminal: &mut Terminal<CrosstermBackend<Stderr>>) {
    // A terminal that cannot be cleared any more is not ours to repair.
    let _ = terminal.clear();
    let _ = terminal.show_cursor();
    let _ = Backend::flush(terminal.backend_mut());
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn draw(frame: &mut Frame<'_>, shot: &Snapshot) {
    let [head, bar, heading, table, noise, news] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
        Constraint::Length(2),
    ])
    .areas(frame.area());
    frame.render_widget(Line::from(shot.question.as_str()).bold(), head);
    frame.render_widget(gauge(shot), bar);
    frame.render_widget(Line::from(axis(shot, shot.estimates.is_empty())), heading);
    estimates(frame, table, shot);
    noise_line(frame, noise, &shot.noise);
    let last: Vec<Line<'_>> =
        shot.news.iter().rev().take(2).rev().map(|text| Line::from(text.as_str())).collect();
    frame.render_widget(Paragraph::new(last).style(Style::new().fg(Color::Yellow)), news);
}

fn gauge(shot: &Snapshot) -> Gauge<'_> {
    let left = shot.left_ms.map_or(String::new(), |ms| format!(" · {} s left", ms / 1_000));
    // A budget ends a race, not the number of its blocks.
    let of = match shot.is_budgeted {
        true => String::new(),
        false => format!(" of {} · {}/{}", shot.blocks, shot.done, shot.total),
    };
    let label = format!("block {}{of}{left} · {}", shot.block, shot.running);
    Gauge::default().ratio(shot.share.clamp(0.0, 1.0)).label(label).gauge_style(Color::Blue)
}

fn axis(shot: &Snapshot, empty: bool) -> String {
    if empty {
        return "estimates come with the first complete block".to_string();
    }
    let twin = shot.estimates.iter().any(|it| it.twin);
    let floor = if twin { "; · is how far the baseline's twin strays" } else { "" };
    format!("ratio to {}; 95 % from six blocks on{floor}", shot.baseline)
}

/// A row for each estimate. Names are whole; the strips take what is left.
fn estimates(frame: &mut Frame<'_>, area: Rect, shot: &Snapshot) {
    let widest = |name: fn(&Estimate) -> &str| {
        shot.estimates.iter().map(|it| stats::words::columns(name(it))).max().unwrap_or(0)
    };
    let has_points = shot.estimates.iter().any(|it| it.point != shot.estimates[0].point);
    let points = if has_points { widest(|it| &it.point) + 1 } else { 0 };
    let (arms, [least, most]) = (widest(|it| &it.arm) + 1, STRIP);
    let room = usize::from(area.width).saturating_sub(points + arms + KINDS + RATIOS + WORDS);
    let wide = if room > least { (room - 1).min(most) } else { 0 };
    let rows = shot.estimates.iter().map(|it| {
        let Comparison { log_ratios, ratio, interval } = &it.verdict.comparison;
        let what = match it.verdict.metric {
            Metric::Throughput => "rate",
            Metric::Cpu => "CPU",
            other => other.key(),
        };
        let ratio = match interval {
            Some(interval) => format!("{} {}", words::ratio(*ratio), words::interval(interval)),
            None => format!("{} after {}", words::ratio(*ratio), log_ratios.len()),
        };
        let word = if interval.is_some() { it.verdict.word() } else { "" };
        Row::new([
            Line::from(if has_points { it.point.clone() } else { String::new() }),
            Line::from(it.arm.clone()),
            Line::from(what),
            strip(it, floor(shot, it), wide),
            Line::from(ratio),
            Line::from(word).fg(colour(it)),
        ])
    });
    let strips = if wide > 0 { wide + 1 } else { 0 };
    let widths = [points, arms, KINDS, strips, RATIOS, WORDS].map(|wide| wide as u16);
    let table = Table::new(rows, widths.map(Constraint::Length)).column_spacing(0);
    frame.render_widget(table, area);
}

fn colour(estimate: &Estimate) -> Color {
    match (estimate.verdict.comparison.interval, estimate.verdict.decision) {
        (None, _) => Color::Reset,
        (_, Decision::Better) => Color::Green,
        (_, Decision::Worse) => Color::Red,
        (_, Decision::Equal) => Color::Blue,
        (_, Decision::Open) => Color::Reset,
    }
}

/// How far the twin's interval reaches from 1 for the same point and metric, as a log-ratio.
fn floor(shot: &Snapshot, of: &Estimate) -> f64 {
    let is_alike = |it: &&Estimate| it.point == of.point && it.verdict.metric == of.verdict.metric;
    let twin = shot.estimates.iter().filter(|it| it.twin).find(is_alike);
    let interval = twin.and_then(|it| it.verdict.comparison.interval);
    interval.map_or(0.0, |it| it.low.ln().abs().max(it.high.ln().abs()))
}

/// An interval on a logarithmic axis with 1 in the middle.
fn strip(estimate: &Estimate, floor: f64, wide: usize) -> Line<'static> {
    if wide == 0 {
        return Line::default();
    }
    let middle = wide / 2;
    let place = |log: f64| {
        let at = middle as f64 * (1.0 + log / AXIS.ln());
        at.round().clamp(0.0, (wide - 1) as f64) as usize
    };
    let mut cells = vec![' '; wide];
    for cell in &mut cells[place(-floor)..=place(floor)] {
        *cell = '·';
    }
    cells[middle] = '│';
    let comparison = &estimate.verdict.comparison;
    if let Some(interval) = comparison.interval {
        for cell in &mut cells[place(interval.low.ln())..=place(interval.high.ln())] {
            *cell = '━';
        }
    }
    cells[place(comparison.ratio.ln())] = '●';
    let text: String = cells.into_iter().collect();
    Line::from(Span::styled(text, Style::new().fg(colour(estimate))))
}

fn noise_line(frame: &mut Frame<'_>, area: Rect, noise: &[f64]) {
    let [label, bars] =
        Layout::horizontal([Constraint::Length(26), Constraint::Min(0)]).areas(area);
    let share = words::percent(noise.last().copied().unwrap_or(0.0));
    frame.render_widget(Line::from(format!("other processes: {share}")), label);
    let skip = noise.len().saturating_sub(usize::from(bars.width));
    let data: Vec<u64> = noise[skip..].iter().map(|share| (share * 100.0) as u64).collect();
    let line = Sparkline::default().data(data).max(50).style(Style::new().fg(Color::Magenta));
    frame.render_widget(line, bars);
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::verdict::ArmVerdict;
    use ratatui::backend::TestBackend;
    use stats::Interval;

    fn estimate(arm: &str, ratio: f64, range: Option<(f64, f64)>, decision: Decision) -> Estimate {
        Estimate {
            point: "depth 1".to_string(),
            arm: arm.to_string(),
            twin: arm.contains("twin"),
            verdict: ArmVerdict {
                metric: Metric::Throughput,
                comparison: Comparison {
                    log_ratios: vec![0.0; 6],
                    ratio,
                    interval: range.map(|(low, high)| Interval { low, high, cover: 0.969 }),
                },
                decision,
                limited: false,
                at_least: false,
                forecast: None,
                registered: true,
            },
        }
    }

    fn drawn(shot: &Snapshot, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a test's own");
        terminal.draw(|frame| draw(frame, shot)).expect("it cannot fail");
        let buffer = terminal.backend().buffer();
        let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(row).collect::<Vec<String>>().join("\n")
    }

    fn shot() -> Snapshot {
        Snapshot {
            question: "Which is best: epoll or uring?".to_string(),
            baseline: "epoll".to_string(),
            total: 48,
            done: 24,
            blocks: 6,
            block: 4,
            left_ms: Some(21_000),
            running: "uring, depth 1".to_string(),
            estimates: vec![
                estimate("uring", 1.4, Some((1.3, 1.5)), Decision::Better),
                estimate("prefork", 0.6, None, Decision::Open),
                estimate("epoll (twin)", 1.01, Some((0.9, 1.1)), Decision::Equal),
            ],
            noise: vec![0.12],
            share: 0.5,
            news: vec!["old".to_string(), "uring: no ring".to_string(), "last".to_string()],
            ..Snapshot::default()
        }
    }

    #[test]
    fn the_screen_says_what_is_known() {
        let text = drawn(&shot(), 120, 12);
        for want in [
            "Which is best: epoll or uring?",
            "block 4 of 6 · 24/48 · 21 s left · uring, depth 1",
            "1.40× [1.30, 1.50]",
            "faster",
            "0.60× after 6",
            "━●━",
            "other processes: 12 %",
            "uring: no ring",
            "last",
        ] {
            assert!(text.contains(want), "expected `{want}` in\n{text}");
        }
        assert!(!text.contains("old"), "{text}");
    }

    #[test]
    fn eighty_columns_hold_whole_names_and_intervals() {
        let mut wide = shot();
        wide.is_budgeted = true;
        let all = drawn(&wide, 80, 12);
        let rows: Vec<&str> = all.lines().filter(|line| line.contains('×')).collect();
        assert_eq!(rows.len(), 3, "{all}");
        assert!(rows[2].starts_with("epoll (twin) rate"), "{all}");
        assert!(rows[0].contains("1.40× [1.30, 1.50]  faster") && rows[0].contains('●'), "{all}");
        assert!(all.contains("block 4 · 21 s left") && !all.contains("of 6"), "{all}");
        for at in 0..2 {
            wide.estimates[at].point = format!("depth {at}6");
            wide.estimates[at].arm = "a-long-name-of-a-server".to_string();
        }
        let all = drawn(&wide, 80, 12);
        assert!(all.contains("depth 16 a-long-name-of-a-server rate"), "{all}");
        assert!(all.contains("[1.30, 1.50]  faster"), "{all}");
    }

    #[test]
    fn any_size_and_any_state_can_be_drawn() {
        let mut wild = shot();
        wild.estimates.push(estimate("x", 1e-9, Some((0.0, f64::INFINITY)), Decision::Worse));
        wild.done = 99;
        for (width, height) in [(1, 1), (20, 3), (80, 7), (200, 60)] {
            drawn(&wild, width, height);
            drawn(&Snapshot::default(), width, height);
        }
    }
}
