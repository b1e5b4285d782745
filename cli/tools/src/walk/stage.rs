//! The terminal: keys and the mouse become packets, and the scene is drawn.

use super::draw;
use super::link::Link;
use super::scene::{Scene, goodbye};
use ::game::packet::{Ask, Place, Role, TEXT_MAX, clipped};
use anyhow::{Context, Result};
use language::eprintln;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, KeyCode, KeyEventKind, KeyModifiers,
    MouseButton, MouseEventKind,
};
use ratatui::crossterm::execute;
use std::io::stdout;
use std::process::ExitCode;
use std::time::Duration;

/// How long to wait for a packet between two polls for keys.
const PERIOD: Duration = Duration::from_millis(15);

/// The state of the user interface.
#[derive(Default)]
pub struct Desk {
    /// The mark that keys move.
    pub mark: Place,
    /// The text being typed.
    pub text: Option<String>,
    /// The part of the map that is on the screen; set by drawing.
    pub view: draw::View,
}

/// The effect of a key.
enum Deed {
    Nothing,
    Ask(Ask),
    Leave,
}

/// Walks until q is pressed or the server ends it.
pub fn run(link: &mut Link, scene: &mut Scene) -> Result<ExitCode> {
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    let _ = execute!(stdout(), EnableMouseCapture);
    let outcome = walk(&mut terminal, link, scene);
    let _ = execute!(stdout(), DisableMouseCapture);
    ratatui::restore();
    outcome?;
    let Some(why) = scene.bye else { return Ok(ExitCode::SUCCESS) };
    eprintln!("roundhouse: the server has closed the connection: {}", goodbye(why));
    Ok(ExitCode::FAILURE)
}

fn walk(terminal: &mut ratatui::DefaultTerminal, link: &mut Link, scene: &mut Scene) -> Result<()> {
    let mut desk = Desk { mark: scene.here(), ..Desk::default() };
    while scene.bye.is_none() && !link.is_over() {
        terminal.draw(|frame| draw::screen(frame, scene, &mut desk)).context("cannot draw")?;
        while let Some(tell) = link.tell(PERIOD)? {
            scene.hear(tell);
        }
        if std::mem::take(&mut scene.is_lost) {
            link.ask(&Ask::Who)?;
        }
        while event::poll(Duration::ZERO)? {
            match desk.obey(&event::read()?, scene) {
                Deed::Nothing => {}
                Deed::Ask(ask) => link.ask(&ask)?,
                Deed::Leave => return Ok(()),
            }
        }
    }
    Ok(())
}

impl Desk {
    fn obey(&mut self, event: &Event, scene: &mut Scene) -> Deed {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                let control = key.modifiers.contains(KeyModifiers::CONTROL);
                if control && key.code == KeyCode::Char('c') {
                    return Deed::Leave;
                }
                match &mut self.text {
                    Some(_) => self.write(key.code),
                    None => self.key(key.code, scene),
                }
            }
            Event::Mouse(mouse) if mouse.kind == MouseEventKind::Down(MouseButton::Left) => {
                match self.view.cell(mouse.column, mouse.row) {
                    Some(cell) => {
                        self.mark = cell;
                        go(cell, scene)
                    }
                    None => Deed::Nothing,
                }
            }
            _ => Deed::Nothing,
        }
    }

    fn key(&mut self, key: KeyCode, scene: &mut Scene) -> Deed {
        let (x, y) = self.mark;
        let (width, height) = scene.size;
        let here = scene.here();
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Deed::Leave,
            KeyCode::Char(' ') => {
                scene.way.clear();
                return Deed::Ask(Ask::Stop);
            }
            KeyCode::Char('t') => self.text = Some(String::new()),
            KeyCode::Enter => return go(self.mark, scene),
            KeyCode::Char('w') => return go((here.0, here.1.saturating_sub(1)), scene),
            KeyCode::Char('s') => return go((here.0, here.1 + 1), scene),
            KeyCode::Char('a') => return go((here.0.saturating_sub(1), here.1), scene),
            KeyCode::Char('d') => return go((here.0 + 1, here.1), scene),
            KeyCode::Left | KeyCode::Char('h') => self.mark = (x.saturating_sub(1), y),
            KeyCode::Right | KeyCode::Char('l') => self.mark = ((x + 1).min(width - 1), y),
            KeyCode::Up | KeyCode::Char('k') => self.mark = (x, y.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.mark = (x, (y + 1).min(height - 1)),
            _ => {}
        }
        Deed::Nothing
    }

    /// Handles a key while text is typed.
    fn write(&mut self, key: KeyCode) -> Deed {
        let Some(text) = &mut self.text else { return Deed::Nothing };
        match key {
            KeyCode::Esc => self.text = None,
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char(sign) if text.len() + sign.len_utf8() <= TEXT_MAX => text.push(sign),
            KeyCode::Enter => {
                let text = clipped(text, TEXT_MAX).to_owned();
                self.text = None;
                if !text.is_empty() {
                    return Deed::Ask(Ask::Say { to: 0, text });
                }
            }
            _ => {}
        }
        Deed::Nothing
    }
}

/// Requests a path, except for spectators and for walls right beside the player.
fn go(to: Place, scene: &Scene) -> Deed {
    let walks = scene.role == Some(Role::Player);
    let (x, y) = scene.here();
    let beside = x.abs_diff(to.0) <= 1 && y.abs_diff(to.1) <= 1;
    if walks && (scene.is_free(to) || !beside) { Deed::Ask(Ask::Go(to)) } else { Deed::Nothing }
}
