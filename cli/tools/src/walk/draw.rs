//! The scene as a screen: the map around the walker, two cells a character, and the talk below.

use super::scene::Scene;
use super::stage::Desk;
use ::game::packet::{Place, Role};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};
use std::collections::BTreeMap;

/// The number of lines for messages, if the map has three times as many.
const TALK: u16 = 5;
/// Hints about keys; the first that fits is shown.
const HINTS: [&str; 3] = [
    " arrows, Enter or click: go · wasd: step · space: stop · t: talk · q: quit ",
    " wasd: step · t: talk · q: quit ",
    " q: quit ",
];

/// The visible part of the map and its position on the screen.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    area: Rect,
    /// The cell in the upper left corner.
    corner: Place,
    size: Place,
}

impl View {
    /// The part of a map of this `size` that shows `middle`; a character is two cells, one above
    /// the other.
    fn around(area: Rect, middle: Place, size: Place) -> View {
        let (columns, rows) = (area.width, area.height.saturating_mul(2));
        let corner = |at: u16, room: u16, most: u16| {
            // An even corner keeps the halves of characters in place.
            at.saturating_sub(room / 2).min(most.saturating_sub(room)) / 2 * 2
        };
        let corner = (corner(middle.0, columns, size.0), corner(middle.1, rows, size.1));
        View { area, corner, size }
    }

    /// The cell at a place of the screen; if a character shows two, the upper one.
    pub fn cell(&self, column: u16, row: u16) -> Option<Place> {
        let inside = self.area.contains((column, row).into());
        let x = self.corner.0 + column.checked_sub(self.area.x)?;
        let y = self.corner.1 + row.checked_sub(self.area.y)? * 2;
        (inside && x < self.size.0 && y < self.size.1).then_some((x, y))
    }
}

/// Draws the world.
pub fn screen(frame: &mut Frame<'_>, scene: &Scene, desk: &mut Desk) {
    let heard = (frame.area().height / 4).clamp(1, TALK);
    let rows = [Constraint::Length(1), Constraint::Fill(1), Constraint::Length(heard + 2)];
    let [head, map, talk] = Layout::vertical(rows).areas(frame.area());
    let (x, y) = scene.here();
    let players = scene.guests.values().filter(|guest| guest.role == Role::Player).count();
    let (walkers, watchers) = (players, scene.guests.len() - players);
    let title = match scene.role {
        Some(Role::Spectator) => " watching".to_owned(),
        _ => format!(" you are at {x},{y} · the mark at {},{}", desk.mark.0, desk.mark.1),
    };
    let line = format!("{title} · {walkers} walking, {watchers} watching · tick {}", scene.tick);
    frame.render_widget(Line::from(line).bold(), head);
    // There is room below the map, even if the line above is long.
    let room = usize::from(map.width.saturating_sub(2));
    let hint = HINTS.into_iter().find(|hint| hint.chars().count() <= room).unwrap_or_default();
    let block = Block::bordered().title_bottom(Line::from(hint).dim());
    let inner = block.inner(map);
    frame.render_widget(block, map);
    let middle = if scene.role == Some(Role::Player) { (x, y) } else { desk.mark };
    desk.view = View::around(inner, middle, scene.size);
    frame.render_widget(Paragraph::new(lines(scene, desk)), inner);
    self::talk(frame, talk, scene, desk);
}

fn talk(frame: &mut Frame<'_>, area: Rect, scene: &Scene, desk: &Desk) {
    let typed = u16::from(desk.text.is_some());
    let rows = usize::from(area.height.saturating_sub(2 + typed));
    let said = scene.talk.iter().rev().take(rows).rev();
    let mut lines: Vec<Line<'_>> = said.map(|text| Line::from(text.as_str())).collect();
    if let Some(text) = &desk.text {
        lines.push(Line::from(format!("say: {text}_")).bold());
    }
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" talk ")), area);
}

/// The content of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Beyond,
    Free,
    Wall,
    Way,
    Other,
    Mark,
    Me,
}

impl Look {
    fn hue(self) -> Color {
        match self {
            Look::Beyond => Color::Reset,
            Look::Free => Color::Indexed(255),
            Look::Wall => Color::Indexed(240),
            Look::Way => Color::Indexed(153),
            Look::Other => Color::Indexed(28),
            Look::Mark => Color::Indexed(202),
            Look::Me => Color::Indexed(160),
        }
    }
}

