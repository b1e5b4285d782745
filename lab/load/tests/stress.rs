//! The stress client against an echo server with selectable misbehaviour: counts match events.

use load::run::{Hooks, Window, Workload, run_with};
use load::work::Think;
use load::{Model, Plan, Report};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// The server's misbehaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerBehaviour {
    Good,
    /// No login packet.
    Silent,
    /// Two login packets.
    Twice,
    /// The third packet of a connection is returned with another number.
    Lie,
    /// Every connection is closed after its first bytes were returned.
    Leave,
    /// Nothing is returned for a while.
    Late(Duration),
}

fn packet(number: u64) -> Vec<u8> {
    [&8u16.to_le_bytes()[..], &number.to_le_bytes()].concat()
}

fn open(behaviour: ServerBehaviour) -> SocketAddr {
    // A client that gives up halfway is not an error here.
    testkit::listen(move |peer| talk(peer, behaviour))
}

fn talk(mut peer: TcpStream, behaviour: ServerBehaviour) -> std::io::Result<()> {
    peer.set_nodelay(true)?;
    let logins = match behaviour {
        ServerBehaviour::Silent => 0,
        ServerBehaviour::Twice => 2,
        _ => 1,
    };
    for _ in 0..logins {
        peer.write_all(&packet(0x7fff_ffff_ffff_ffff))?;
    }
    let (mut bytes, mut heard) = (vec![0; 4096], 0);
    loop {
        let count = peer.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        if let ServerBehaviour::Late(span) = behaviour {
            thread::sleep(span);
        }
        if behaviour == ServerBehaviour::Lie && (heard..heard + count).contains(&22) {
            bytes[22 - heard] ^= 1;
        }
        heard += count;
        peer.write_all(&bytes[..count])?;
        if behaviour == ServerBehaviour::Leave {
            return Ok(());
        }
    }
}

fn plan(address: SocketAddr, window: u32, span: Duration) -> Plan {
    let target = format!("echo://{address}").parse().expect("a target");
    let mut plan = Plan::new(target, Workload::Echo);
    plan.model = Model::Closed { depth: window, think: Think::None, ramp: None };
    plan.settings.connections = 4;
    plan.settings.drain = 200 * MS;
    plan.settings.tops_up = true;
    plan.warmup = Duration::ZERO;
    plan.window = Window::For(span);
    plan
}

fn run(plan: &Plan) -> Report {
    run_with(plan, &Hooks::default()).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn a_good_echo_has_a_clean_sheet_in_every_window() {
    let address = open(ServerBehaviour::Good);
    for window in [1, 10, 100, 200] {
        let mut plan = plan(address, window, 100 * MS);
        plan.settings.renew = Some(20 * MS);
        let report = run(&plan);
        let stress = report.stress.as_ref().expect("it was asked for");
        let counts = stress.counts;
        // Late echoes here are caused by the machine.
        let clean = load::drive::StressCounts { echoes_late: 0, ..counts }.is_clean();
        assert!(report.check.ok && report.errors.is_empty() && clean, "{report}");
        assert_eq!((stress.window, stress.reconnect_ns), (window, Some(20_000_000)));
        assert!(counts.renewals >= 1 && counts.connects == 4 + counts.renewals, "{report}");
        // A connection closed before its login has none.
        assert!((counts.connects - counts.renewals..=counts.connects).contains(&counts.logins));
        assert_eq!((report.lost, report.failed), (0, 0), "{report}");
    }
}

#[test]
fn a_window_is_topped_up_and_never_exceeded() {
    // Late echoes fill the window: that many return per round, and no more.
    let address = open(ServerBehaviour::Late(20 * MS));
    let report = run(&plan(address, 7, 300 * MS));
    let rounds = report.requests_total.div_ceil(4 * 7);
    assert!(report.is_right() && (1..=16).contains(&rounds), "{report}");
    // A send delay bounds them too.
    let mut slow = plan(open(ServerBehaviour::Good), 10, 300 * MS);
    slow.model = Model::Closed { depth: 10, think: Think::Fixed(100 * MS), ramp: None };
    let report = run(&slow);
    assert!((4 * 10..=4 * 10 * 4).contains(&report.requests_total), "{report}");
    assert_eq!(report.stress.expect("it was asked for").delay_ns, Some(100_000_000));
}

#[test]
fn each_misdeed_has_its_count() {
    let counts = |behaviour| {
        let report = run(&plan(open(behaviour), 10, 150 * MS));
        assert!(!report.is_right(), "{behaviour:?}: {report}");
        report.stress.expect("it was asked for").counts
    };
    let twice = counts(ServerBehaviour::Twice);
    assert_eq!((twice.logins, twice.logins_twice, twice.invalid), (4, 4, 0), "{twice:?}");
    let lie = counts(ServerBehaviour::Lie);
    assert_eq!((lie.invalid, lie.logins_twice), (4, 0), "{lie:?}");
    let leave = counts(ServerBehaviour::Leave);
    assert!(leave.closed_by_server >= 4, "{leave:?}");
    let late = counts(ServerBehaviour::Late(1200 * MS));
    assert_eq!(late.echoes_late % 10, 0, "{late:?}");
}

#[test]
fn what_is_missing_is_counted_when_it_is_due() {
    let silent = open(ServerBehaviour::Silent);
    let late = open(ServerBehaviour::Late(1200 * MS));
    let counts = |address, span| {
        let mut plan = plan(address, 10, span);
        plan.settings.drain = 2000 * MS;
        run(&plan).stress.expect("it was asked for").counts
    };
    // In parallel, since each of them waits.
    let (silent, late) = thread::scope(|scope| {
        let silent = scope.spawn(|| counts(silent, 3300 * MS));
        let late = scope.spawn(|| counts(late, 500 * MS));
        (silent.join().expect("no panic"), late.join().expect("no panic"))
    });
    assert_eq!((silent.logins, silent.logins_missing), (0, 4), "{silent:?}");
    assert_eq!((late.logins, late.echoes_late), (4, 40), "{late:?}");
}

#[test]
fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let mut plan = plan(address, 10, 400 * MS);
    plan.settings.renew = Some(10 * MS);
    let closer = thread::spawn(move || {
        // The probe before the run is answered, nothing after it.
        let first = listener.accept();
        drop((first, listener));
    });
    let report = run(&plan);
    closer.join().expect("no panic");
    let counts = report.stress.expect("it was asked for").counts;
    assert!(counts.connect_failed > 0, "{counts:?}");
}

#[test]
fn the_sending_can_be_stopped_and_goes_on() {
    let hold = Arc::new(AtomicBool::new(true));
    let hooks = Hooks { hold: Some(Arc::clone(&hold)), ..Hooks::default() };
    let plan = plan(open(ServerBehaviour::Good), 10, 300 * MS);
    let held = run_with(&plan, &hooks).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(held.requests_total, 0, "{held}");
    let release = thread::spawn(move || {
        thread::sleep(100 * MS);
        hold.store(false, Ordering::Relaxed);
    });
    let freed = run_with(&plan, &hooks).unwrap_or_else(|failure| panic!("{failure}"));
    release.join().expect("no panic");
    assert!(freed.requests_total > 0 && freed.is_right(), "{freed}");
}
