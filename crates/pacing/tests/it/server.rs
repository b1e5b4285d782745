//! A server in a thread of this process, and clients that cannot hang.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use engines::{
    Admin, Assets, Control, Fault, NoStateStore, Ready, Report, Server, Shape, run_with_extra,
};
use pacing::PacedRunner;
use seam::{PacedSource, Service};

/// The limit of every wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// Stops the server when it goes out of scope, even after a panic.
struct Stop<'a>(&'a Control);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
        if thread::panicking() {
            self.0.stop();
        }
    }
}

/// Runs a server with a streaming worker while `visit` has its address, and returns its report.
pub fn serve_paced<S: Service, C: PacedSource<State = S::State>>(
    (service, state, runner): (&S, &S::State, &PacedRunner<'_, C>),
    shape: &Shape,
    visit: impl FnOnce(SocketAddr),
) -> Result<Report, Fault> {
    let live = |server: &Server<'_, S>, ready: &mut dyn FnMut(&Ready)| {
        run_with_extra(server, shape, runner, &mut NoStateStore, Admin::default(), ready)
    };
    serve_by((service, state, &Assets::default()), live, visit)
}

fn serve_by<S: Service>(
    (service, state, assets): (&S, &S::State, &Assets),
    live: impl FnOnce(&Server<'_, S>, &mut dyn FnMut(&Ready)) -> Result<Report, Fault> + Send,
    visit: impl FnOnce(SocketAddr),
) -> Result<Report, Fault> {
    let control = Control::new().expect("a descriptor");
    let server = Server {
        service,
        state,
        assets,
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        verbose: false,
        timer: false,
        signals: false,
        control: &control,
        state_fd: None,
        others: &[],
        handover: None,
    };
    thread::scope(|scope| {
        let (ready, address) = mpsc::channel();
        let served = scope.spawn(|| {
            // Dropping the sender on exit tells a waiting test that the server is gone.
            let ready = ready;
            live(&server, &mut |decided| {
                let _ = ready.send(decided.listening);
            })
        });
        if let Ok(address) = address.recv_timeout(PATIENCE) {
            let _stop = Stop(&control);
            visit(address);
        }
        served.join().expect("a server does not panic")
    })
}

/// Sends `pieces`, ends its half, and returns all that comes back.
pub fn talk(address: SocketAddr, pieces: &[Vec<u8>]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    thread::scope(|scope| {
        let mut reader = stream.try_clone()?;
        let reading = scope.spawn(move || {
            let mut heard = Vec::new();
            reader.read_to_end(&mut heard).map(|_| heard)
        });
        for piece in pieces {
            // The server may end a conversation before everything is sent.
            if stream.write_all(piece).is_err() {
                break;
            }
        }
        let _ = stream.shutdown(Shutdown::Write);
        reading.join().expect("reading does not panic")
    })
}
