//! The plan of one handover to a kernel queue: packets of many streams in the order of their due
//! times, with the pauses between them.
//!
//! The senders `kernel-rtp` and `uring-chain` fill the plan's burst stream by stream. `arrange`
//! sorts all packets by due time and class, joins neighbours of one stream that can leave as one
//! segmented message, and asks the sender for the pauses before each; `write` then puts a message
//! into a batch. A pause is a datagram to an unused address, whose length costs the token bucket
//! time. The kernel cannot give packets back one by one, so the plan remembers the owner of each:
//! `clear` tells how many packets of each stream never left. A message that was refused loses the
//! run of headers that a kernel program would have written, because the program counts messages.

use std::collections::HashMap;
use std::ops::Range;

use seam::{Burst, Channel, Instant, Packet};
use sys::udp::Filling;

use super::kernel_rtp::{HEAD, HeadStamps};
use super::maps::Maps;
use super::outlet::Outlet;
use super::queue::Handed;

/// The maximum length of a message in bytes: the bucket would split a message that costs more than
/// it holds.
const MESSAGE_MAX: usize = 60_000;
/// The place of a header that the kernel writes.
const BLANK: [u8; HEAD] = [0; HEAD];

/// The next step of a plan.
#[derive(Debug)]
pub enum Step {
    /// A datagram of this many bytes, sent to an unused address.
    Pause(u8),
    Send(Message),
}

/// Packets that leave as one message.
#[derive(Debug)]
pub struct Message {
    /// Their stream.
    pub owner: u32,
    /// Their positions in the order.
    pub packets: Range<usize>,
    pub bytes: usize,
    pub leaves_ns: u64,
    /// The run of headers that the kernel writes into it; 0 for none.
    pub run: u16,
}

impl Step {
    /// The waiting message, once this step was handed over.
    pub fn handed(&self) -> Option<Handed> {
        let Step::Send(message) = self else { return None };
        let leaves = Instant::from_ns(message.leaves_ns);
        let (owner, packets, bytes) = (message.owner, message.packets.len(), message.bytes);
        Some(Handed { owner, packets, bytes, leaves })
    }
}

/// Steps that leave from one socket.
pub struct Run {
    pub range: Range<usize>,
    pub channel: Channel,
}

/// Packets, and the steps that send them.
pub struct SendPlan {
    burst: Burst,
    /// The position of each owner's first packet.
    owners: Vec<(usize, u32)>,
    /// The packets in the order of their due times: position in the burst, owner, run.
    order: Vec<(usize, u32, u16)>,
    pub steps: Vec<Step>,
    /// The number of packets that cannot leave, by owner.
    lost: HashMap<u32, usize>,
    pauses: Vec<u8>,
}

impl SendPlan {
    pub fn new(packets_max: usize) -> SendPlan {
        SendPlan {
            burst: Burst::new(packets_max),
            owners: Vec::new(),
            order: Vec::new(),
            steps: Vec::new(),
            lost: HashMap::new(),
            pauses: Vec::new(),
        }
    }

    /// The burst to which `owner` appends its packets.
    pub fn burst(&mut self, owner: u32) -> &mut Burst {
        self.owners.push((self.burst.len(), owner));
        &mut self.burst
    }

    pub fn is_empty(&self) -> bool {
        self.burst.is_empty()
    }

    /// The packets, in the order in which they were added.
    pub fn gathered(&self) -> &[Packet] {
        self.burst.packets()
    }

    /// The number of packets that the last owner added.
    pub fn owned(&self) -> usize {
        self.owners.last().map_or(0, |(from, _)| self.burst.len() - from)
    }

