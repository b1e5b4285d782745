//! A caster is a process where the workers are processes: it takes its orders from the state that
//! they share, hears their bell, and leaves with the house. The usual harness has threads and
//! cannot fork, so this test is its own program; its clients are the same program again.

use std::env;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engines::drum::{Beats, Drum, Skin};
use engines::{
    Annex, Assets, CastSockets, Casting, Control, House, NoKeeper, Pacing, Sender, Shape,
    run_with_caster,
};
use memory::Region;
use seam::{Closed, Cx, Event, Limits, Out, Peer, Service, Step};
use sys::process::{self, Pid};
use sys::signal::Signal;
use sys::udp::{Udp, UdpOptions};

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Answers each line by `ok`; what is cast ends with the first session.
struct Bell;

enum Never {}

impl Service for Bell {
    type State = Beats;
    type Session = ();
    type Job = Never;
    type Outcome = Never;

    fn limits(&self) -> Limits {
        Limits { input_max: 4096, output_high: 4096, output_low: 1024, sessions_max: 100 }
    }

    fn open(&self, _cx: &Cx<'_, Beats>, _peer: Peer, _out: &mut Out) {}

    fn step(
        &self,
        _cx: &Cx<'_, Beats>,
        _session: &mut (),
        event: Event<'_, Never>,
        out: &mut Out,
    ) -> Step<Never> {
        match event {
            Event::Bytes(input) => {
                out.bytes().extend_from_slice(b"ok\n");
                Step::close(input.len())
            }
            Event::Room | Event::Deadline => Step::read(0),
            Event::Eof | Event::Drain => Step::close(0),
            Event::Done(never) => match never {},
        }
    }

    fn work(&self, _state: &Beats, job: Never) -> Never {
        job
    }

    fn close(&self, cx: &Cx<'_, Beats>, _session: (), _why: Closed) {
        cx.state.ended.store(1, Ordering::Release);
        cx.ring();
    }
}

/// The client's life: one conversation, which ends what is cast; then it stops the house.
fn visit(address: SocketAddr, house: Pid) {
    let patience = Some(Duration::from_secs(20));
    let mut stream = TcpStream::connect(address).expect("the house is open");
    stream.set_read_timeout(patience).expect("a socket");
    // So many packets are under way by then, on any machine.
    std::thread::sleep(Duration::from_millis(100));
    stream.write_all(b"bye\n").expect("a fresh connection takes a line");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer and an end");
    assert_eq!(answer, b"ok\n");
    process::kill(house, Signal::TERM).expect("the house stands");
}

fn check(engine: &str) {
    println!("{engine}");
    let shape = Shape::preset(engine, 2).expect("a preset");
    let mut state = Region::<Beats>::place(shape.placement()).expect("some memory");
    state.found(&[]).expect("nothing to found");
    let mut pacing = Region::<Pacing>::place(shape.placement()).expect("some memory");
    pacing.found(&[]).expect("nothing to found");
    let receiver = Udp::bind(SocketAddr::new(LOCAL, 0), &UdpOptions::default()).expect("a port");
    let to = vec![receiver.local_addr().expect("bound")];
    let (gap, skin) = (Duration::from_millis(5), Skin::Shared(Arc::from([7; 4096])));
    let (casts, packets, payload, ahead) = (2, 1_000_000, 32, gap * 50);
    let drum = Drum { casts, packets, gap, burst: 1, payload, ahead, spread: true, to, skin };
    let sockets = CastSockets::bind(LOCAL, 0).expect("two free ports");
    let (sender, sockets) = (Sender::USUAL, &sockets);
    let casting = Casting { caster: &drum, sender, sockets, pacing: &pacing };
    let (control, assets) = (Control::new().expect("a descriptor"), Assets::default());
    let house = House {
        service: &Bell,
        state: &*state,
        assets: &assets,
        address: SocketAddr::new(LOCAL, 0),
        verbose: false,
        timer: false,
        signals: true,
        control: &control,
        state_fd: None,
        handover: None,
    };
    let mut client = None;
    let mut ready = |decided: &engines::Ready| {
        let program = env::current_exe().expect("this program has a path");
        let words = ["client".into(), decided.listening.to_string(), process::this().to_string()];
        client = Some(Command::new(program).args(words).spawn().expect("a client"));
    };
    let annex = Annex::default();
    let report = run_with_caster(&house, &shape, &casting, &mut NoKeeper, annex, &mut ready)
        .expect("the house stands");
    let status = client.expect("it was ready").wait().expect("a child");
    assert!(status.success(), "{engine}: the client failed");
    assert!(!report.forced && report.replaced == 0, "{engine}: {report:?}");
    assert_eq!((pacing.started.read(), pacing.running()), (2, 0), "{engine}");
    assert!(pacing.packets.read() > 0 && pacing.failed.read() == 0, "{engine}");
    let mut buffer = [0; 64];
    let (len, _) = receiver.receive(&mut buffer).expect("packets came");
    assert_eq!(buffer[..len], [&Drum::head(buffer[11].into(), 0)[..], &[7; 32]].concat());
}

fn main() {
    let words: Vec<String> = env::args().collect();
    if let [_, word, address, house] = &words[..]
        && word == "client"
    {
        let house = house.parse().ok().and_then(Pid::of).expect("the number of a process");
        return visit(address.parse().expect("an address"), house);
    }
    for engine in ["prefork", "fork", "worker"] {
        check(engine);
    }
}
