//! `roundhouse top`: shows a running server, redrawn in place, and sends it commands by keys.
//!
//! It fetches samples from the server's administration. All counts of a sample belong to one
//! instant. A rate is the difference of two samples over the time between their instants, so a slow
//! terminal or a busy machine makes rates coarser but not wrong.
//!
//! | file | what |
//! |---|---|
//! | `link.rs` | finds servers and talks to one |
//! | `view.rs` | the state: rates, their maxima, cost |
//! | `draw.rs` | the same as a screen |

mod draw;
pub mod link;
mod view;

use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::screen::{self, Screen};
use language::tr;
pub(crate) use link::Link;
use pages::terminal::folded;
use view::View;
use wire::conf::span;

/// The arguments of `top`.
#[derive(clap::Args)]
pub struct Args {
    /// The server: its process id, or the socket or address of its administration [default: the
    /// only server that runs]
    server: Option<String>,
    /// Print one sample and exit
    #[arg(long)]
    once: bool,
    /// Print the sample as JSON, with rates over --interval
    #[arg(long, requires = "once")]
    json: bool,
    /// Time between two samples
    #[arg(long, default_value = "1s", value_parser = span, value_name = "TIME")]
    interval: Duration,
}

/// The interval at which keys are polled for.
const KEYS: Duration = Duration::from_millis(50);
/// The minimum time between two samples.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Shows the server until it ends or the user quits.
pub fn run(args: &Args) -> Result<ExitCode> {
    let link = link(args.server.as_deref())?;
    let interval = args.interval.max(INTERVAL_MIN);
    if args.once {
        return once(&link, interval, args.json);
    }
    if !screen::is_able() {
        bail!("expected a terminal that can be drawn on, found none: use --once or --once --json");
    }
    watch(link, interval)
}

/// The server that `word` names, or the only one that runs.
pub(crate) fn link(word: Option<&str>) -> Result<Link> {
    match (word, link::running().as_slice()) {
        (Some(word), _) => Link::named(word),
        (None, [only]) => Ok(only.clone()),
        (None, []) => bail!(
            "expected a running server in {}, found none: start one with \
             `roundhouse serve`, or name the socket of its administration",
            server::admin::folder().display()
        ),
        (None, many) => {
            let lines: Vec<String> = many.iter().map(Link::described).collect();
            bail!("several servers run; choose one by its process id:\n{}", lines.join("\n"));
        }
    }
}

/// Prints the server's state, with the rates of its own windows.
pub(crate) fn show_once(link: &Link) -> Result<ExitCode> {
    once(link, INTERVAL_MIN, false)
}

/// Prints two samples that are `interval` apart, and the rates between them.
fn once(link: &Link, interval: Duration, json: bool) -> Result<ExitCode> {
    let mut view = View::new(link.sample()?);
    sleep(interval);
    view.add(link.sample()?);
    match json {
        true => println!("{}", serde_json::to_string(&view.json())?),
        false => print(&view),
    }
    Ok(ExitCode::SUCCESS)
}

fn print(view: &View) {
    view.lines().iter().for_each(|line| println!("{}", folded(&tr(line), 13)));
}

fn watch(link: Link, interval: Duration) -> Result<ExitCode> {
    let mut view = View::new(link.sample()?);
    let Some(mut screen) = Screen::raise() else {
        bail!("expected a terminal with a size, found none: use --once")
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
                Ok(status) => view.add(status),
                Err(_) if !link.is_there() => {
                    drop(screen);
                    print(&view);
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
