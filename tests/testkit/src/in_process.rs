//! A server in a thread of this process, and clients that cannot hang. Its workers are threads too,
//! because a process with threads may not fork; [`crate::apart`] has servers that fork.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;

use engines::{
    Admin, Assets, Control, Fault, Host, NoStateStore, Report, Server, Shape, Started, run,
};
use seam::Service;

use crate::{PATIENCE, skip};

/// Stops the server when it goes out of scope, also by a panic: then a second stop forces it.
struct Stop<'a>(&'a Control);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
        if thread::panicking() {
            self.0.stop();
        }
    }
}

/// A quiet server on a free port of this machine.
pub(crate) fn server<'a, S: Service>(
    (service, state, assets): (&'a S, &'a S::State, &'a Assets),
    control: &'a Control,
    signals: bool,
) -> Server<'a, S> {
    let host = Host {
        assets,
        addresses: vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()],
        settle: None,
        extra: None,
        verbose: false,
        timer: false,
        signals,
        control,
        state_fd: None,
        others: &[],
        handover: None,
    };
    Server { service, state, host }
}

/// Runs a server of `shape` while `visit` has its address, and returns its report; `None` where
/// the machine lacks the rings that it needs.
///
/// # Panics
/// If the server cannot run.
pub fn serve<S: Service>(
    parts: (&S, &S::State, &Assets),
    shape: &Shape,
    visit: impl FnOnce(SocketAddr),
) -> Option<Report> {
    let live = |server: &Server<'_, S>, ready: &mut dyn FnMut(&Started)| {
        run(server, shape, &mut NoStateStore, Admin::default(), ready)
    };
    match serve_by(parts, live, visit) {
        Ok(report) => Some(report),
        Err(Fault::Ring(_)) => {
            skip("io_uring");
            None
        }
        Err(fault) => panic!("{shape}: {fault}"),
    }
}

/// Runs a server by `live` while `visit` has its address, and returns its report.
///
/// # Errors
/// If the server cannot run.
pub fn serve_by<S: Service>(
    parts: (&S, &S::State, &Assets),
    live: impl FnOnce(&Server<'_, S>, &mut dyn FnMut(&Started)) -> Result<Report, Fault> + Send,
    visit: impl FnOnce(SocketAddr),
) -> Result<Report, Fault> {
    let control = Control::new().expect("a descriptor");
    let server = server(parts, &control, false);
    thread::scope(|scope| {
        let (ready, address) = mpsc::channel();
        let served = scope.spawn(|| {
            // Dropping the sender on exit tells a waiting test that the server is gone.
            let ready = ready;
            live(&server, &mut |decided| {
                let _ = ready.send(decided.listening.net().expect("an Internet address"));
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
///
/// # Errors
/// If the connection fails or [`PATIENCE`] ends.
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
