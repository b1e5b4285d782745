//! Classes of packets: audio before video before bulk, and the earliest first within a class.
//! Packets later than their class allows are dropped, because a receiver could not use them any
//! more.
//!
//! While every packet can leave in time the order hardly matters. Under overload it decides which
//! packets are late: without classes all are, with them only those that may be.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use seam::{Channel, Instant, Packet, PacketClass};

/// How classes are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes {
    /// Audio leaves before video, and video before bulk; otherwise all are one class.
    pub ordered: bool,
    /// How late a packet of each class may be and still be sent.
    pub limits: [Option<Duration>; PacketClass::ALL.len()],
}

impl Default for Classes {
    /// In order, and nothing is dropped.
    fn default() -> Classes {
        Classes { ordered: true, limits: [None; PacketClass::ALL.len()] }
    }
}

impl Classes {
    /// The rank of a class: 0 leaves first.
    fn rank(&self, class: PacketClass) -> u8 {
        if self.ordered { class as u8 } else { 0 }
    }

    /// The oldest moment of a packet of `class` that is still sent at `now`.
    pub(crate) fn oldest(&self, class: PacketClass, now: Instant) -> Instant {
        match self.limits[class as usize] {
            Some(limit) => Instant::from_ns(now.ns().saturating_sub(limit.as_nanos() as u64)),
            None => Instant::ZERO,
        }
    }

    /// Whether `packet` is too late to be sent at `now`. Reports are always sent, because a lost
    /// BYE would leave receivers waiting.
    pub(crate) fn drops(&self, packet: &Packet, now: Instant) -> bool {
        packet.channel == Channel::Rtp && packet.at < self.oldest(packet.class, now)
    }
}

/// `off`, `on`, or limits in milliseconds such as `audio=60,video=200`.
impl FromStr for Classes {
    type Err = String;

    fn from_str(text: &str) -> Result<Classes, String> {
        let mut classes = Classes { ordered: text != "off", ..Classes::default() };
        if matches!(text, "on" | "off") {
            return Ok(classes);
        }
        for part in text.split(',') {
            let wanted =
                || format!("expected on, off or CLASS=MS,… (audio, video, bulk), found `{part}`");
            let (name, ms) = part.split_once('=').ok_or_else(wanted)?;
            let class = PacketClass::ALL.into_iter().find(|it| it.name() == name);
            let ms: u32 = ms.parse().map_err(|_| wanted())?;
            let limit = Duration::from_millis(ms.into());
            classes.limits[class.ok_or_else(wanted)? as usize] = Some(limit);
        }
        Ok(classes)
    }
}

impl fmt::Display for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = PacketClass::ALL.into_iter().filter_map(|class| {
            let limit = self.limits[class as usize]?;
            Some(format!("{}={}", class.name(), limit.as_millis()))
        });
        let limits: Vec<String> = limits.collect();
        match (self.ordered, limits.is_empty()) {
            (false, _) => f.write_str("off"),
            (true, true) => f.write_str("on"),
            (true, false) => f.write_str(&limits.join(",")),
        }
    }
}

/// Streams whose moment has come, in the order in which they are served.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    heap: BinaryHeap<Reverse<(u8, Instant, u32, u32)>>,
}

impl Ready {
    /// Adds the stream `id`, by its key and stamp, whose packets are due since `asked`.
    pub fn push(&mut self, classes: &Classes, class: PacketClass, asked: Instant, id: (u32, u32)) {
        self.heap.push(Reverse((classes.rank(class), asked, id.0, id.1)));
    }

    /// The next stream to serve: its key and its stamp.
    pub fn pop(&mut self) -> Option<(u32, u32)> {
        self.heap.pop().map(|Reverse((_, _, key, stamp))| (key, stamp))
    }

    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seam::{Body, Burst};
    use std::net::SocketAddr;

