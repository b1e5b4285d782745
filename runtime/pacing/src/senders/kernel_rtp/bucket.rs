//! The arithmetic of a schedule in a token bucket: between media packets there are datagrams to an
//! unused address, which cost as many tokens as the time between the packets.
//!
//! The kernel's bucket (tc-tbf(8)) releases a packet, by a timer of the kernel, when as many tokens
//! have arrived as the packet costs. By default a packet costs its length, so only streams of one
//! length and one gap can be paced. Here a size table sets the cost: next to nothing for media
//! packets, and a time for each length below [`PAUSES`] bytes, which no RTP packet has. So one
//! queue holds any schedule of any streams. MoonGen fills the gaps on a wire in this way (Emmerich
//! et al., IMC 2015); here the filler ends in a device without a receiver.

/// Tokens a second: one each microsecond.
pub const RATE: u32 = 1_000_000;
const TOKEN_NS: u64 = 1_000;
/// The capacity of the bucket in tokens: 100 ms. A stall of the kernel's timers of up to this
/// length delays no later packet.
pub const BURST: u32 = 100_000;
/// The time in a full bucket, in nanoseconds.
pub const BURST_NS: u64 = BURST as u64 * TOKEN_NS;
/// The shortest pause in tokens: 125 us. Every due time is rounded up to a multiple of it.
const STEP: u32 = 125;
/// The steps that a pause of each length takes: powers of two, and the usual gaps of media (3, 10,
/// 20 and 30 ms).
const STEPS: [u16; PAUSES] = [1, 2, 4, 8, 16, 24, 32, 64, 80, 160, 240, 256];
/// Datagrams of fewer bytes than this are pauses.
pub const PAUSES: usize = 12;
/// The length of a datagram's headers in bytes: Ethernet, IPv4 and UDP.
pub const FRAME: usize = 14 + 20 + 8;
const ENTRIES: usize = 2048;
/// Pauses that empty a full bucket.
pub const DRAIN: [u8; 4] = [11, 11, 11, 6];

/// The cost of a frame, by length.
pub fn costs() -> Vec<u16> {
    let mut costs = vec![1; ENTRIES];
    for (len, steps) in STEPS.iter().enumerate() {
        costs[FRAME + len] = steps * STEP as u16;
    }
    costs
}

/// The cost of a frame of `len` bytes, as the kernel computes it from the table.
fn cost(costs: &[u16], len: usize) -> u64 {
    let (whole, rest) = (len / costs.len(), len % costs.len());
    u64::from(costs[costs.len() - 1]) * whole as u64 + u64::from(costs[rest])
}

/// The state of the bucket after the last waiting packet.
#[derive(Clone, Debug)]
pub struct Bucket {
    costs: Vec<u16>,
    empty_ns: u64,
}

impl Bucket {
    pub fn emptied_at(now_ns: u64) -> Bucket {
        Bucket { costs: costs(), empty_ns: now_ns }
    }

    /// Whether the queue was empty for long enough to fill the bucket; its content is then not
    /// known to the microsecond.
    pub fn is_full(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.empty_ns) >= BURST_NS
    }

    /// Plans that a message of `len` bytes leaves at `at_ns`, or as soon after it as possible.
    /// Appends the lengths of the pauses before it, and returns the moment at which it leaves.
    pub fn plan(&mut self, at_ns: u64, len: usize, pauses: &mut Vec<u8>) -> u64 {
        let own_ns = cost(&self.costs, FRAME + len) * TOKEN_NS;
        let wait_ns = at_ns.saturating_sub(self.empty_ns + own_ns);
        let mut steps = wait_ns.div_ceil(u64::from(STEP) * TOKEN_NS);
        self.empty_ns += steps * u64::from(STEP) * TOKEN_NS + own_ns;
        for (len, &worth) in STEPS.iter().enumerate().rev() {
            let count = steps / u64::from(worth);
            steps -= count * u64::from(worth);
            pauses.extend(std::iter::repeat_n(len as u8, count as usize));
        }
        self.empty_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's arithmetic (net/sched/sch_tbf.c) over a queue that was filled at time zero with
    /// the bucket full: the moment at which each frame leaves.
    fn leaves(frames: &[usize]) -> Vec<u64> {
        let costs = costs();
        let (mut now, mut checked, mut tokens) = (0_u64, 0_u64, BURST_NS as i64);
        let mut left = Vec::new();
        for &len in frames {
            let price = (cost(&costs, len) * TOKEN_NS) as i64;
            let mut held = (tokens + (now - checked) as i64).min(BURST_NS as i64);
            if held < price {
                now += (price - held) as u64;
                held = price;
            }
            (tokens, checked) = (held - price, now);
            left.push(now);
        }
        left
    }

    #[test]
    fn what_drains_a_bucket_costs_what_it_holds() {
        let costs = costs();
        let all: u64 = DRAIN.iter().map(|&len| cost(&costs, FRAME + usize::from(len))).sum();
        assert_eq!(all, u64::from(BURST));
        assert!(costs.iter().all(|&cost| u32::from(cost) <= BURST), "the bucket can hold each");
    }

    #[test]
    fn every_schedule_is_kept_by_the_kernels_arithmetic() {
        for seed in 1..200_u64 {
            let mut rng = stats::Rng::new(seed);
            let mut random = |below: u64| rng.below(below as usize) as u64;
            let mut bucket = Bucket::emptied_at(0);
            let mut frames: Vec<usize> = DRAIN.map(|len| FRAME + usize::from(len)).to_vec();
            let (mut at, mut due) = (0, Vec::new());
            for _ in 0..100 {
                at += [0, random(3_000_000), 30_000_000, random(400_000_000)][random(4) as usize];
                // The last entry costs as much as a pause, because the table starts again at 2048.
                let odd = 2048 + 5;
                let len = [12, 44, 172, 1328, 40_000, odd][random(5 + seed % 2) as usize];
                let mut pauses = Vec::new();
                let leaves = bucket.plan(at, len, &mut pauses);
                frames.extend(pauses.iter().map(|&len| FRAME + usize::from(len)));
                due.push((frames.len(), at, leaves));
                frames.push(FRAME + len);
            }
            let left = leaves(&frames);
            for (place, at, planned) in due {
                assert_eq!(left[place], planned, "seed {seed}");
                // Rounding, and the cost of earlier packets of the same moment.
                assert!(left[place] >= at, "seed {seed}: early");
                let late = left[place] - at;
                assert!(seed % 2 == 1 || late < 2_500_000, "seed {seed}: {late} ns late");
            }
            assert!(!bucket.is_full(at) && bucket.is_full(at + 2 * BURST_NS));
        }
    }

    #[test]
    fn the_gaps_of_media_are_one_pause_each() {
        for gap_ms in [1, 2, 3, 4, 8, 10, 20, 30, 32] {
            let mut bucket = Bucket::emptied_at(0);
            let mut pauses = Vec::new();
            assert!(bucket.plan(gap_ms * 1_000_000 + 1000, 44, &mut pauses) > 0);
            assert_eq!(pauses.len(), 1, "{gap_ms} ms: {pauses:?}");
        }
    }
}
