//! `roundhouse top`: what a running server of ours does, redrawn in place; and its orders by keys.
//!
//! It asks the server's administration for a sample now and then. All counts of a sample belong to
//! one instant, and rates are differences of two samples divided by the time between those
//! instants, so a slow terminal or a busy machine makes them coarser and never wrong.
//!
//! | file | what |
//! |---|---|
//! | `link.rs` | finding servers, asking one |
//! | `view.rs` | what is known: rates, highest ones, cost |
//! | `draw.rs` | the same as a screen |

mod draw;
mod link;
mod view;

use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::screen::{self, Screen};
use link::Link;
use load::parse::span;
use view::View;

/// The arguments of `top`.
#[derive(clap::Args)]
pub struct Args {
    /// The server: the number of its process, the path of its administration's socket, or the
    /// address of that [default: the only one that runs]
    server: Option<String>,
    /// Print one sample and leave
    #[arg(long)]
    once: bool,
    /// As JSON, with the rates over --interval
    #[arg(long, requires = "once")]
    json: bool,
    /// How often to look
    #[arg(long, default_value = "1s", value_parser = span, value_name = "TIME")]
    interval: Duration,
}

/// How often keys are looked at.
const KEYS: Duration = Duration::from_millis(50);
/// The least time between two looks.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Shows the server until it is gone or somebody has seen enough.
pub fn run(args: &Args) -> Result<ExitCode> {
    let link = match &args.server {
        Some(word) => Link::named(word)?,
        None => match link::running().as_slice() {
            [only] => only.clone(),
            [] => bail!(
                "expected a running server in {}, found none: start one by `roundhouse serve`, or \
                 say where its administration is",
                crate::admin::folder().display()
            ),
            many => {
                let lines: Vec<String> = many.iter().map(Link::described).collect();
                bail!("several servers run; say which by its number:\n{}", lines.join("\n"));
            }
        },
    };
    let interval = args.interval.max(INTERVAL_MIN);
    if args.once {
        return once(&link, interval, args.json);
    }
    if !screen::is_able() {
        bail!("expected a terminal that can be drawn on, found none: say --once or --once --json");
    }
    watch(link, interval)
}

/// Two samples, `interval` apart, and what lies between them.
fn once(link: &Link, interval: Duration, json: bool) -> Result<ExitCode> {
    let mut view = View::new(link.sample()?);
    sleep(interval);
    view.add(link.sample()?);
    match json {
        true => println!("{}", view.json()),
        false => view.lines().iter().for_each(|line| println!("{line}")),
    }
    Ok(ExitCode::SUCCESS)
}

fn watch(link: Link, interval: Duration) -> Result<ExitCode> {
    let mut view = View::new(link.sample()?);
    let Some(mut screen) = Screen::raise() else {
        bail!("expected a terminal with a size, found none: say --once")
    };
    let mut next = Instant::now() + interval;
    screen.draw(|frame, _| draw::screen(frame, &view))?;
    loop {
        sleep(KEYS);
        let mut changed = false;
        for key in screen.pressed() {
            changed = true;
            match key {
                b'q' | 3 => return Ok(ExitCode::SUCCESS),
                b's' => view.sort(),
                key => match (view.asks(), key) {
                    (Some(order), b'y') => {
                        view.answer(link.order(order));
                        view.ask(None);
                    }
                    (Some(_), _) => view.ask(None),
                    (None, b'd') => view.ask(Some("drain")),
                    (None, b'Q') => view.ask(Some("quit")),
                    (None, b'r') => view.answer(link.order("reload")),
                    _ => {}
                },
            }
        }
        if Instant::now() >= next {
            next = Instant::now() + interval;
            changed = true;
            match link.sample() {
                Ok(told) => view.add(told),
                Err(_) if !link.is_there() => {
                    drop(screen);
                    view.lines().iter().for_each(|line| println!("{line}"));
                    println!("the server has ended");
                    return Ok(ExitCode::SUCCESS);
                }
                Err(error) => view.answer(Err(error)),
            }
        }
        if changed {
            screen.draw(|frame, _| draw::screen(frame, &view))?;
        }
    }
}
