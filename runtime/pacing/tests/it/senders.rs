//! Every sender sends the same packets in the same order, and none before its due time.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engines::{Admin, Assets, Fault, Host, NoStateStore, Server, Shape, Started, run};
use pacing::cbr::{CbrOrders, CbrSource, Contents, HEAD};
use pacing::{PacedRunner, Sender, StreamSockets, StreamStats, probe, run_alone};
use sys::udp::{Mail, Udp, UdpOptions};
use testkit::{PATIENCE, eventually, nameless, serve_by, skip, talk};

use crate::bell::Bell;

const STREAMS: u32 = 3;
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Bytes, each of which differs from its neighbours.
fn contents(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// The senders that work on this machine.
fn senders() -> Vec<Sender> {
    let works = |sender: &Sender| match probe(*sender) {
        Ok(_) => true,
        Err(why) => {
            let lacks = ["io_uring", "root"].into_iter().find(|it| sender.row().needs.contains(it));
            let what =
                match lacks.unwrap_or_else(|| panic!("{sender} needs nothing special: {why}")) {
                    "root" => "queues and programs of the kernel's",
                    other => other,
                };
            println!("{sender}: {why}");
            skip(what);
            false
        }
    };
    Sender::all().filter(works).collect()
}

fn receiver() -> (Udp, SocketAddr) {
    let options = UdpOptions { receive_buffer: Some(1 << 20), ..UdpOptions::default() };
    let socket = Udp::bind(SocketAddr::new(LOCAL, 0), &options).expect("a free port");
    let address = socket.local_addr().expect("bound");
    (socket, address)
}

/// Receives until no datagram is left.
fn collect(socket: &Udp) -> BTreeMap<u32, Vec<Vec<u8>>> {
    let mut mail = Mail::new(64, 2048);
    let mut heard: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
    while let Ok(letters) = mail.receive(socket) {
        for letter in letters {
            let number = letter.bytes[8..HEAD].try_into().expect("a whole head");
            heard.entry(u32::from_be_bytes(number)).or_default().push(letter.bytes.to_vec());
        }
    }
    heard
}

fn expected(source: &CbrSource, contents: &[u8]) -> BTreeMap<u32, Vec<Vec<u8>>> {
    let packet = |number, sent| {
        let range = source.range(sent);
        let payload = &contents[range.start as usize..range.end as usize];
        [&CbrSource::head(number, sent)[..], payload].concat()
    };
    let stream = |number| (0..source.packets).map(|sent| packet(number, sent)).collect();
    (0..source.streams).map(|number| (number, stream(number))).collect()
}

fn check(
    sender: Sender,
    payload: u32,
    burst: u32,
    contents_of: impl Fn(&mut Assets, &[u8]) -> Contents,
) {
    let (socket, to) = receiver();
    let bytes = contents(20_000);
    let mut assets = Assets::default();
    let gap = Duration::from_millis(2);
    let (streams, packets, ahead) = (STREAMS, 50, gap * 7);
    let steady = CbrSource::new(vec![to], gap, Contents::Bytes(Arc::from(&bytes[..])));
    let mut source = CbrSource { streams, packets, burst, payload, ahead, ..steady };
    let expected = expected(&source, &bytes);
    source.contents = contents_of(&mut assets, &bytes);
    let sockets = StreamSockets::bind(LOCAL, 0).expect("two free ports");
    let (state, stats) = (CbrOrders::default(), StreamStats::default());
    let runner = PacedRunner::new((&source, &state), sender, &sockets, &stats);
    run_alone(&runner, &assets, Duration::ZERO, |_| {}).expect("it runs");
    let all = u64::from(STREAMS * packets);
    let heard = collect(&socket);
    assert_eq!(heard, expected, "{sender}, {payload} bytes");
    assert_eq!((stats.packets.read(), stats.failed.read()), (all, 0), "{sender}");
    assert_eq!((stats.started.read(), stats.running()), (u64::from(STREAMS), 0), "{sender}");
    assert!(stats.calls.read() > 0, "{sender}");
}

/// Runs a test with every sender; senders that set up queues run in a network namespace.
pub fn each(act: impl Fn(Sender) + Sync) {
    for sender in senders() {
        if sender.row().sets_up_queues {
            let tried = sys::netlink::apart(|| {
                act(sender);
                Ok(())
            });
            tried.expect("as its probe was");
        } else {
            act(sender);
        }
    }
}

#[test]
fn every_sender_delivers_the_same_bytes_in_the_same_order() {
    each(|sender| {
        for (payload, burst) in [(32, 1), (1316, 5)] {
            check(sender, payload, burst, |_, bytes| Contents::Bytes(Arc::from(bytes)));
            check(sender, payload, burst, |_, bytes| Contents::Shared(Arc::from(bytes)));
            check(sender, payload, burst, |assets, bytes| {
                Contents::File(assets.add(nameless(bytes)).into(), bytes.len() as u64)
            });
            check(sender, payload, burst, |_, bytes| {
                let open: Arc<OwnedFd> = Arc::new(nameless(bytes).into());
                Contents::File(open.into(), bytes.len() as u64)
            });
        }
    });
}

#[test]
fn a_cast_that_is_told_to_pause_goes_on_where_it_was_and_one_that_is_told_to_end_ends() {
    each(|sender| {
        let (socket, to) = receiver();
        let bytes = contents(4096);
        // The rate is low, so that a reader that is held up for two seconds loses nothing.
        let gap = Duration::from_millis(10);
        let steady = CbrSource::new(vec![to], gap, Contents::Shared(Arc::from(&bytes[..])));
        let source = CbrSource { ahead: gap * 200, spread: false, ..steady };
        let sockets = StreamSockets::bind(LOCAL, 0).expect("two free ports");
        let (_, rtcp) = sockets.ports().expect("bound");
        let (state, stats) = (CbrOrders::default(), StreamStats::default());
        let runner = PacedRunner::new((&source, &state), sender, &sockets, &stats);
        let meanwhile = |ring: &dyn Fn()| {
            let wait = |at_most| socket.wait_readable(Duration::from_millis(at_most));
            let mut mail = Mail::new(64, 2048);
            let mut sequence: BTreeMap<Vec<u8>, u16> = BTreeMap::new();
            let mut hear = |at_most| {
                if !wait(at_most).expect("open") {
                    return false;
                }
                for letter in mail.receive(&socket).expect("readable") {
                    let number = u16::from_be_bytes([letter.bytes[2], letter.bytes[3]]);
                    let due = sequence.entry(letter.bytes[8..HEAD].to_vec()).or_default();
                    assert_eq!(number, *due, "{sender}: a packet was lost or came twice");
                    *due = due.wrapping_add(1);
                }
                true
            };
            for _ in 0..5 {
                assert!(hear(20_000), "{sender}: it streams");
            }
            // The report is sent only now, because the device may drop packets while queues are set
            // up.
            let report = SocketAddr::new(LOCAL, rtcp);
            socket.send_to(b"report", report, false).expect("it is near");
            state.paused.store(1, Ordering::Release);
            ring();
            let mut left = 100_000;
            while hear(600) {
                left -= 1;
                assert!(left > 0, "{sender}: it does not pause");
            }
            state.paused.store(0, Ordering::Release);
            ring();
            assert!(hear(20_000), "{sender}: it goes on");
            state.ended.store(1, Ordering::Release);
            ring();
        };
        run_alone(&runner, &Assets::default(), Duration::ZERO, meanwhile).expect("runs");
        assert_eq!(state.heard.load(Ordering::Acquire), 1, "{sender}");
        assert_eq!((stats.started.read(), stats.running()), (2, 0), "{sender}");
    });
}

#[test]
fn in_a_server_the_sessions_order_and_the_source_hears_the_bell() {
    for engine in ["thread", "pool", "poll", "epoll", "uring", "event"] {
        let shape = Shape::preset(engine, 2).expect("a preset");
        if shape.container.is_processes() {
            // A process with threads may not fork; workers that are processes are tested on the
            // binary.
            continue;
        }
        let (socket, to) = receiver();
        let (gap, bytes) = (Duration::from_millis(2), contents(4096));
        let source = CbrSource::new(vec![to], gap, Contents::Shared(Arc::from(&bytes[..])));
        let sockets = StreamSockets::bind(LOCAL, 0).expect("two free ports");
        let (state, stats) = (CbrOrders::default(), StreamStats::default());
        let (sender, sockets) = (Sender::USUAL, &sockets);
        let runner = PacedRunner::new((&source, &state), sender, sockets, &stats);
        let visit = |address: SocketAddr| {
            for _ in 0..3 {
                assert!(socket.wait_readable(Duration::from_secs(20)).expect("open"), "{engine}");
                collect(&socket);
            }
            talk(address, &[b"bye".to_vec()]).expect("a conversation");
            eventually("the source hears the bell", PATIENCE, || stats.running() == 0);
        };
        let live = |server: &Server<'_, Bell>, ready: &mut dyn FnMut(&Started)| {
            let host = Host { extra: Some(&runner), ..server.host.clone() };
            let server = Server { host, ..*server };
            run(&server, &shape, &mut NoStateStore, Admin::default(), ready)
        };
        match serve_by((&Bell, &state, &Assets::default()), live, visit) {
            Ok(report) => assert_eq!((report.replaced, report.forced), (0, false), "{engine}"),
            Err(Fault::Ring(_)) => skip("io_uring"),
            Err(fault) => panic!("{engine}: {fault}"),
        }
        assert!(stats.closed.read() == 2 || engine == "uring", "{engine}");
    }
}
