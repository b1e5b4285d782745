//! Streams without an RTSP session, to an address or a group that was agreed on otherwise; an SDP
//! description tells players how to listen.

use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use seam::{Instant, WorkerId};
use wire::sdp::{About, describe};

use super::Media;
use super::cursor::{Line, Segment};
use super::orders::{Destination, Orders, Setup};
use super::playback::begin_at;
use super::title::{Title, Trouble};
use web::{LookupError, Platform};

/// The destination of a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aim {
    /// The receiver or group, with the port of the first track's media. The track's control uses
    /// the next port, and each further track the next two.
    pub to: SocketAddr,
    /// The TTL, if it is a group.
    pub ttl: u8,
    /// The position in the file at which to begin.
    pub from: Duration,
}

/// The ordered streams.
#[derive(Clone, Debug)]
pub struct Push {
    /// The description (SDP).
    pub description: Vec<u8>,
    /// The slots of its tracks.
    pub slots: Vec<usize>,
    /// The encoding of each track, such as `MP2T/90000`.
    pub tracks: Vec<String>,
    /// Tracks that cannot be sent, by name.
    pub left_out: Vec<String>,
    /// How long it lasts, if it ends by itself.
    pub duration: Option<Duration>,
}

impl<B: Platform> Media<B> {
    /// Orders the streaming worker `me` to send `path` from `now` on.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub fn push(
        &self,
        orders: &Orders,
        (me, now): (WorkerId, Instant),
        path: &str,
        aim: &Aim,
    ) -> Result<Push, String> {
        let title = self.opened(path)?;
        let (tracks, laps) = (title.program.tracks.len(), self.laps(&title));
        let from = u64::try_from(aim.from.as_nanos()).unwrap_or(u64::MAX);
        let from = if title.ring().is_some() { now.ns() } else { from };
        let duration = (!laps).then_some(title.program.duration_ns);
        if duration.is_some_and(|duration| from >= duration) {
            let length = Duration::from_nanos(title.program.duration_ns).as_secs_f64();
            return Err(format!("{path} lasts {length:.3} s, and nothing is left to send"));
        }
        let last = 2 * tracks - 1;
        if u16::try_from(last).ok().and_then(|last| aim.to.port().checked_add(last)).is_none() {
            return Err(format!("{tracks} tracks have no room behind port {}", aim.to.port()));
        }
        let from_ns = begin_at(&title, 0..tracks, from);
        let mut slots = Vec::new();
        for track in 0..tracks {
            let segment = self.pushed(&title, track, (from_ns, now), laps);
            if segment.first >= segment.stop {
                continue;
            }
            let port = aim.to.port() + 2 * track as u16;
            let at = |port| SocketAddr::new(aim.to.ip(), port);
            let destination = Destination { rtp: at(port), rtcp: at(port + 1) };
            let random = self.secret.number(&format!("push {track} {}", now.ns())) as u32;
            let (path, stamp) = (title.path.as_str(), title.stamp);
            let setup = Setup { path, stamp, track, destination, random, alone: true };
            let (slot, _) = orders.set_up(me, &setup, usize::MAX).ok_or("no room for a track")?;
            orders.play(slot, &segment);
            slots.push(slot);
        }
        let is_group = aim.to.ip().is_multicast();
        let about = About {
            name: path,
            version: title.stamp,
            server: if aim.to.is_ipv4() { [0; 4].into() } else { IpAddr::from([0_u8; 16]) },
            live: self.is_broadcast(&title),
            to: Some((aim.to.ip(), is_group.then_some(aim.ttl))),
            port: Some(aim.to.port()),
            is_asked: false,
        };
        Ok(Push {
            description: describe(&title.program, &about),
            slots,
            tracks: title.program.tracks.iter().map(|track| track.encoding.clone()).collect(),
            left_out: title.program.left_out.clone(),
            duration: duration.map(|duration| Duration::from_nanos(duration - from_ns)),
        })
    }

    /// The title, loaded.
    fn opened(&self, path: &str) -> Result<Arc<Title<B::File>>, String> {
        if let Some(title) = self.live_title(path) {
            return Ok(title.clone());
        }
        match self.library.get(&self.platform, &self.options, path) {
            Ok(title) => Ok(title),
            Err(Trouble::Unplayable(words)) => Err(format!("{path}: {words}")),
            Err(Trouble::LookupError(missing)) => Err(match missing {
                LookupError::Absent => format!("expected a file, found none called {path}"),
                LookupError::Forbidden => format!("{path} may not be read"),
                LookupError::Exhausted => format!("{path} cannot be opened: no descriptor is left"),
                LookupError::Broken => format!("{path} cannot be read"),
            }),
        }
    }

    fn pushed(
        &self,
        title: &Arc<Title<B::File>>,
        track: usize,
        (from_ns, begin): (u64, Instant),
        laps: bool,
    ) -> Segment {
        let line = Line { title: title.clone(), track };
        let numbers = self.secret.number(&format!("push {track} {} numbers", begin.ns()));
        Segment {
            first: line.first_at(from_ns),
            stop: if laps { u64::MAX } else { line.lap() },
            from_ns,
            begin,
            sequence: (numbers >> 32) as u16,
            timestamp: numbers as u32,
            ends: true,
        }
    }
}
