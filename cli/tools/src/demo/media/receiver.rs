//! The client of the media service: RTSP on one connection, RTP through the relay, and records for
//! the page: `F` a picture, `P` packets, `S` figures.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use load::listen::{Client, ClientEvent, Delivery, Pair};
use serde_json::json;
use sys::udp::Udp;
use wire::rtp::Packet;

use super::Sliders;
use super::playout::{PacketFate, Playout};
use super::relay::{ROOM, relay};
use crate::demo::feed::Feed;

/// The longest wait for a packet, so that pictures are played when they are due.
const LOOK: Duration = Duration::from_millis(2);
/// The interval between two records of figures, in nanoseconds.
const FIGURES_NS: i64 = 250_000_000;

/// Receives the film at `url` until `over`, and appends records to `feed`.
///
/// # Errors
/// The film has no track of H.264, or the media service is gone.
pub fn receive(
    url: &str,
    address: &str,
    sliders: &Sliders,
    feed: &Feed,
    over: &AtomicBool,
) -> Result<()> {
    let server: SocketAddr = address.parse().context("expected the media service's address")?;
    let [outer, inner] = [(); 2].map(|()| Pair::new(server.ip()).context("no port is free"));
    let (outer, inner) = (outer?, inner?.media);
    let to = (Ipv4Addr::LOCALHOST, inner.local_addr()?.port()).into();
    let mut session = Session::open(url, server, outer.ports)?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let relay = threads.spawn(|| relay(&outer.media, to, sliders, &is_over));
        let mut played = Ok(());
        while !over.load(Ordering::Relaxed) && !relay.is_finished() && played.is_ok() {
            played = session.turn(&inner, sliders, feed);
        }
        is_over.store(true, Ordering::Relaxed);
        session.leave();
        let relayed = relay.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        played.and(relayed.context("the relay cannot send"))
    })
}

/// The film's session.
struct Session {
    stream: TcpStream,
    client: Client,
    inbox: Vec<u8>,
    /// The SSRC of the pictures, and their buffer.
    pictures: Option<(u32, Playout)>,
    /// The encodings of the other tracks.
    others: Vec<String>,
    alive_ns: i64,
    figures_ns: i64,
}

impl Session {
    fn open(url: &str, server: SocketAddr, ports: (u16, u16)) -> Result<Session> {
        let stream = TcpStream::connect(server).context("cannot reach the media service")?;
        stream.set_nonblocking(true)?;
        let mut client = Client::new(url, Delivery::Udp(ports), 0.0, None);
        client.begin();
        let (inbox, others) = (Vec::new(), Vec::new());
        let (alive_ns, figures_ns) = (now_ns(), 0);
        Ok(Session { stream, client, inbox, pictures: None, others, alive_ns, figures_ns })
    }

    /// Waits for a packet, and plays what is due.
    fn turn(&mut self, socket: &Udp, sliders: &Sliders, feed: &Feed) -> Result<()> {
        self.talk()?;
        socket.wait_readable(LOOK)?;
        let buffer_ns = i64::from(sliders.buffer.load(Ordering::Relaxed)) * 1_000_000;
        let (mut bytes, mut fates) = ([0; ROOM], Vec::new());
        while let Ok((len, _)) = socket.receive(&mut bytes) {
            let Some(packet) = Packet::read(&bytes[..len]) else { continue };
            let Some((ssrc, playout)) = &mut self.pictures else { continue };
            if packet.header.ssrc == *ssrc {
                fates.push(playout.packet(&packet, now_ns(), buffer_ns));
            }
        }
        let Some((_, playout)) = &mut self.pictures else { return Ok(()) };
        while let Some((picture, missing)) = playout.due(now_ns(), buffer_ns) {
            fates.extend(missing);
            let flags = u8::from(picture.is_key) | u8::from(!picture.is_whole) << 1;
            feed.put(b'F', &[&[flags], &picture.time_us.to_le_bytes(), &picture.bytes]);
        }
        if !fates.is_empty() {
            let bytes: Vec<u8> = fates.iter().flat_map(record).collect();
            feed.put(b'P', &[&bytes]);
        }
        let now = now_ns();
        if now - self.figures_ns >= FIGURES_NS {
            self.figures_ns = now;
            let figures = json!({
                "counts": playout.track.counts(),
                "late": playout.late,
                "pictures": playout.pictures.0,
                "damaged": playout.pictures.1,
                "loss": sliders.loss.load(Ordering::Relaxed),
                "delay": sliders.delay.load(Ordering::Relaxed),
                "buffer": sliders.buffer.load(Ordering::Relaxed),
            });
            feed.put(b'S', &[figures.to_string().as_bytes()]);
        }
        Ok(())
    }

    /// Exchanges the messages of RTSP.
    fn talk(&mut self) -> Result<()> {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => bail!("the media service has closed the connection"),
            Ok(len) => self.inbox.extend_from_slice(&bytes[..len]),
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(why) => return Err(why).context("the media service is gone"),
        }
        let (pictures, others) = (&mut self.pictures, &mut self.others);
        let mut is_playing = false;
        let used = self.client.receive(&self.inbox, &mut |event| match event {
            ClientEvent::SetUp { track, transport, .. } => match transport.ssrc {
                Some(ssrc) if track.encoding == "H264" && pictures.is_none() => {
                    *pictures = Some((ssrc, Playout::new(track.clock)));
                }
                _ => others.push(track.encoding.clone()),
            },
            ClientEvent::Playing(_) => is_playing = true,
            ClientEvent::Data(..) | ClientEvent::Over => {}
        });
        let used = used.map_err(|why| unusable(&why))?;
        self.inbox.drain(..used);
        if is_playing && self.pictures.is_none() {
            return Err(unusable(&self.others.join(", ")));
        }
        let now = now_ns();
        if now > self.alive_ns + self.client.keep_alive_s() as i64 * 1_000_000_000 {
            self.alive_ns = now;
            self.client.keep_alive();
        }
        // A request is far shorter than the buffer of a socket.
        self.stream.write_all(&self.client.take_out()).context("the media service is gone")
    }

    /// Says goodbye; a service that is gone needs none.
    fn leave(&mut self) {
        self.client.leave();
        let _ = self.stream.write_all(&self.client.take_out());
    }
}

/// The error of a film that cannot be shown.
fn unusable(found: &str) -> anyhow::Error {
    anyhow!(
        "expected a film with pictures of H.264, found {found}: `ffmpeg -i FILM -c:v libx264 -bf 0 \
         -g 25 film.mp4` makes one"
    )
}

/// A packet as the page reads it: number, delay in microseconds, fate; nine bytes.
fn record(fate: &PacketFate) -> [u8; 9] {
    let mut bytes = [fate.fate as u8; 9];
    bytes[..4].copy_from_slice(&(fate.number as u32).to_le_bytes());
    let delay_us = u32::try_from(fate.delay_ns / 1000).unwrap_or(u32::MAX);
    bytes[4..8].copy_from_slice(&delay_us.to_le_bytes());
    bytes
}

fn now_ns() -> i64 {
    sys::clock::now_ns().cast_signed()
}
