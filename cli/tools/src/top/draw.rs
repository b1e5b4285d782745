//! The view as a screen.
//!
//! `screen` draws one `View` into one frame and keeps nothing between frames, so the tests draw to
//! a buffer. Rows from top to bottom: title, figures and chart, cluster, scoreboard, workers,
//! events, keys. On a low screen events shrink first, and the table of workers takes what is left.

use language::tr;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Table, Wrap};
use stats::words::{compact, size};

use super::view::{View, age};
use crate::screen::named_lines;

/// The number of rows for events, and where workers have few rows.
const EVENTS: [u16; 2] = [6, 3];
/// The height below which workers have few rows.
const HIGH: u16 = 36;
/// The columns that the longest line of figures takes, with its border.
const FIGURES: u16 = 60;

/// Draws a server.
pub fn screen(frame: &mut Frame<'_>, view: &View) {
    let board = board_rows(view, frame.area().width);
    let rows = EVENTS[usize::from(frame.area().height < HIGH)];
    let cluster = view.cluster_lines();
    let nodes = if cluster.is_empty() { 0 } else { cluster.len() as u16 + 2 };
    let [head, figures, topology, strip, table, events, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(7),
        Constraint::Length(nodes),
        Constraint::Length(board + 2),
        Constraint::Fill(1),
        Constraint::Length(rows + 2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    title(frame, head, view);
    let wide = Constraint::Length(FIGURES.max(frame.area().width / 5 * 3));
    let [numbers, chart] = Layout::horizontal([wide, Constraint::Fill(1)]).areas(figures);
    let calm =
        |lines: &[String]| lines.iter().map(|line| (line.clone(), false)).collect::<Vec<_>>();
    named_lines(frame, numbers, &calm(&view.lines()[1..6]), " since the start, and now ");
    let heading = format!(" requests/s · now {} ", compact(view.rates.answered));
    let points: Vec<f64> = view.points.iter().copied().collect();
    crate::screen::chart(frame, chart, &points, &heading);
    named_lines(frame, topology, &calm(&cluster), " nodes and store ");
    scoreboard(frame, strip, view);
    workers(frame, table, view);
    let [left, right] =
        Layout::horizontal([Constraint::Fill(3), Constraint::Fill(2)]).areas(events);
    happened(frame, left, view);
    turnover(frame, right, view);
    keys(frame, foot, view);
}

fn title(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let sample = &view.status.sample;
    let engine = sample.shape.engine.as_deref().unwrap_or(&sample.shape.container);
    let hue = if sample.phase == "ready" { Color::Green } else { Color::Yellow };
    let rest =
        format!(" {} · process {} · up {}", sample.listening, sample.pid, age(sample.age_ns));
    let line = Line::from(vec![
        Span::raw(format!(" {} on {engine} ", view.status.service)).bold(),
        Span::styled(sample.phase.clone(), hue),
        Span::raw(rest).dim(),
    ]);
    frame.render_widget(line, area);
}

fn hue(letter: char) -> Color {
    match letter {
        'R' => Color::Blue,
        'B' => Color::Green,
        'W' => Color::Yellow,
        'C' => Color::Magenta,
        'S' => Color::Cyan,
        '!' => Color::Red,
        _ => Color::DarkGray,
    }
}

fn board_rows(view: &View, width: u16) -> u16 {
    let width = usize::from(width.saturating_sub(2)).max(1);
    view.status.sample.workers.len().div_ceil(width).clamp(1, 4) as u16
}

fn scoreboard(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let heading = " _ waits  R reads  B busy  W blocked  C closes  S starts  G leaves  ! died ";
    let block = Block::bordered().title(tr(heading));
    let inner = block.inner(area);
    let letters = view.status.sample.workers.iter();
    let spans: Vec<Span<'_>> =
        letters.map(|it| Span::styled(it.letter.to_string(), hue(it.letter))).collect();
    let width = usize::from(inner.width).max(1);
    let lines: Vec<Line<'_>> =
        spans.chunks(width).map(|chunk| Line::from(chunk.to_vec())).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn workers(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let all = view.workers();
    let rows = all.iter().take(usize::from(area.height)).map(|worker| {
        let name = match worker.role.as_str() {
            "worker" => worker.slot.to_string(),
            role => format!("{} {role}", worker.slot),
        };
        Row::new([
            name,
            worker.letter.to_string(),
            worker.pid.to_string(),
            age(worker.age_ns),
            worker.open.to_string(),
            compact(worker.accepted as f64),
            compact(worker.answered as f64),
            compact(view.rate_of(worker)),
            size(worker.bytes_in as f64 / 1e3),
            size(worker.bytes_out as f64 / 1e3),
        ])
        .style(if worker.letter == '!' { Style::new().red() } else { Style::new() })
    });
    let names =
        ["worker", "", "process", "age", "conns", "accepted", "requests", "/s", "in", "out"];
    let widths = [10, 1, 7, 7, 6, 8, 8, 6, 8, 8].map(Constraint::Length);
    let heading = format!(" {} workers by {} ", all.len(), view.sort.name());
    let table = Table::new(rows, widths)
        .header(Row::new(names.map(tr)).style(Style::new().dim()))
        .block(Block::bordered().title(tr(&heading)));
    frame.render_widget(table, area);
}

fn happened(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let events =
        view.status.sample.events.iter().rev().take(usize::from(area.height)).map(|event| {
            let whose = event.worker.map_or(String::new(), |worker| format!(" worker {worker}"));
            let text = format!(" {:>7} {}{whose}: {}", age(event.ago_ns), event.what, event.why);
            let line = Line::from(text);
            if event.is_fault { line.red() } else { line }
        });
    let block = Block::bordered().title(tr(" last events "));
    frame.render_widget(Paragraph::new(events.collect::<Vec<_>>()).block(block), area);
}

fn turnover(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let sample = &view.status.sample;
    let mut lines: Vec<Line<'_>> =
        view.lines()[7..10].iter().map(|it| format!(" {}", tr(it)).into()).collect();
    let limits = &sample.limits;
    let spare =
        limits.spare.map_or(String::new(), |(least, most)| format!(", spare {least} to {most}"));
    let policy = limits.policy.as_deref().map_or(String::new(), |it| format!(", {it}"));
    lines.push(format!(" limits       {} workers{policy}{spare}", limits.workers).into());
    lines.extend(sample.gauges.iter().map(|gauge| {
        let labels: Vec<&str> = gauge.labels.iter().map(|(_, value)| value.as_str()).collect();
        Line::from(format!(" {} {} {}", gauge.name, labels.join(" "), compact(gauge.value))).dim()
    }));
    let block = Block::bordered().title(tr(" came and went "));
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), area);
}

fn keys(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let line = match (view.asks(), &view.message) {
        (Some(order), _) => {
            Line::from(format!(" {order} this server? y: yes, any other key: no")).bold().yellow()
        }
        (None, Some((words, true))) => Line::from(format!(" {words}")).red(),
        (None, Some((words, false))) => Line::from(format!(" {words}")).green(),
        (None, None) => {
            Line::from(tr(" q quit · s sort · r reload · d drain · Q stop the server")).dim()
        }
    };
    frame.render_widget(line, area);
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::status;
    use super::*;
    use engines::status::Gauge;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
        terminal.draw(|frame| screen(frame, view)).expect("a picture");
        terminal.backend().to_string()
    }

    #[test]
    fn a_screen_tells_what_there_is() {
        let mut view = View::new(status(1, 100));
        view.add(status(2, 12_445));
        let text = drawn(&view, 120, 40);
        for words in ["stock on", "12.3k /s", "_B", "signal_9 2", "was killed", "q quit"] {
            assert!(text.contains(words), "expected {words:?} in\n{text}");
        }
        assert!(!text.contains("nodes and store"), "one node alone:\n{text}");
        let gauge = |name: &str, value| Gauge::now(name, "", value);
        view.status.sample.gauges.extend([
            gauge("cluster_node_info", 1.0).with("node", "a:6001").with("store", "etcd"),
            gauge("cluster_batch", 12.0),
            gauge("cluster_lag_orders", 0.0).with("node", "a:6001"),
            gauge("cluster_lag_orders", 7.0).with("node", "b:6002"),
            gauge("cluster_member_state", 3.0).with("member", "c:2379"),
            gauge("cluster_member_state", 0.0).with("member", "d:2379"),
        ]);
        let text = drawn(&view, 120, 40);
        for words in
            ["a:6001, batch 12", "a:6001 lacks 0, b:6002 lacks 7", "c:2379 leads, d:2379 silent"]
        {
            assert!(text.contains(words), "expected {words:?} in\n{text}");
        }
        view.ask(Some("drain"));
        assert!(drawn(&view, 120, 40).contains("drain this server? y"));
    }

    #[test]
    fn a_small_screen_is_no_panic() {
        let mut view = View::new(status(1, 100));
        view.status.sample.workers = vec![view.status.sample.workers[0].clone(); 2000];
        for (width, height) in [(1, 1), (10, 3), (40, 12), (200, 60)] {
            assert!(!drawn(&view, width, height).is_empty());
        }
    }
}
