//! A caster is a process where the workers are processes: it takes its orders from the state that
//! they share, hears their bell, and leaves with the server. The usual harness has threads and
//! cannot fork, so this test is its own program.

mod apart;
#[path = "it/bell.rs"]
mod bell;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use engines::drum::{Beats, Drum, Skin};
use engines::{
    Admin, Assets, CastSockets, Casting, Control, NoStateStore, Pacing, Sender, Shape,
    run_with_caster,
};
use memory::Region;
use sys::process::{self, Pid};
use sys::signal::Signal;
use sys::udp::{Udp, UdpOptions};

use bell::{Bell, GREETING};

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The client's life: one conversation, which ends what is cast; then it stops the server.
fn visit(address: SocketAddr, server: Pid) {
    let patience = Some(Duration::from_secs(20));
    let mut stream = TcpStream::connect(address).expect("the server is open");
    stream.set_read_timeout(patience).expect("a socket");
    // So many packets are under way by then, on any machine.
    std::thread::sleep(Duration::from_millis(100));
    stream.write_all(b"bye\n").expect("a fresh connection takes a line");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer and an end");
    assert_eq!(answer, GREETING);
    process::kill(server, Signal::TERM).expect("the server stands");
}

fn check(engine: &str) {
    println!("{engine}");
    let shape = Shape::preset(engine, 2).expect("a preset");
    let mut state = Region::<Beats>::place(shape.placement()).expect("some memory");
    state.init(&[]).expect("nothing to initialise");
    let mut pacing = Region::<Pacing>::place(shape.placement()).expect("some memory");
    pacing.init(&[]).expect("nothing to initialise");
    let receiver = Udp::bind(SocketAddr::new(LOCAL, 0), &UdpOptions::default()).expect("a port");
    let to = vec![receiver.local_addr().expect("bound")];
    let (gap, skin) = (Duration::from_millis(5), Skin::Shared(Arc::from([7; 4096])));
    let (casts, packets, payload, ahead) = (2, 1_000_000, 32, gap * 50);
    let drum = Drum { casts, packets, gap, burst: 1, payload, ahead, spread: true, to, skin };
    let sockets = CastSockets::bind(LOCAL, 0).expect("two free ports");
    let (sender, sockets) = (Sender::USUAL, &sockets);
    let casting = Casting::new(&drum, sender, sockets, &pacing);
    let (control, assets) = (Control::new().expect("a descriptor"), Assets::default());
    let server = apart::server(&Bell, &*state, &assets, &control);
    let mut client = None;
    let mut ready = |decided: &engines::Ready| client = Some(apart::client(decided.listening));
    let admin = Admin::default();
    let report = run_with_caster(&server, &shape, &casting, &mut NoStateStore, admin, &mut ready)
        .expect("the server stands");
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
    if let Some((address, server)) = apart::visited() {
        return visit(address, server);
    }
    for engine in ["prefork", "fork", "worker"] {
        check(engine);
    }
}
