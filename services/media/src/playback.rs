//! Play, pause and seek, and the position of a presentation.
//!
//! `answer.rs` calls `play` and `pause` for a presentation with its legs. A position is not
//! counted, it is computed: the time of the file at which playback began, plus the time since. PLAY
//! turns the range into a segment for each leg (first packet, packet to stop before, sequence
//! number, timestamp), and either writes it into the slot of the streaming worker or into the
//! interleaved stream. Two rules hold across pauses: sequence numbers continue without a gap, and
//! timestamps advance with the clock. That is why a pause stops a little in the future, where the
//! streaming worker may already be, and why members of a group share one position that no member
//! can move.

use seam::Instant;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use wire::rtsp::{Range, Status};
use wire::sdp::control;

use super::Media;
use super::cursor::{Cursor, Line, Segment, ticks};
use super::rtp_stream::RtpStream;
use super::service::At;
use super::title::Title;
use super::transport::{Leg, Way};
use web::Platform;
use wire::containers::Kind;

/// An RTSP session: one title played to one client.
#[derive(Debug)]
pub struct Presentation<F> {
    /// Its name, known to this client only.
    pub name: String,
    pub url: String,
    pub title: Arc<Title<F>>,
    /// The tracks that were set up.
    pub legs: Vec<Leg<F>>,
    /// When it was first played; timestamps count from there.
    began: Option<Instant>,
    stand: Stand,
}

/// How far ahead the streaming worker may be when it sees a pause: one turn of its loop, in
/// nanoseconds. Packets due until then are still sent, because their numbers are taken.
const AHEAD_NS: u64 = 10_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Ready,
    /// Playing: the time `from_ns` of the file was at `begin`.
    Playing {
        from_ns: u64,
        begin: Instant,
        to_ns: Option<u64>,
    },
    /// Paused at this time of the file.
    Paused {
        at_ns: u64,
    },
}

/// The next segment to play.
#[derive(Clone, Copy, Debug)]
struct Course {
    from_ns: u64,
    to_ns: Option<u64>,
    /// Playback resumes at the packet where it paused.
    resumes: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Playing {
    pub range: String,
    /// The value of `RTP-Info`.
    pub info: String,
}

impl<F: Send + 'static> Presentation<F> {
    /// A presentation with no track set up yet.
    pub fn new(name: String, url: String, title: Arc<Title<F>>) -> Presentation<F> {
        Presentation { name, url, title, legs: Vec::new(), began: None, stand: Stand::Ready }
    }

    /// Whether one more leg would mix multicast and unicast.
    pub fn mixes(&self, is_together: bool) -> bool {
        !self.legs.is_empty() && self.group().is_some() != is_together
    }

    fn group(&self) -> Option<usize> {
        self.legs.iter().find_map(|leg| match leg.way {
            Way::Group { group, .. } => Some(group),
            _ => None,
        })
    }

    fn tracks(&self) -> impl Iterator<Item = usize> {
        self.legs.iter().map(|leg| leg.track)
    }

    /// True while it plays, even if no packets are left.
    pub fn is_playing(&self) -> bool {
        matches!(self.stand, Stand::Playing { .. })
    }

    /// The position, in the file's time.
    pub fn position_ns(&self, now: Instant) -> u64 {
        match self.stand {
            Stand::Ready => 0,
            Stand::Paused { at_ns } => at_ns,
            Stand::Playing { from_ns, begin, to_ns } => {
                let since = u64::try_from(now.since(begin).as_nanos()).unwrap_or(u64::MAX);
                from_ns.saturating_add(since).min(to_ns.unwrap_or(u64::MAX))
            }
        }
    }

    /// The end of the presentation, if it has one.
    fn end_ns(&self, laps: bool) -> Option<u64> {
        (!laps).then_some(self.title.program.duration_ns)
    }

    /// Stops all legs; returns whether to ring the streaming worker.
    pub fn pause(&mut self, cx: &At<'_>) -> bool {
        let Stand::Playing { begin, .. } = self.stand else { return false };
        let at_ns = self.position_ns(cx.now);
        let mut rings = false;
        for leg in &mut self.legs {
            let Some(segment) = &mut leg.segment else { continue };
            match &mut leg.way {
                Way::Datagrams { slot } => {
                    rings = true;
                    let line = Line::of(&self.title, leg.track);
                    let since = u64::try_from(cx.now.since(begin).as_nanos()).unwrap_or(u64::MAX);
                    let now_ns = segment.from_ns.saturating_add(since);
                    // Packets due now have left or are leaving, and the streaming worker may be
                    // ahead.
                    let due = line.first_at(now_ns.saturating_add(AHEAD_NS));
                    segment.stop = due.clamp(segment.first, segment.stop);
                    cx.state.pause(*slot, segment.stop);
                }
                Way::Interleaved { rtp: Some(rtp), .. } => {
                    segment.stop = rtp.cursor.next;
                    rtp.cursor.segment.stop = segment.stop;
                    rtp.cursor.segment.ends = false;
                }
                Way::Interleaved { rtp: None, .. } => segment.stop = segment.first,
                // The other members continue.
                Way::Group { .. } => {}
            }
        }
        self.stand = Stand::Paused { at_ns };
        rings
    }
}

