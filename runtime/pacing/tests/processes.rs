//! If workers are processes, a streaming worker is a process too: it takes its orders from the
//! state that they share, hears their bell, and leaves with the server. The usual test program has
//! threads and cannot fork, so this test is a separate program.

#[path = "it/bell.rs"]
mod bell;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use engines::{Assets, Control, Shape};
use memory::Region;
use pacing::cbr::{CbrOrders, CbrSource, Contents};
use pacing::{PacedRunner, Sender, StreamSockets, StreamStats};
use sys::process::{self, Pid};
use sys::signal::Signal;
use sys::udp::{Udp, UdpOptions};
use testkit::apart;

use bell::{Bell, GREETING};

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Runs the client: one conversation, which ends the streams; then it stops the server.
fn visit(address: SocketAddr, server: Pid) {
    let patience = Some(Duration::from_secs(20));
    let mut stream = TcpStream::connect(address).expect("the server is open");
    stream.set_read_timeout(patience).expect("a socket");
    // On any machine, some packets are on their way by then.
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
    let mut state = Region::<CbrOrders>::place(shape.placement()).expect("some memory");
    state.init(&[]).expect("nothing to initialise");
    let mut stats = Region::<StreamStats>::place(shape.placement()).expect("some memory");
    stats.init(&[]).expect("nothing to initialise");
    let receiver = Udp::bind(SocketAddr::new(LOCAL, 0), &UdpOptions::default()).expect("a port");
    let to = vec![receiver.local_addr().expect("bound")];
    let contents = Contents::Shared(Arc::from([7; 4096]));
    let source = CbrSource::new(to, Duration::from_millis(5), contents);
    let sockets = StreamSockets::bind(LOCAL, 0).expect("two free ports");
    let (sender, sockets) = (Sender::USUAL, &sockets);
    let runner = PacedRunner::new((&source, &*state), sender, sockets, &stats);
    let (control, assets) = (Control::new().expect("a descriptor"), Assets::default());
    let mut server = apart::server((&Bell, &*state, &assets), &control);
    server.host.extra = Some(&runner);
    let report = apart::run(&server, &shape);
    assert!(!report.forced && report.replaced == 0, "{engine}: {report:?}");
    assert_eq!((stats.started.read(), stats.running()), (2, 0), "{engine}");
    assert!(stats.packets.read() > 0 && stats.failed.read() == 0, "{engine}");
    let mut buffer = [0; 128];
    let (len, _) = receiver.receive(&mut buffer).expect("packets came");
    assert_eq!(buffer[..len], [&CbrSource::head(buffer[11].into(), 0)[..], &[7; 64]].concat());
}

fn main() {
    if let Some((address, server)) = apart::visited() {
        return visit(address, server);
    }
    for engine in ["prefork", "fork", "worker"] {
        check(engine);
    }
}
