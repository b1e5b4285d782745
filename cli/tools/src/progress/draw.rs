//! The live view as a screen: how far the load is, its figures, and its rate over time.

use super::view::View;
use crate::screen::{chart, named_lines};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Stylize};
use ratatui::text::Line;
use ratatui::widgets::Gauge;
use stats::words::compact;

/// Draws a run; `hint` names the keys.
pub fn screen(frame: &mut Frame<'_>, view: &View, hint: &str) {
    let [head, bar, figures, rate] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(2),
        Constraint::Fill(1),
    ])
    .areas(frame.area());
    // A long head is cut, with a gap before the hint.
    let hint = format!("  {hint}");
    let columns = Constraint::Length(hint.chars().count() as u16);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), columns]).areas(head);
    frame.render_widget(Line::from(format!(" {}", view.head)).bold(), left);
    frame.render_widget(Line::from(hint).dim(), right);
    let (share, words) = view.progress();
    let gauge = Gauge::default().ratio(share.clamp(0.0, 1.0)).label(words);
    frame.render_widget(gauge.gauge_style(Color::Blue), bar);
    named_lines(frame, figures, &view.lines(), " so far ");
    let heading = format!(" replies a second · now {} ", compact(view.rate()));
    let points: Vec<f64> = view.bins.iter().map(super::view::Bin::rate).collect();
    chart(frame, rate, &points, &heading);
}

#[cfg(test)]
mod tests;