impl<B: Platform> Media<B> {
    /// Plays from the start of the range, or from the current position.
    pub(super) fn play(
        &self,
        cx: &At<'_>,
        presentation: &mut Presentation<B::File>,
        range: Option<Range>,
    ) -> Result<Playing, Status> {
        if presentation.is_playing() && range.is_none_or(|range| range.from_ns.is_none()) {
            // The presentation plays already.
            let info = info(presentation);
            return Ok(Playing {
                range: self.told(presentation, presentation.position_ns(cx.now)),
                info,
            });
        }
        if let Some(group) = presentation.group() {
            return Ok(self.play_together(cx, presentation, group));
        }
        let course = self.course(cx.now, presentation, range)?;
        let mut rings = presentation.pause(cx);
        let began = *presentation.began.get_or_insert(cx.now);
        for at in 0..presentation.legs.len() {
            presentation.legs[at].settle(cx);
            let Some(segment) = self.segment(presentation, at, &course, (began, cx.now)) else {
                // This track ends before the others.
                presentation.legs[at].segment = None;
                continue;
            };
            let leg = &mut presentation.legs[at];
            leg.segment = Some(segment);
            match &mut leg.way {
                Way::Datagrams { slot } => {
                    cx.state.play(*slot, &segment);
                    rings = true;
                }
                Way::Group { .. } => {}
                Way::Interleaved { rtp: Some(rtp), .. } => rtp.turn(segment),
                Way::Interleaved { rtp, .. } => {
                    let line = Line::of(&presentation.title, leg.track);
                    let cursor = Cursor::new(line, segment);
                    *rtp = Some(Box::new(RtpStream::new(cursor, leg.ssrc, Duration::ZERO)));
                }
            }
        }
        if rings {
            cx.ring();
        }
        let Course { from_ns, to_ns, .. } = course;
        presentation.stand = Stand::Playing { from_ns, begin: cx.now, to_ns };
        Ok(Playing { range: self.told(presentation, from_ns), info: info(presentation) })
    }

    /// Plays the group's title, if it does not play yet. All members share one position.
    fn play_together(
        &self,
        cx: &At<'_>,
        presentation: &mut Presentation<B::File>,
        group: usize,
    ) -> Playing {
        let title = presentation.title.clone();
        let (laps, tracks) = (self.options.laps(), presentation.tracks().collect::<Vec<_>>());
        let from_ns = match self.options.live {
            true => begin_at(&title, tracks.iter().copied(), cx.now.ns()),
            false => 0,
        };
        let segment = |track: usize, (from_ns, begin): (u64, Instant)| {
            let line = Line::of(&title, track);
            let since = u64::try_from(cx.now.since(begin).as_nanos()).unwrap_or(u64::MAX);
            let first = line.first_at(from_ns.saturating_add(since));
            let stop = if laps { u64::MAX } else { line.lap() };
            let what = format!("group {group} {track} {}", begin.ns());
            let random = self.secret.number(&what);
            let (sequence, timestamp) = ((random >> 32) as u16, random as u32);
            (first < stop).then_some(Segment {
                first,
                stop,
                from_ns,
                begin,
                sequence,
                timestamp,
                ends: true,
            })
        };
        let began = (from_ns, cx.now);
        let tracks = tracks.into_iter();
        let (began, rings) = cx.state.play_group(cx.worker, group, began, tracks, segment);
        if rings {
            cx.ring();
        }
        let (from_ns, begin) = began;
        presentation.stand = Stand::Playing { from_ns, begin, to_ns: presentation.end_ns(laps) };
        let range = self.told(presentation, presentation.position_ns(cx.now));
        Playing { range, info: info_together(cx, presentation) }
    }

