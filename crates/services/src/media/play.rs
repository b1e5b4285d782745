//! Play, pause, and where one stands.

use seam::Instant;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use wire::rtsp::{Range, Status};
use wire::sdp::control;

use super::Media;
use super::player::Player;
use super::run::{Line, Run, SECOND, Segment, ticks};
use super::service::At;
use super::title::Title;
use super::transport::{Leg, Way};
use crate::web::Platform;
use wire::containers::Kind;

/// A picture of a live source that is older than this is not begun with.
pub(super) const STALE_NS: u64 = 12 * SECOND;

/// A session of RTSP: one title on its way to one client.
#[derive(Debug)]
pub struct Show<F> {
    /// Its name, which nobody else knows.
    pub name: String,
    /// The URL of the title.
    pub url: String,
    /// What is played.
    pub title: Arc<Title<F>>,
    /// Its tracks, as they were set up.
    pub legs: Vec<Leg<F>>,
    /// When it was first played; timestamps count from there.
    began: Option<Instant>,
    stand: Stand,
}

/// How far a streaming worker may have gone on, in nanoseconds, before it hears of a pause: a turn
/// of its loop. What is due until then is still sent, for its numbers are taken.
const AHEAD_NS: u64 = 10_000_000;

/// Where a show stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    /// Nothing was played yet.
    Ready,
    /// The time `from_ns` of the file was at `begin`.
    Playing { from_ns: u64, begin: Instant, to_ns: Option<u64> },
    /// It stands still at this time of the file.
    Paused { at_ns: u64 },
}

/// Where a show goes.
#[derive(Clone, Copy, Debug)]
struct Course {
    from_ns: u64,
    to_ns: Option<u64>,
    /// It goes on where it stood, to the packet.
    resumes: bool,
}

/// What `PLAY` answers.
#[derive(Debug, PartialEq, Eq)]
pub struct Playing {
    /// The value of `Range`.
    pub range: String,
    /// The value of `RTP-Info`.
    pub info: String,
}

impl<F: Send + 'static> Show<F> {
    /// A show of which nothing is set up yet.
    pub fn new(name: String, url: String, title: Arc<Title<F>>) -> Show<F> {
        Show { name, url, title, legs: Vec::new(), began: None, stand: Stand::Ready }
    }

    /// Whether a leg to a group, or to this client alone, would be of another kind than the others.
    pub fn mixes(&self, is_together: bool) -> bool {
        !self.legs.is_empty() && self.group().is_some() != is_together
    }

    /// The group that it listens with.
    fn group(&self) -> Option<usize> {
        self.legs.iter().find_map(|leg| match leg.way {
            Way::Together { group, .. } => Some(group),
            _ => None,
        })
    }

    /// The tracks that are set up.
    fn tracks(&self) -> impl Iterator<Item = usize> {
        self.legs.iter().map(|leg| leg.track)
    }

    /// True while packets leave, or would if there were any left.
    pub fn is_playing(&self) -> bool {
        matches!(self.stand, Stand::Playing { .. })
    }

    /// Where it stands, in the file's time.
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

    /// The last moment of the show's line, if it has one.
    fn end_ns(&self, laps: bool) -> Option<u64> {
        (!laps).then_some(self.title.program.duration_ns)
    }

    /// Stops all legs; says whether a streaming worker has to know.
    pub fn pause(&mut self, cx: &At<'_>) -> bool {
        let Stand::Playing { begin, .. } = self.stand else { return false };
        let at_ns = self.position_ns(cx.now);
        let mut rings = false;
        for leg in &mut self.legs {
            let Some(segment) = &mut leg.segment else { continue };
            match &mut leg.way {
                Way::Datagrams { slot } => {
                    rings = true;
                    let line = Line { title: self.title.clone(), track: leg.track };
                    let since = u64::try_from(cx.now.since(begin).as_nanos()).unwrap_or(u64::MAX);
                    let now_ns = segment.from_ns.saturating_add(since);
                    // What is due now has left or is leaving, and a streaming worker may be ahead
                    // of us.
                    let due = line.first_at(now_ns.saturating_add(AHEAD_NS));
                    segment.stop = due.clamp(segment.first, segment.stop);
                    cx.state.pause(*slot, segment.stop);
                }
                Way::Within { player: Some(player), .. } => {
                    segment.stop = player.run.next;
                    player.run.segment.stop = segment.stop;
                    player.run.segment.ends = false;
                }
                Way::Within { player: None, .. } => segment.stop = segment.first,
                // Others go on listening.
                Way::Together { .. } => {}
            }
        }
        self.stand = Stand::Paused { at_ns };
        rings
    }
}