    /// Counts of a class: packets sent and dropped, and the greatest lateness in ms.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct Fate {
        sent: u64,
        dropped: u64,
        late_ms: u64,
    }

    /// A second of virtual time: each class has a number of streams with a packet every 10 ms, and
    /// the worker can send `speed` packets in a millisecond.
    fn play(classes: &Classes, streams: [u64; 3], speed: usize) -> [Fate; 3] {
        let ms = |it: u64| Instant::from_ns(it * 1_000_000);
        let mut all: Vec<(PacketClass, u64)> = Vec::new();
        for class in PacketClass::ALL {
            all.extend((0..streams[class as usize]).map(|at| (class, at % 10)));
        }
        let mut queued = vec![false; all.len()];
        let (mut ready, mut fates) = (Ready::default(), [Fate::default(); 3]);
        for now in 0..1000 {
            for (key, (class, due)) in all.iter().enumerate() {
                if *due <= now && !std::mem::replace(&mut queued[key], true) {
                    ready.push(classes, *class, ms(*due), (key as u32, 0));
                }
            }
            let mut room = speed;
            while room > 0 {
                let Some((key, _)) = ready.pop() else { break };
                let (class, due) = &mut all[key as usize];
                queued[key as usize] = false;
                let fate = &mut fates[*class as usize];
                if ms(*due) < classes.oldest(*class, ms(now)) {
                    fate.dropped += 1;
                } else {
                    room -= 1;
                    fate.sent += 1;
                    fate.late_ms = fate.late_ms.max(now - *due);
                }
                *due += 10;
                if *due <= now {
                    queued[key as usize] = true;
                    ready.push(classes, *class, ms(*due), (key, 0));
                }
            }
        }
        fates
    }

    #[test]
    fn with_room_for_all_every_packet_is_in_time() {
        for classes in ["on", "off", "audio=60,video=200,bulk=0"] {
            let fates = play(&classes.parse().expect("classes"), [10, 10, 10], 4);
            assert!(fates.iter().all(|it| it.dropped == 0 && it.late_ms <= 1), "{fates:?}");
        }
    }

    #[test]
    fn under_overload_audio_keeps_its_deadlines() {
        // Of 10 packets a millisecond 4 can leave: one of audio, four of video, five of bulk.
        let load = [10, 40, 50];
        let blind = play(&"off".parse().expect("classes"), load, 4);
        assert!(blind.iter().all(|it| it.late_ms > 500), "{blind:?}");
        let ordered = play(&Classes::default(), load, 4);
        assert_eq!((ordered[0].late_ms, ordered[0].dropped), (0, 0), "{ordered:?}");
        assert!(ordered[1].late_ms > 200 && ordered[2].sent == 0, "{ordered:?}");
        // With a limit the video that is sent is of use, and the rest makes room.
        let [audio, video, bulk] = play(&"audio=60,video=50".parse().expect("classes"), load, 4);
        assert_eq!((audio.late_ms, audio.dropped), (0, 0));
        assert!(video.late_ms <= 50 && video.dropped > 0 && video.sent >= 2900, "{video:?}");
        assert_eq!(bulk.dropped, 0);
        // Bulk gets what the others leave.
        let [audio, video, bulk] = play(&Classes::default(), [10, 10, 50], 4);
        assert_eq!((audio.late_ms, video.late_ms), (0, 0));
        assert!((1900..=2000).contains(&bulk.sent), "{bulk:?}");
    }

    #[test]
    fn the_earliest_of_a_class_is_first() {
        let (classes, mut ready) = (Classes::default(), Ready::default());
        let at = Instant::from_ns;
        ready.push(&classes, PacketClass::Bulk, at(1), (1, 0));
        ready.push(&classes, PacketClass::Audio, at(9), (2, 0));
        ready.push(&classes, PacketClass::Video, at(5), (3, 0));
        ready.push(&classes, PacketClass::Video, at(4), (4, 0));
        let order: Vec<u32> = std::iter::from_fn(|| ready.pop()).map(|it| it.0).collect();
        assert_eq!(order, [2, 4, 3, 1]);
    }

    #[test]
    fn a_late_packet_is_dropped_and_a_report_is_not() {
        let classes: Classes = "audio=60".parse().expect("classes");
        let (to, now) = (SocketAddr::from(([127, 0, 0, 1], 9)), Instant::from_ns(100_000_000));
        let mut burst = Burst::new(9);
        for (class, channel, at_ms) in [
            (PacketClass::Audio, Channel::Rtp, 39),
            (PacketClass::Audio, Channel::Rtcp, 39),
            (PacketClass::Audio, Channel::Rtp, 40),
            (PacketClass::Video, Channel::Rtp, 1),
        ] {
            burst.set_class(class);
            burst.push(Instant::from_ns(at_ms * 1_000_000), to, channel, b"x", Body::Bytes(b""));
        }
        assert_eq!(burst.drop_from(0, |packet| classes.drops(packet, now)), 1);
        assert_eq!(burst.packets()[0].channel, Channel::Rtcp);
        assert_eq!(burst.len(), 3);
    }

    #[test]
    fn words_name_classes() {
        for text in ["on", "off", "audio=60,video=200", "bulk=1000"] {
            assert_eq!(text.parse::<Classes>().expect(text).to_string(), text);
        }
        for text in ["", "audio", "audio=x", "sound=60"] {
            let why = text.parse::<Classes>().expect_err("no classes");
            assert!(why.contains("CLASS=MS"), "{why}");
        }
    }
}
