//! Negotiates the transport of a track: the client's offers and the server's choice.
//!
//! SETUP calls `leg` with the field `Transport`, a list in the client's order of preference, and
//! the first offer that the server supports wins. An interleaved leg has two channels of the
//! connection. A leg of datagrams takes a slot of the shared orders, which a streaming worker
//! serves. A leg to a group joins the group of its title. Other datagrams go to the client's own
//! address only, because a server that streams to any address can be used for attacks. SSRC, first
//! sequence number and first timestamp are random (RFC 3550 section 5.1).

use core::net::{IpAddr, SocketAddr};
use seam::Peer;
use wire::rtcp::ReceptionReport;
use wire::rtsp::{Lower, Transport, transports};

use super::Media;
use super::cursor::Segment;
use super::group::Groups;
use super::orders::{Destination, Setup};
use super::playback::Presentation;
use super::rtp_stream::RtpStream;
use super::service::At;
use super::title::{Title, Window};
use web::Platform;

/// One track with its transport.
#[derive(Debug)]
pub struct Leg<F> {
    pub track: usize,
    pub way: Way<F>,
    pub ssrc: u32,
    /// The number of the next packet.
    pub sequence: u16,
    /// The timestamp at the moment when the presentation began.
    pub timestamp: u32,
    /// The segment that plays, or the last one that did.
    pub segment: Option<Segment>,
    /// The last report that arrived interleaved.
    pub heard: Option<ReceptionReport>,
}

#[derive(Debug)]
pub enum Way<F> {
    /// Datagrams, sent by the streaming worker.
    Datagrams { slot: usize },
    /// Datagrams to a group, sent by the streaming worker.
    Group {
        /// The slot that represents this session.
        member: usize,
        group: usize,
    },
    Interleaved {
        media: u8,
        control: u8,
        /// The RTP stream, once it has played.
        rtp: Option<Box<RtpStream<F>>>,
        /// The current window of a long file.
        window: Window,
    },
}

impl<F> Leg<F> {
    /// Ends the leg; returns whether to ring the streaming worker.
    pub fn let_go(&self, cx: &At<'_>) -> bool {
        match self.way {
            Way::Datagrams { slot } => cx.state.release(slot),
            Way::Group { member, .. } => cx.state.leave(cx.worker, member),
            Way::Interleaved { .. } => return false,
        }
        true
    }

    /// Ends the segment; the next packet continues its sequence numbers.
    pub fn settle(&mut self, cx: &At<'_>) {
        let Some(segment) = &mut self.segment else { return };
        if let Way::Datagrams { slot } = self.way {
            segment.stop = cx.state.reached(slot);
        }
        let sent = (segment.stop - segment.first.min(segment.stop)) as u16;
        self.sequence = segment.sequence.wrapping_add(sent);
    }
}

/// Why no transport was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoWay {
    /// None of the offered transports is supported; the client may offer others.
    Unsupported,
    /// No slot, group or channel is free.
    Full,
}