    /// Sorts the packets, gathers up to `cut` that leave together, and plans when they leave. `has`
    /// checks whether a packet's bytes exist. `plan` gets the due time and the length of a message,
    /// appends the pauses before it, and returns when it leaves.
    pub fn arrange(
        &mut self,
        cut: usize,
        stamps: Option<&mut HeadStamps>,
        has: impl Fn(&Packet) -> bool,
        mut plan: impl FnMut(Instant, usize, &mut Vec<u8>) -> u64,
    ) {
        for (at, &(from, owner)) in self.owners.iter().enumerate() {
            let to = self.owners.get(at + 1).map_or(self.burst.len(), |(next, _)| *next);
            for place in from..to {
                if has(&self.burst.packets()[place]) {
                    self.order.push((place, owner, 0));
                } else {
                    *self.lost.entry(owner).or_insert(0) += 1;
                }
            }
        }
        let packets = self.burst.packets();
        self.order.sort_by_key(|(place, ..)| (packets[*place].at, packets[*place].class));
        if let Some(stamps) = stamps {
            for (place, owner, run) in &mut self.order {
                let packet = &packets[*place];
                // The program finds the header only after an IPv4 header.
                if packet.channel == Channel::Rtp && packet.to.ip().to_canonical().is_ipv4() {
                    *run = stamps.run(*owner, self.burst.front(packet));
                }
            }
            stamps.close();
        }
        let mut from = 0;
        while from < self.order.len() {
            let to = from + self.together(from, cut);
            let (place, owner, run) = self.order[from];
            let bytes = self.order[from..to].iter().map(|(it, ..)| packets[*it].len()).sum();
            let leaves_ns = plan(packets[place].at, bytes, &mut self.pauses);
            self.steps.extend(self.pauses.drain(..).map(Step::Pause));
            self.steps.push(Step::Send(Message {
                owner,
                packets: from..to,
                bytes,
                leaves_ns,
                run,
            }));
            from = to;
        }
    }

    /// The number of packets from `from` on that can leave as one message: they have the same
    /// stream, moment and receiver, and the same length, except the last.
    fn together(&self, from: usize, cut: usize) -> usize {
        let packet = |at: usize| &self.burst.packets()[self.order[at].0];
        let first = packet(from);
        let most = cut.min(MESSAGE_MAX / first.len().max(1)).max(1);
        let mut count = 1;
        while count < most && from + count < self.order.len() {
            let next = packet(from + count);
            let (mine, other) = (self.order[from], self.order[from + count]);
            let fits = (mine.1, mine.2) == (other.1, other.2)
                && (first.at, first.to, first.channel) == (next.at, next.to, next.channel)
                && (1..=first.len()).contains(&next.len());
            if !fits {
                break;
            }
            count += 1;
            if next.len() < first.len() {
                break;
            }
        }
        count
    }

    /// The packets in order, each with the time at which it leaves.
    pub fn packets(&self) -> impl Iterator<Item = (u64, &Packet, &[u8])> {
        self.steps.iter().filter_map(|step| {
            let Step::Send(message) = step else { return None };
            let packet = &self.burst.packets()[self.order[message.packets.start].0];
            Some((message.leaves_ns, packet, self.burst.front(packet)))
        })
    }

    /// The steps from `from` on, at most `most`, that leave from one socket.
    pub fn run(&self, from: usize, most: usize) -> Run {
        let channel = |step: &Step| match step {
            Step::Pause(_) => None,
            Step::Send(message) => {
                Some(self.burst.packets()[self.order[message.packets.start].0].channel)
            }
        };
        let steps = &self.steps[from..self.steps.len().min(from + most)];
        let first = steps.iter().find_map(channel).unwrap_or(Channel::Rtp);
        let fits = |step: &&Step| channel(step).is_none_or(|other| other == first);
        Run { range: from..from + steps.iter().take_while(fits).count(), channel: first }
    }

    /// Writes a message into a batch.
    pub fn write<'d>(
        &'d self,
        message: &'d Message,
        (outlet, maps): (&'d Outlet<'_>, &'d Maps),
        filling: &mut Filling<'_, 'd>,
    ) {
        let packets = self.burst.packets();
        let order = &self.order[message.packets.clone()];
        let first = &packets[order[0].0];
        filling.datagram(first.to);
        for (place, ..) in order {
            let packet = &packets[*place];
            let front = self.burst.front(packet);
            if message.run == 0 {
                filling.piece(front);
            } else {
                filling.piece(&BLANK);
                filling.piece(&front[HEAD..]);
            }
            maps.write_payload(outlet, filling, packet);
        }
        if order.len() > 1 {
            filling.segment(first.len() as u16);
        }
    }

    /// Records that the message at `at` was refused. The program would miscount later messages of
    /// its run, so these keep their own headers.
    pub fn refused(&mut self, at: usize) {
        let Some(Step::Send(Message { owner, packets, run, .. })) = self.steps.get(at) else {
            return;
        };
        *self.lost.entry(*owner).or_insert(0) += packets.len();
        let run = *run;
        for step in &mut self.steps[at..] {
            match step {
                Step::Send(message) if message.run == run => message.run = 0,
                _ => {}
            }
        }
    }

    /// Clears the plan; returns how many packets of each owner could not leave.
    pub fn clear(&mut self) -> impl Iterator<Item = (u32, usize)> {
        self.burst.clear();
        self.owners.clear();
        self.order.clear();
        self.steps.clear();
        std::mem::take(&mut self.lost).into_iter()
    }
}
