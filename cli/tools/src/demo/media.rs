//! `demo media`: the media service sends a film as RTP over UDP, a relay drops and delays packets
//! as the page says, and a receiver measures them and gives the pictures to the page.
//!
//! ```text
//!   serve media  --RTP-->  relay  --RTP-->  receiver  --pictures, packets, figures-->  page
//!                            ^                 ^                                        |
//!                            +--- loss, delay -+-- buffer  <--------- lines ------------+
//! ```
//!
//! | file | what |
//! |---|---|
//! | `relay.rs` | packets that are lost and late |
//! | `receiver.rs` | the client of RTSP, and the sockets |
//! | `playout.rs` | the buffer that waits for late packets, and what it did with each |

mod playout;
mod receiver;
mod relay;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use lab::server::Server as Sender;
use roundhouse::{MessageKind, Server, WebSocketOptions};

use super::Serving;
use super::feed::Feed;
use crate::race::room;

/// A turntable and its engine, ten seconds of H.264; data/film.py draws it.
const FILM: &[u8] = include_bytes!("../../data/film.mp4");
const HTML: &str = include_str!("media/page.html");
const SCRIPT: &str = include_str!("media/page.js");
/// The time that the media service may take to start, and to stop.
const PATIENCE: Duration = Duration::from_secs(10);

/// The arguments of `demo media`.
#[derive(clap::Args)]
pub struct Args {
    /// A film to show, MP4 with H.264 [default: a built-in one of ten seconds]
    #[arg(long, value_name = "FILE")]
    film: Option<PathBuf>,
    /// Packets that the relay drops at first, in percent; the page changes it
    #[arg(long, default_value_t = 0, value_name = "PERCENT")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100))]
    loss: u32,
    /// The most by which the relay delays a packet at first; the page changes it
    #[arg(long, default_value = "0ms", value_name = "TIME", value_parser = wire::conf::span)]
    delay: Duration,
    #[command(flatten)]
    serving: Serving,
}

/// The values of the sliders.
struct Sliders {
    /// Packets that are dropped, in percent.
    loss: AtomicU32,
    /// The most by which a packet is delayed, in milliseconds.
    delay: AtomicU32,
    /// How long the receiver waits for a packet, in milliseconds.
    buffer: AtomicU32,
}

/// The longest delay and buffer, in milliseconds.
const MS_MAX: u32 = 2000;
/// The receiver's buffer at first: what players on local networks use.
const BUFFER_MS: u32 = 120;

impl Sliders {
    /// Obeys a line of a page, such as `loss 20`; ignores others.
    fn hear(&self, line: &str) {
        let Some((name, value)) = line.split_once(' ') else { return };
        let Ok(value) = value.parse::<u32>() else { return };
        match name {
            "loss" => self.loss.store(value.min(100), Ordering::Relaxed),
            "delay" => self.delay.store(value.min(MS_MAX), Ordering::Relaxed),
            "buffer" => self.buffer.store(value.min(MS_MAX), Ordering::Relaxed),
            _ => {}
        }
    }
}

/// Serves the film and its page until the end.
pub fn run(args: &Args) -> Result<ExitCode> {
    let stop = crate::interrupt::watch()?;
    let room = room("roundhouse-demo")?;
    let film = match &args.film {
        Some(film) => {
            film.canonicalize().with_context(|| format!("expected a film in {}", film.display()))?
        }
        None => {
            let film = room.path().join("film.mp4");
            std::fs::write(&film, FILM).context("cannot write the film")?;
            film
        }
    };
    let sender = send(&film, room.path())?;
    let name = film.file_name().unwrap_or_default().as_encoded_bytes();
    let name: String = name.iter().map(|byte| format!("%{byte:02x}")).collect();
    let url = format!("rtsp://{}/{name}", sender.address);
    let delay = u32::try_from(args.delay.as_millis()).unwrap_or(MS_MAX).min(MS_MAX);
    let sliders =
        Arc::new(Sliders { loss: args.loss.into(), delay: delay.into(), buffer: BUFFER_MS.into() });
    let heard = Arc::clone(&sliders);
    let feed = Feed::new(move |line| heard.hear(line));
    let page = crate::page::page("a film over RTP", HTML, SCRIPT);
    let page = WebSocketOptions { page, ..MessageKind::Binary.into() };
    let address = args.serving.address();
    let server = Server::new(feed.clone()).websocket(page).listen(address).spawn();
    let server = super::cannot_serve(server, address)?;
    let over = AtomicBool::new(false);
    let served = std::thread::scope(|threads| {
        let mut receiver = Some(
            threads.spawn(|| receiver::receive(&url, &sender.address, &sliders, &feed, &over)),
        );
        let served = args.serving.wait("demo-media", server.address(), &stop, || {
            let Some(ended) = receiver.take_if(|it| it.is_finished()) else { return Ok(()) };
            ended.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        over.store(true, Ordering::Relaxed);
        served
    });
    sender.process.stop(PATIENCE);
    served
}

/// The media service with this film, as a separate process.
fn send(film: &Path, room: &Path) -> Result<Sender> {
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    let [exe, film] = [&exe, film].map(|path| path.display().to_string());
    let words = ["serve", "media", &film, "--loop", "--host", "127.0.0.1", "--port", "0", "--json"];
    let command: Vec<String> =
        std::iter::once(exe.as_str()).chain(words).map(str::to_owned).collect();
    let sender = Sender::start(&[], &command, room, "media", PATIENCE);
    sender.map_err(|why| anyhow!("cannot serve {film}: {why}"))
}