impl<B: Platform> Media<B> {
    /// Accepts the first offered transport that is supported; returns the leg and the reply.
    pub(super) fn leg(
        &self,
        cx: &At<'_>,
        (peer, presentation): (Peer, Option<&Presentation<B::File>>),
        (title, track): (&Title<B::File>, usize),
        offered: &str,
    ) -> Result<(Leg<B::File>, Transport), NoWay> {
        let what = format!("leg {} {} {track}", cx.me.bits(), cx.now.ns());
        let random = self.secret.number(&what);
        let numbers = self.secret.number(&format!("{what} numbers"));
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
            let is_together = offer.multicast && offer.lower == Some(Lower::Udp);
            // All tracks of a session go to a group, or none.
            let is_odd = offer.multicast != is_together;
            if offer.record || is_odd || presentation.is_some_and(|it| it.mixes(is_together)) {
                continue;
            }
            if is_together {
                match self.together(cx, peer, (title, track), &offer, random as u32) {
                    Ok((way, told, ssrc)) => return Ok((leg(ssrc, way), told)),
                    Err(NoWay::Full) => full = true,
                    Err(NoWay::Unsupported) => {}
                }
                continue;
            }
            if offer.lower == Some(Lower::Tcp) {
                let Some((media, control)) = channels(&offer, presentation) else { continue };
                let ssrc = random as u32;
                let way = Way::Interleaved { media, control, rtp: None, window: Window::default() };
                let told = Transport {
                    lower: offer.lower,
                    interleaved: Some((media, control)),
                    ssrc: Some(ssrc),
                    ..Transport::default()
                };
                return Ok((leg(ssrc, way), told));
            }
            let is_single = self.options.groups.is_none_or(|groups| !groups.only);
            let server = self.options.ports.filter(|_| is_single);
            let (Some(server), Some(destination)) = (server, destination(&offer, peer)) else {
                continue;
            };
            let (path, stamp, random) = (&title.path, title.stamp, random as u32);
            let setup = Setup { path, stamp, track, destination, random };
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

    /// The transport to a group, for a client that requested multicast.
    fn together(
        &self,
        cx: &At<'_>,
        peer: Peer,
        (title, track): (&Title<B::File>, usize),
        offer: &Transport,
        random: u32,
    ) -> Result<(Way<B::File>, Transport, u32), NoWay> {
        let Peer::Net(client) = peer else { return Err(NoWay::Unsupported) };
        let (group, groups) = self.group(cx, title).ok_or(NoWay::Unsupported)?;
        let ports = groups.ports(track).ok_or(NoWay::Unsupported)?;
        let address = groups.address(group);
        let is_ours = |wanted: &String| wanted.parse() == Ok(address);
        if !offer.destination.as_ref().is_none_or(is_ours) {
            return Err(NoWay::Unsupported);
        }
        let to = |port| SocketAddr::new(address, port);
        let destination = Destination { rtp: to(ports.0), rtcp: to(ports.1) };
        let (path, stamp) = (title.path.as_str(), title.stamp);
        let sent = Setup { path, stamp, track, destination, random };
        let here = SocketAddr::new(client.ip().to_canonical(), 0);
        let member = Setup { destination: Destination { rtp: here, rtcp: here }, ..sent };
        let most = self.options.per_address;
        let joined = cx.state.join(cx.worker, group, (&member, &sent), most);
        let (member, ssrc) = joined.ok_or(NoWay::Full)?;
        let told = Transport {
            lower: offer.lower,
            multicast: true,
            destination: Some(address.to_string()),
            port: Some(ports),
            ttl: Some(groups.ttl),
            ssrc: Some(ssrc),
            ..Transport::default()
        };
        Ok((Way::Group { member, group }, told, ssrc))
    }

    pub(super) fn group(&self, cx: &At<'_>, title: &Title<B::File>) -> Option<(usize, Groups)> {
        let groups = self.options.groups.filter(|_| self.options.ports.is_some())?;
        let key = self.secret.number(&format!("group {} {}", title.path, title.stamp));
        Some((cx.state.group(key)?, groups))
    }
}

/// The channels that the client requested, or the next two free ones.
fn channels<F>(offer: &Transport, presentation: Option<&Presentation<F>>) -> Option<(u8, u8)> {
    let legs = || presentation.into_iter().flat_map(|presentation| &presentation.legs);
    let is_taken = |channel: u8| {
        legs().any(|leg| match &leg.way {
            Way::Interleaved { media, control, .. } => [*media, *control].contains(&channel),
            Way::Datagrams { .. } | Way::Group { .. } => false,
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

/// The destination of datagrams: always the client's own address, because a server that sends
/// streams to any requested address can be used for attacks. Ports below 1024 belong to servers,
/// not players.
fn destination(offer: &Transport, peer: Peer) -> Option<Destination> {
    let Peer::Net(address) = peer else { return None };
    let ip = address.ip().to_canonical();
    if let Some(destination) = &offer.destination
        && destination.parse::<IpAddr>().ok().map(|it| it.to_canonical()) != Some(ip)
    {
        return None;
    }
    let (rtp, rtcp) = offer.client_port?;
    (rtp >= 1024 && rtcp >= 1024 && rtp != rtcp)
        .then(|| Destination { rtp: SocketAddr::new(ip, rtp), rtcp: SocketAddr::new(ip, rtcp) })
}
