//! Runs commands from a file and prints their results as lines, for tests and logs.
//!
//! A command is finished before the next is read, so a script is as deterministic as the world
//! allows.

use super::link::Link;
use super::scene::{Scene, goodbye};
use ::game::packet::{Ask, Moved, Place, Tell};
use anyhow::{Context, Result, bail};
use wire::conf::span;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long an answer may take, and how long a walk may.
const ANSWER: Duration = Duration::from_secs(30);
const WALK: Duration = Duration::from_secs(600);

/// Executes the commands of a file; `-` is standard input.
pub fn run(link: &mut Link, scene: &mut Scene, file: &Path) -> Result<ExitCode> {
    let text = match file.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()).context("cannot read commands")?,
        _ => std::fs::read_to_string(file)
            .with_context(|| format!("cannot read the script {}", file.display()))?,
    };
    let (x, y) = scene.here();
    let (width, height) = scene.size;
    say(&format!("joined {} at {x},{y} on {width}x{height}", scene.me))?;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        carry_out(link, scene, line).with_context(|| format!("line {}: {line}", number + 1))?;
        if let Some(why) = scene.bye {
            say(&format!("bye: {}", goodbye(why)))?;
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn carry_out(link: &mut Link, scene: &mut Scene, line: &str) -> Result<()> {
    let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
    match command {
        "go" => go(link, scene, place(rest)?),
        "arrive" => {
            let end = Instant::now() + WALK;
            while !scene.has_arrived() && scene.bye.is_none() {
                hear(link, scene, end, &mut |_, _| None)?;
            }
            let (x, y) = scene.here();
            say(&format!("at {x},{y}"))
        }
        "stop" => {
            link.ask(&Ask::Stop)?;
            scene.way.clear();
            settle(link, scene)?;
            let (x, y) = scene.here();
            say(&format!("stopped at {x},{y}"))
        }
        "say" => speak(link, scene, 0, rest),
        "tell" => {
            let (to, text) = rest.split_once(' ').context("expected `tell ID TEXT`")?;
            speak(link, scene, to.parse().context("expected the number of a session")?, text)
        }
        "who" => who(link, scene),
        "watch" => watch(link, scene, span(rest)?),
        "map" => (0..scene.size.1).try_for_each(|y| {
            let sign = |x: u16| if scene.is_free((x, y)) { '.' } else { '#' };
            say(&(0..scene.size.0).map(sign).collect::<String>())
        }),
        "ping" => settle(link, scene).and_then(|()| say("pong")),
        other => {
            bail!("expected go, arrive, stop, say, tell, who, watch, map or ping, found `{other}`")
        }
    }
}

fn go(link: &mut Link, scene: &mut Scene, to: Place) -> Result<()> {
    link.ask(&Ask::Go(to))?;
    until(link, scene, ANSWER, |tell, scene| match tell {
        Tell::Path { is_exact, is_cut, steps: (straight, diagonal), turns } => {
            let (x, y) = turns.last().copied().unwrap_or(scene.here());
            let exact = if *is_exact { "" } else { ", as near as one gets" };
            let cut = if *is_cut { ", cut" } else { "" };
            let count = turns.len();
            Some(format!(
                "path to {x},{y}: {straight} straight and {diagonal} diagonal steps, {count} \
                 turns{exact}{cut}"
            ))
        }
        Tell::NoWay(why) => Some(format!("no way: {why:?}")),
        _ => None,
    })
}

fn speak(link: &mut Link, scene: &mut Scene, to: u64, text: &str) -> Result<()> {
    link.ask(&Ask::Say { to, text: text.to_owned() })?;
    settle(link, scene)
}

fn who(link: &mut Link, scene: &mut Scene) -> Result<()> {
    link.ask(&Ask::Who)?;
    settle(link, scene)?;
    for (id, guest) in &scene.guests {
        let (x, y) = guest.at;
        say(&format!("here {id} {:?} {x},{y} {}", guest.role, guest.name))?;
    }
    Ok(())
}

fn watch(link: &mut Link, scene: &mut Scene, time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    while Instant::now() < end && scene.bye.is_none() && !link.is_over() {
        hear(link, scene, end, &mut |tell, scene| match tell {
            Tell::Moves { tick, moved } => {
                let one = |it: &Moved| format!(" {} to {},{}", scene.name(it.id), it.at.0, it.at.1);
                Some(format!("tick {tick}:{}", moved.iter().map(one).collect::<Vec<_>>().join(",")))
            }
            _ => None,
        })?;
    }
    Ok(())
}

/// Receives packets until `words` makes a line of one.
fn until(
    link: &mut Link,
    scene: &mut Scene,
    patience: Duration,
    mut words: impl FnMut(&Tell, &Scene) -> Option<String>,
) -> Result<()> {
    let end = Instant::now() + patience;
    loop {
        if hear(link, scene, end, &mut words)? || scene.bye.is_some() {
            return Ok(());
        }
    }
}

/// Waits until all earlier requests are answered, which relies on the server answering in order.
fn settle(link: &mut Link, scene: &mut Scene) -> Result<()> {
    link.ask(&Ask::Ping(u64::from(scene.tick)))?;
    until(link, scene, ANSWER, |tell, _| matches!(tell, Tell::Pong(_)).then(String::new))
}

/// Receives one packet; prints messages of others and the line that `words` makes of it, and
/// returns whether there was one.
fn hear(
    link: &mut Link,
    scene: &mut Scene,
    end: Instant,
    words: &mut impl FnMut(&Tell, &Scene) -> Option<String>,
) -> Result<bool> {
    let left = end.saturating_duration_since(Instant::now());
    let Some(tell) = link.tell(left)? else {
        // The end of a span is no error for `watch`, which checks the clock itself.
        if link.is_over() && scene.bye.is_none() {
            bail!("the server has closed the connection without a reason");
        }
        if left > Duration::from_secs(1) {
            bail!("expected an answer within {left:?}, found none");
        }
        return Ok(false);
    };
    match &tell {
        Tell::Said { from, to, text } => say(&format!("said {from} to {to}: {text}"))?,
        Tell::Enter { id, role, name, .. } if !scene.guests.contains_key(id) => {
            say(&format!("enter {id} {role:?} {name}"))?;
        }
        Tell::Leave(id) => say(&format!("leave {id}"))?,
        _ => {}
    }
    let text = words(&tell, scene);
    scene.hear(tell);
    if let Some(text) = text.as_ref().filter(|text| !text.is_empty()) {
        say(text)?;
    }
    Ok(text.is_some())
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("cannot print")
}

fn place(text: &str) -> Result<Place> {
    let read = || {
        let (x, y) = text.split_once(',')?;
        Some((x.trim().parse().ok()?, y.trim().parse().ok()?))
    };
    read().with_context(|| format!("expected a place such as 10,20, found `{text}`"))
}