impl<B: Platform> Media<B> {
    /// Plays from where the range says, or from where the show stands.
    pub(super) fn play(
        &self,
        cx: &At<'_>,
        show: &mut Show<B::File>,
        range: Option<Range>,
    ) -> Result<Playing, Status> {
        if show.is_playing() && range.is_none_or(|range| range.from_ns.is_none()) {
            // It goes on as it does.
            let info = info(show);
            return Ok(Playing { range: self.told(show, show.position_ns(cx.now)), info });
        }
        if let Some(group) = show.group() {
            return Ok(self.play_together(cx, show, group));
        }
        let course = self.course(cx.now, show, range)?;
        let mut rings = show.pause(cx);
        let began = *show.began.get_or_insert(cx.now);
        for at in 0..show.legs.len() {
            show.legs[at].settle(cx);
            let Some(segment) = self.segment(show, at, &course, (began, cx.now)) else {
                // This track is over before the others are.
                show.legs[at].segment = None;
                continue;
            };
            let leg = &mut show.legs[at];
            leg.segment = Some(segment);
            match &mut leg.way {
                Way::Datagrams { slot } => {
                    cx.state.play(*slot, &segment);
                    rings = true;
                }
                Way::Together { .. } => {}
                Way::Within { player: Some(player), .. } => player.turn(segment),
                Way::Within { player, .. } => {
                    let run = Run::new(Media::<B>::line(&show.title, leg.track), segment);
                    *player = Some(Box::new(Player::new(run, leg.ssrc)));
                }
            }
        }
        if rings {
            cx.ring();
        }
        let Course { from_ns, to_ns, .. } = course;
        show.stand = Stand::Playing { from_ns, begin: cx.now, to_ns };
        Ok(Playing { range: self.told(show, from_ns), info: info(show) })
    }

    /// Plays what a group listens to, if nobody does already: it is where it is for all of them.
    fn play_together(&self, cx: &At<'_>, show: &mut Show<B::File>, group: usize) -> Playing {
        let title = show.title.clone();
        let (laps, tracks) = (self.laps(&title), show.tracks().collect::<Vec<_>>());
        let from_ns = match self.is_broadcast(&title) {
            true => begin_at(&title, tracks.iter().copied(), cx.now.ns()),
            false => 0,
        };
        let segment = |track: usize, (from_ns, begin): (u64, Instant)| {
            let line = Media::<B>::line(&title, track);
            let since = u64::try_from(cx.now.since(begin).as_nanos()).unwrap_or(u64::MAX);
            let first = line.first_at(from_ns.saturating_add(since));
            let stop = if laps { u64::MAX } else { line.lap() };
            let what = format!("group {group} {track} {}", begin.ns());
            let chance = self.chance.number(&what);
            let (sequence, timestamp) = ((chance >> 32) as u16, chance as u32);
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
        show.stand = Stand::Playing { from_ns, begin, to_ns: show.end_ns(laps) };
        let range = self.told(show, show.position_ns(cx.now));
        Playing { range, info: info_together(cx, show) }
    }

    /// Where a show goes from here.
    fn course(
        &self,
        now: Instant,
        show: &Show<B::File>,
        range: Option<Range>,
    ) -> Result<Course, Status> {
        let end = show.end_ns(self.laps(&show.title));
        if self.is_broadcast(&show.title) {
            let from_ns = begin_at(&show.title, show.tracks(), now.ns());
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
                from_ns: begin_at(&show.title, show.tracks(), asked),
                to_ns,
                resumes: false,
            });
        }
        let at_ns = show.position_ns(now);
        // Behind the end it begins again.
        let resumes = show.stand != Stand::Ready && end.is_none_or(|end| at_ns < end);
        Ok(Course { from_ns: if resumes { at_ns } else { 0 }, to_ns, resumes })
    }

    /// What one leg plays on this course; `None` if its track has nothing more.
    fn segment(
        &self,
        show: &Show<B::File>,
        leg: usize,
        course: &Course,
        (began, begin): (Instant, Instant),
    ) -> Option<Segment> {
        let leg = &show.legs[leg];
        let line = Media::<B>::line(&show.title, leg.track);
        let first = match &leg.segment {
            Some(segment) if course.resumes => segment.stop,
            _ => line.first_at(course.from_ns),
        };
        let laps = self.laps(&show.title);
        let last = if laps { u64::MAX } else { line.lap() };
        if first >= last {
            return None;
        }
        let whole = show.end_ns(laps);
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

    /// The value of `Range`: where it begins and where it ends.
    fn told(&self, show: &Show<B::File>, from_ns: u64) -> String {
        if self.is_broadcast(&show.title) {
            return "npt=now-".to_owned();
        }
        let duration = show.title.program.duration_ns;
        let to_ns = match show.stand {
            Stand::Playing { to_ns, .. } => to_ns,
            _ => show.end_ns(self.laps(&show.title)),
        };
        let from = wire::rtsp::seconds(from_ns % duration.max(1));
        let to = to_ns.map_or(String::new(), wire::rtsp::seconds);
        format!("npt={from}-{to}")
    }
}