/// The visible part of the map; one line of characters shows two rows.
fn lines(scene: &Scene, desk: &Desk) -> Vec<Line<'static>> {
    let mut special: BTreeMap<Place, Look> = BTreeMap::new();
    special.extend(scene.steps().into_iter().map(|cell| (cell, Look::Way)));
    let players = scene.guests.iter().filter(|(_, guest)| guest.role == Role::Player);
    for (id, guest) in players {
        special.insert(guest.at, if *id == scene.me { Look::Me } else { Look::Other });
    }
    special.entry(desk.mark).and_modify(|look| {
        if *look == Look::Way {
            *look = Look::Mark;
        }
    });
    special.entry(desk.mark).or_insert(Look::Mark);
    let look = |x: u16, y: u16| match special.get(&(x, y)) {
        Some(look) => *look,
        None if x >= scene.size.0 || y >= scene.size.1 => Look::Beyond,
        None if scene.is_free((x, y)) => Look::Free,
        None => Look::Wall,
    };
    let View { area, corner, .. } = desk.view;
    let rows = (0..area.height).map(|row| {
        let y = corner.1 + row * 2;
        let spans = (0..area.width).map(|column| {
            let x = corner.0 + column;
            let (upper, lower) = (look(x, y), look(x, y + 1));
            if upper == Look::Beyond && lower == Look::Beyond {
                return Span::raw(" ");
            }
            Span::styled("▀", Style::new().fg(upper.hue()).bg(lower.hue()))
        });
        Line::from(spans.collect::<Vec<_>>())
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::game::packet::{Moved, Tell};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn scene() -> Scene {
        let mut scene = Scene::default();
        let (role, size, at) = (Role::Player, (16, 8), (2, 2));
        scene.hear(Tell::Welcome { version: 1, role, id: 5, size, tick_ms: 50, at });
        for row in 0..8 {
            scene.hear(Tell::Row { row, bits: vec![0xff, 0x7f] });
        }
        let turns = vec![(2, 2), (5, 5), (9, 5)];
        scene.hear(Tell::Path { is_exact: true, is_cut: false, steps: (4, 3), turns });
        let name = "Ada".to_owned();
        scene.hear(Tell::Enter { id: 6, role, at: (10, 0), name });
        scene
    }

    #[test]
    fn the_way_gets_shorter_as_one_walks() {
        let mut scene = scene();
        assert_eq!(scene.steps().len(), 7);
        for (tick, at) in [(3, 3), (4, 4), (5, 5), (6, 5)].into_iter().enumerate() {
            let moved = vec![Moved { id: 5, at }];
            scene.hear(Tell::Moves { tick: tick as u32, moved });
        }
        assert_eq!(scene.steps(), [(7, 5), (8, 5), (9, 5)]);
        assert!(!scene.has_arrived() && !scene.is_lost);
        scene.hear(Tell::Moves { tick: 9, moved: vec![Moved { id: 99, at: (0, 0) }] });
        assert!(scene.is_lost, "somebody moved whom nobody has announced");
    }

    #[test]
    fn the_screen_shows_where_everybody_is() {
        let (scene, mut desk) = (scene(), Desk { mark: (9, 5), ..Desk::default() });
        let mut terminal = Terminal::new(TestBackend::new(120, 20)).expect("a test terminal");
        terminal.draw(|frame| screen(frame, &scene, &mut desk)).expect("it cannot fail");
        let buffer = terminal.backend().buffer();
        let text: String = buffer.content().iter().map(|cell| cell.symbol()).collect();
        for part in ["you are at 2,2", "the mark at 9,5", "2 walking, 0 watching", "Ada is here"] {
            assert!(text.contains(part), "expected {part:?} in {text:?}");
        }
        // The map begins after the title and the border: cell 2,2 is the upper half there.
        assert_eq!(buffer[(3, 3)].fg, Look::Me.hue());
        assert_eq!(buffer[(10, 4)].bg, Look::Mark.hue());
        assert_eq!(buffer[(16, 2)].fg, Look::Wall.hue());
        assert_eq!(desk.view.cell(3, 3), Some((2, 2)));
        assert_eq!(desk.view.cell(0, 0), None);
    }
}
