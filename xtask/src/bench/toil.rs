//! The number of rounds of Apache's loop that take a millisecond on this machine.
//!
//! One request at a time on an idle machine takes as much time as CPU, and the shortest of several
//! measurements was disturbed least. The slope between a short and a long computation removes the
//! fixed cost of a request.

use super::arm::Arm;
use super::{Tools, web};
use anyhow::{Context, bail};
use std::cell::OnceCell;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The beginning of a request for our own computing.
pub const OURS: &str = "/work?ms=";
/// The two lengths that are compared, in rounds.
const ROUNDS: [u32; 2] = [50_000, 1_050_000];
/// The number of requests to each.
const ASKED: u32 = 25;
/// The time limit for Apache's start, and for a reply.
const PATIENCE: Duration = Duration::from_secs(10);

/// The measurements of Apache's speed.
#[derive(Default)]
pub struct Toil(OnceCell<Result<f64, String>>);

/// Apache, killed with its workers at the end.
struct Peer(Child);

impl Toil {
    /// Rounds in a millisecond; measured on first use.
    ///
    /// # Errors
    /// If Apache does not start or does not compute.
    pub fn rounds_per_ms(&self, tools: &Tools) -> anyhow::Result<f64> {
        let found = self.0.get_or_init(|| measure(tools).map_err(|why| format!("{why:#}")));
        found.clone().map_err(anyhow::Error::msg).context("calibrate Apache's loop")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Apache ends its workers itself, so it gets a signal.
        let pid = self.0.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.0.wait();
    }
}

fn measure(tools: &Tools) -> anyhow::Result<f64> {
    if let Some(why) = Arm::Apache("prefork").absent() {
        bail!("skipped: {why}");
    }
    // A listener that closes at once leaves a free port.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("a free port")?;
    let address = free.local_addr().context("a free port")?;
    drop(free);
    let mut command = Command::new("sh");
    command.arg(web::script(&tools.room, "apache")).arg(address.port().to_string());
    command.arg(&tools.room).arg("prefork").stdin(Stdio::null()).stdout(Stdio::null());
    // Apache ends its whole process group when it is stopped.
    command.process_group(0);
    let _peer = Peer(command.spawn().context("start Apache")?);
    let mut stream = connected(address)?;
    let mut shortest = [Duration::MAX; 2];
    for _ in 0..ASKED {
        for (rounds, shortest) in ROUNDS.iter().zip(&mut shortest) {
            *shortest = (*shortest).min(asked(&mut stream, *rounds)?);
        }
    }
    let [short, long] = shortest.map(|it| it.as_secs_f64() * 1e3);
    if long <= short {
        bail!("expected {ROUNDS:?} rounds to take longer each, found {short} and {long} ms");
    }
    let found = f64::from(ROUNDS[1] - ROUNDS[0]) / (long - short);
    eprintln!("bench: Apache's loop takes {:.2} ns a round", 1e6 / found);
    Ok(found)
}

fn connected(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let begin = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).context("a socket")?;
                return Ok(stream);
            }
            Err(why) if begin.elapsed() > PATIENCE => return Err(why).context("reach Apache"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Asks for `rounds` rounds and returns how long the answer took.
fn asked(stream: &mut TcpStream, rounds: u32) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    // In one piece: of several, each would wait for the receipt of the one before (Nagle), 40 ms.
    let request = format!("GET /work?rounds={rounds} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut heard = Vec::new();
    loop {
        let mut scratch = [0; 4096];
        let len = stream.read(&mut scratch).context("Apache's answer")?;
        heard.extend_from_slice(&scratch[..len]);
        let text = String::from_utf8_lossy(&heard);
        if len == 0 || (heard.len() >= 12 && !heard.starts_with(b"HTTP/1.1 200")) {
            bail!("expected Apache to answer /work with 200, found {text:?}");
        }
        // The only line of the body ends the answer.
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && body.ends_with('\n')
        {
            return Ok(begin.elapsed());
        }
    }
}