    /// The segment to play for the requested range.
    fn course(
        &self,
        now: Instant,
        presentation: &Presentation<B::File>,
        range: Option<Range>,
    ) -> Result<Course, Status> {
        let end = presentation.end_ns(self.options.laps());
        if self.options.live {
            let from_ns = begin_at(&presentation.title, presentation.tracks(), now.ns());
            return Ok(Course { from_ns, to_ns: None, resumes: false });
        }
        let to_ns = range.and_then(|range| range.to_ns);
        let to_ns = match (to_ns, end) {
            (Some(to_ns), Some(end)) => Some(to_ns.min(end)),
            (to_ns, end) => to_ns.or(end),
        };
        if let Some(asked) = range.and_then(|range| range.from_ns) {
            if end.is_some_and(|end| asked >= end) {
                return Err(Status::INVALID_RANGE);
            }
            return Ok(Course {
                from_ns: begin_at(&presentation.title, presentation.tracks(), asked),
                to_ns,
                resumes: false,
            });
        }
        let at_ns = presentation.position_ns(now);
        // After the end, playback starts over.
        let resumes = presentation.stand != Stand::Ready && end.is_none_or(|end| at_ns < end);
        Ok(Course { from_ns: if resumes { at_ns } else { 0 }, to_ns, resumes })
    }

    /// The segment that one leg plays; `None` if its track has no more packets.
    fn segment(
        &self,
        presentation: &Presentation<B::File>,
        leg: usize,
        course: &Course,
        (began, begin): (Instant, Instant),
    ) -> Option<Segment> {
        let leg = &presentation.legs[leg];
        let line = Line::of(&presentation.title, leg.track);
        let first = match &leg.segment {
            Some(segment) if course.resumes => segment.stop,
            _ => line.first_at(course.from_ns),
        };
        let laps = self.options.laps();
        let last = if laps { u64::MAX } else { line.lap() };
        if first >= last {
            return None;
        }
        let whole = presentation.end_ns(laps);
        let stop = match course.to_ns {
            Some(to_ns) if Some(to_ns) != whole => line.first_at(to_ns).clamp(first, last),
            _ => last,
        };
        let since = u64::try_from(begin.since(began).as_nanos()).unwrap_or(u64::MAX);
        let ticks = ticks(since, line.track().clock) as u32;
        Some(Segment {
            first,
            stop,
            from_ns: course.from_ns,
            begin,
            sequence: leg.sequence,
            timestamp: leg.timestamp.wrapping_add(ticks),
            ends: true,
        })
    }

    /// The value of `Range`: the start and the end of the playback.
    fn told(&self, presentation: &Presentation<B::File>, from_ns: u64) -> String {
        if self.options.live {
            return "npt=now-".to_owned();
        }
        let duration = presentation.title.program.duration_ns;
        let to_ns = match presentation.stand {
            Stand::Playing { to_ns, .. } => to_ns,
            _ => presentation.end_ns(self.options.laps()),
        };
        let from = wire::rtsp::seconds(from_ns % duration.max(1));
        let to = to_ns.map_or(String::new(), wire::rtsp::seconds);
        format!("npt={from}-{to}")
    }
}

/// The position at which to begin for the time `ns`: at a key picture, if there is video.
fn begin_at<F: Send + 'static>(
    title: &Arc<Title<F>>,
    tracks: impl Iterator<Item = usize>,
    ns: u64,
) -> u64 {
    let lines = tracks.map(|track| Line::of(title, track));
    let leader = lines.reduce(|leader, line| {
        let is_picture = |line: &Line<F>| line.track().kind == Kind::Video;
        if is_picture(&line) && !is_picture(&leader) { line } else { leader }
    });
    leader.map_or(ns, |line| line.at_ns(line.sync_at(ns)).min(ns))
}

/// The value of `RTP-Info`: the sequence number and timestamp of each track's first packet.
fn info<F: Send + 'static>(presentation: &Presentation<F>) -> String {
    let mut info = String::new();
    for leg in &presentation.legs {
        let Some(segment) = leg.segment else { continue };
        let comma = if info.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(
            info,
            "{comma}url={}/{};seq={};rtptime={}",
            presentation.url,
            control(leg.track),
            segment.sequence,
            segment.timestamp
        );
    }
    info
}

/// The value of `RTP-Info` for a client that joins a group: the current timestamps, by which
/// players synchronise tracks before the next report. The first packet's sequence number is not
/// known.
fn info_together<F: Send + 'static>(cx: &At<'_>, presentation: &Presentation<F>) -> String {
    let mut info = String::new();
    for leg in &presentation.legs {
        let Way::Group { member, .. } = leg.way else { continue };
        let order = cx.state.listened_to(member).and_then(|slot| cx.state.order(slot));
        let Some(order) = order.filter(|order| order.goes) else { continue };
        let cursor = Cursor::new(Line::of(&presentation.title, leg.track), order.segment);
        let comma = if info.is_empty() { "" } else { "," };
        let (url, time) = (&presentation.url, cursor.timestamp_at(cx.now));
        // Writing to a string cannot fail.
        let _ = write!(info, "{comma}url={url}/{};rtptime={time}", control(leg.track));
    }
    info
}