/// Where to begin for the time `ns`: at a picture that needs no other, if there are pictures.
pub fn begin_at<F: Send + 'static>(
    title: &Arc<Title<F>>,
    tracks: impl Iterator<Item = usize>,
    ns: u64,
) -> u64 {
    let lines = tracks.map(|track| Line { title: title.clone(), track });
    let leader = lines.reduce(|leader, line| {
        let is_picture = |line: &Line<F>| line.track().kind == Kind::Video;
        if is_picture(&line) && !is_picture(&leader) { line } else { leader }
    });
    let at_ns = leader.map_or(ns, |line| line.at_ns(line.sync_at(ns)).min(ns));
    // A source that has been still for longer than pictures are apart goes on when it does.
    let is_stale =
        title.ring().is_some_and(|ring| ring.last_ns().is_none() || ns - at_ns > STALE_NS);
    if is_stale { ns } else { at_ns }
}

/// The value of `RTP-Info`: number and timestamp of each track's first packet.
fn info<F: Send + 'static>(show: &Show<F>) -> String {
    let mut info = String::new();
    for leg in &show.legs {
        let Some(segment) = leg.segment else { continue };
        let comma = if info.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(
            info,
            "{comma}url={}/{};seq={};rtptime={}",
            show.url,
            control(leg.track),
            segment.sequence,
            segment.timestamp
        );
    }
    info
}

/// The value of `RTP-Info` for who joins a group: the timestamps of this moment, by which players
/// bring tracks together before the next report. Which packet is the first one nobody knows.
fn info_together<F: Send + 'static>(cx: &At<'_>, show: &Show<F>) -> String {
    let mut info = String::new();
    for leg in &show.legs {
        let Way::Together { member, .. } = leg.way else { continue };
        let order = cx.state.listened_to(member).and_then(|slot| cx.state.order(slot));
        let Some(order) = order.filter(|order| order.goes) else { continue };
        let run = Run::new(Line { title: show.title.clone(), track: leg.track }, order.segment);
        let comma = if info.is_empty() { "" } else { "," };
        let (url, time) = (&show.url, run.timestamp_at(cx.now));
        // Writing to a string cannot fail.
        let _ = write!(info, "{comma}url={url}/{};rtptime={time}", control(leg.track));
    }
    info
}

/// A position for people and parameters, in seconds.
pub fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64().min(u64::MAX as f64 / SECOND as f64)
}
