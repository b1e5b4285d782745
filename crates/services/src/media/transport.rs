//! Which way packets go: what a client offers, and what it gets.

use core::net::{IpAddr, SocketAddr};
use seam::Peer;
use wire::rtcp::Heard;
use wire::rtsp::{Lower, Transport, transports};

use super::Media;
use super::orders::{Goal, Setup};
use super::play::Show;
use super::player::Player;
use super::run::Segment;
use super::service::At;
use super::title::{Title, Window};
use crate::web::Backstage;

/// One track on one way.
#[derive(Debug)]
pub struct Leg<F> {
    /// Which track.
    pub track: usize,
    /// Which way.
    pub way: Way<F>,
    /// Who sends.
    pub ssrc: u32,
    /// The number of the next packet.
    pub sequence: u16,
    /// The timestamp at the moment at which the show began.
    pub timestamp: u32,
    /// What plays, or played last.
    pub segment: Option<Segment>,
    /// What was reported within the connection.
    pub heard: Option<Heard>,
}

/// A way.
#[derive(Debug)]
pub enum Way<F> {
    /// By a caster.
    Datagrams {
        /// The slot of its orders.
        slot: usize,
    },
    /// Within the connection.
    Within {
        /// The channel of media.
        media: u8,
        /// The channel of control.
        control: u8,
        /// What plays, if something did.
        player: Option<Box<Player<F>>>,
        /// A stretch of a long file.
        window: Window,
    },
}

impl<F> Leg<F> {
    /// What was played is over: the next packet has the number behind the last one's.
    pub fn settle(&mut self, cx: &At<'_>) {
        let Some(segment) = &mut self.segment else { return };
        if let Way::Datagrams { slot } = self.way {
            segment.stop = cx.state.reached(slot);
        }
        let sent = (segment.stop - segment.first.min(segment.stop)) as u16;
        self.sequence = segment.sequence.wrapping_add(sent);
    }
}

/// Why there is no leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoWay {
    /// None of the ways can be gone; the client may offer others.
    Unsupported,
    /// There is no room.
    Full,
}

impl<B: Backstage> Media<B> {
    /// The first of the offered ways that can be gone, and what the client is told of it.
    pub(super) fn leg(
        &self,
        cx: &At<'_>,
        (peer, show): (Peer, Option<&Show<B::File>>),
        (title, track): (&Title<B::File>, usize),
        offered: &str,
    ) -> Result<(Leg<B::File>, Transport), NoWay> {
        let what = format!("leg {} {} {track}", cx.me.bits(), cx.now.ns());
        let chance = self.chance.number(&what);
        let numbers = self.chance.number(&format!("{what} numbers"));
        let leg = |ssrc, way| Leg {
            track,
            way,
            ssrc,
            sequence: (numbers >> 32) as u16,
            timestamp: numbers as u32,
            segment: None,
            heard: None,
        };
        let mut full = false;
        for offer in transports(offered) {
            if offer.record || offer.multicast {
                continue;
            }
            if offer.lower == Some(Lower::Tcp) {
                let Some((media, control)) = channels(&offer, show) else { continue };
                let ssrc = chance as u32;
                let way = Way::Within { media, control, player: None, window: Window::default() };
                let told = Transport {
                    lower: offer.lower,
                    interleaved: Some((media, control)),
                    ssrc: Some(ssrc),
                    ..Transport::default()
                };
                return Ok((leg(ssrc, way), told));
            }
            let (Some(server), Some(goal)) = (self.options.ports, goal(&offer, peer)) else {
                continue;
            };
            let setup =
                Setup { path: &title.path, stamp: title.stamp, track, goal, chance: chance as u32 };
            let most = self.options.per_address;
            let Some((slot, ssrc)) = cx.state.set_up(cx.worker, &setup, most) else {
                full = true;
                continue;
            };
            let told = Transport {
                lower: offer.lower,
                client_port: offer.client_port,
                server_port: Some(server),
                ssrc: Some(ssrc),
                ..Transport::default()
            };
            return Ok((leg(ssrc, Way::Datagrams { slot }), told));
        }
        Err(if full { NoWay::Full } else { NoWay::Unsupported })
    }
}

/// The channels that the client wants, or the next two that are free.
fn channels<F>(offer: &Transport, show: Option<&Show<F>>) -> Option<(u8, u8)> {
    let legs = || show.into_iter().flat_map(|show| &show.legs);
    let is_taken = |channel: u8| {
        legs().any(|leg| match &leg.way {
            Way::Within { media, control, .. } => [*media, *control].contains(&channel),
            Way::Datagrams { .. } => false,
        })
    };
    match offer.interleaved {
        Some((media, control)) if media == control || is_taken(media) || is_taken(control) => None,
        Some(pair) => Some(pair),
        None => {
            let media = (0..=254_u8).step_by(2).find(|it| !is_taken(*it) && !is_taken(it + 1))?;
            Some((media, media + 1))
        }
    }
}

/// Where datagrams go: to who asks and to nobody else, for a server that sends streams wherever it
/// is told is a weapon. Ports below 1024 belong to servers, which no player is.
fn goal(offer: &Transport, peer: Peer) -> Option<Goal> {
    let Peer::Net(address) = peer else { return None };
    let ip = address.ip().to_canonical();
    if let Some(destination) = &offer.destination
        && destination.parse::<IpAddr>().ok().map(|it| it.to_canonical()) != Some(ip)
    {
        return None;
    }
    let (rtp, rtcp) = offer.client_port?;
    (rtp >= 1024 && rtcp >= 1024 && rtp != rtcp)
        .then(|| Goal { rtp: SocketAddr::new(ip, rtp), rtcp: SocketAddr::new(ip, rtcp) })
}
