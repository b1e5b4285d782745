//! Slots change owners once, orders arrive whole, and reports find their streams.

use super::*;
use crate::test_server::orders;

fn destination(ip: [u8; 4]) -> Destination {
    Destination { rtp: (ip, 5000).into(), rtcp: (ip, 5001).into() }
}

const PATH: &str = "folder/a film with a long name.ts";

fn setup(ip: [u8; 4], random: u32) -> Setup<'static> {
    Setup { path: PATH, stamp: 7, track: 1, destination: destination(ip), random }
}

const SEGMENT: Segment = Segment {
    first: 10,
    stop: 100,
    from_ns: 5,
    begin: Instant::from_ns(6),
    sequence: 65_000,
    timestamp: 0xffff_fff0,
    ends: true,
};

const ME: WorkerId = WorkerId::new(1, 1);
const WORKER: WorkerId = WorkerId::new(2, 1);

#[test]
fn an_order_arrives_as_it_was_given_and_the_slot_comes_back() {
    let orders = orders();
    let setup = setup([127, 0, 0, 1], 0xabcd_ef01);
    let (slot, ssrc) = orders.set_up(ME, &setup, 9).expect("a slot");
    assert_eq!(orders.take(WORKER), None, "nothing is ordered yet");
    orders.play(slot, &SEGMENT);
    assert_eq!(orders.take(WORKER), Some(slot));
    assert_eq!(orders.take(WORKER), None, "an order is taken once");
    let order = orders.order(slot).expect("a whole order");
    assert_eq!((order.segment, order.goes, order.leaves), (SEGMENT, true, false));
    assert_eq!(orders.route(slot), (setup.destination, ssrc, 1));
    assert_eq!(orders.file(slot), (PATH.to_owned(), 7));
    orders.tell(slot, order.epoch, 40, (30, 0));
    assert_eq!(orders.resumed(slot, &order), 40);
    orders.pause(slot, 20);
    let paused = orders.order(slot).expect("a whole order");
    assert_eq!((paused.segment.stop, paused.segment.ends), (20, false));
    assert_eq!(orders.reached(slot), 20, "as far as is known");
    orders.tell(slot, paused.epoch, 21, (11, 0));
    assert_eq!(orders.reached(slot), 21, "what is sent is sent");
    assert_ne!(paused.epoch, order.epoch);
    orders.release(slot);
    assert!(orders.order(slot).is_some_and(|order| order.leaves));
    assert_eq!(orders.count(), 1, "the stream still says bye");
    orders.put_back(slot, false);
    assert_eq!(orders.count(), 0);
}

#[test]
fn whoever_ends_last_frees_the_slot() {
    let orders = orders();
    let held = orders.set_up(ME, &setup([1, 1, 1, 1], 0), 9).expect("a slot").0;
    orders.release(held);
    assert_eq!(orders.count(), 0, "never ordered");
    let ordered = orders.set_up(ME, &setup([1, 1, 1, 1], 0), 9).expect("a slot").0;
    orders.play(ordered, &SEGMENT);
    orders.release(ordered);
    assert_eq!((orders.count(), orders.take(WORKER)), (0, None), "ordered, never taken");
    let ended = orders.set_up(ME, &setup([1, 1, 1, 1], 0), 9).expect("a slot").0;
    orders.play(ended, &SEGMENT);
    assert_eq!(orders.take(WORKER), Some(ended));
    orders.put_back(ended, false);
    assert_eq!(orders.count(), 1, "its session is there");
    orders.play(ended, &SEGMENT);
    assert_eq!(orders.take(WORKER), Some(ended), "and may order again");
    orders.put_back(ended, false);
    orders.release(ended);
    assert_eq!(orders.count(), 0);
}

#[test]
fn dead_workers_lose_their_slots_and_casts_are_taken_up_by_others() {
    let orders = orders();
    let slot = orders.set_up(ME, &setup([1, 1, 1, 1], 0), 9).expect("a slot").0;
    orders.play(slot, &SEGMENT);
    assert_eq!(orders.take(WORKER), Some(slot));
    let order = orders.order(slot).expect("an order");
    orders.tell(slot, order.epoch, 55, (45, 0));
    orders.heal(WORKER);
    let next = WorkerId::new(2, 2);
    assert_eq!(orders.take(next), Some(slot));
    assert_eq!(orders.resumed(slot, &order), 55, "it goes on where the other was");
    orders.heal(ME);
    assert!(orders.order(slot).is_some_and(|order| order.leaves));
    orders.heal(next);
    assert_eq!((orders.count(), orders.take(WORKER)), (0, None));
}

#[test]
fn slots_and_shares_of_an_address_are_bounded() {
    let orders = orders();
    let setup_here = setup([1, 1, 1, 1], 5);
    for _ in 0..3 {
        orders.set_up(ME, &setup_here, 3).expect("a slot");
    }
    assert_eq!(orders.set_up(ME, &setup_here, 3), None);
    assert!(orders.set_up(ME, &setup([2, 2, 2, 2], 5), 3).is_some());
    // A client with an IPv6 network has 2^64 addresses, but gets no more slots for that.
    let six = |ip: &str| {
        let ip: IpAddr = ip.parse().expect("an address");
        let destination = Destination { rtp: (ip, 5000).into(), rtcp: (ip, 5001).into() };
        orders.set_up(ME, &Setup { destination, ..setup_here }, 2)
    };
    assert!(six("2001:db8::1").is_some() && six("2001:db8::2").is_some());
    assert_eq!(six("2001:db8::3:4:5"), None);
    assert!(six("2001:db8:0:1::1").is_some(), "another network");
    assert!(six("::1").is_some(), "those of IPv4 are others");
    let long = "x".repeat(PATH_MAX + 1);
    let long = Setup { path: &long, ..setup_here };
    assert_eq!(orders.set_up(ME, &long, 99), None);
}

#[test]
fn a_report_counts_if_it_is_about_ours_and_comes_from_there() {
    let orders = orders();
    let (slot, ssrc) = orders.set_up(ME, &setup([1, 1, 1, 1], !0), 9).expect("a slot");
    let mut heard = ReceptionReport {
        from: 1,
        of: ssrc,
        lost_share: 3,
        lost: -4,
        sequence: 5,
        jitter: 6,
        last_report: 0,
        since_report: 0,
    };
    let now = Instant::from_ns(77);
    assert!(!orders.hear(now, [2, 2, 2, 2].into(), &heard, 0), "from elsewhere");
    assert_eq!(orders.reception(slot).at, None);
    assert!(orders.hear(now, [1, 1, 1, 1].into(), &heard, 0));
    let reception = orders.reception(slot);
    assert_eq!((reception.at, reception.lost, reception.jitter), (Some(now), -4, 6));
    let totals = orders.heard();
    assert_eq!((totals.reporting, totals.lost, totals.lost_share), (1, -4, 3));
    heard.of ^= 1 << 31;
    assert!(!orders.hear(now, [1, 1, 1, 1].into(), &heard, 0), "about nobody");
}
