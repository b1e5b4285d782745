//! `load --record`: a relay in front of a server that writes its requests down.

use super::Args;
use ::load::parse::{Scheme, Target};
use ::load::record::{Recording, relay};
use ::load::{Failure, Usage};
use anyhow::{Context, Result, anyhow};
use language::{info, println};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often the relay looks for Ctrl-C.
const GLANCE: Duration = Duration::from_millis(50);

/// Relays until TERM or INT, then writes the file.
pub fn run(args: &Args, file: &Path) -> Result<Result<ExitCode>, Failure> {
    let [place] = &args.places[..] else {
        return Err(Failure::Usage(Usage("--record: expected one target".to_owned())));
    };
    let target = place.parse().map(Target::settled).map_err(Failure::Usage)?;
    let is_plain = target.tls.is_none() && target.websocket.is_none();
    if target.scheme != Scheme::Http || !is_plain {
        let why = format!("--record: expected http://HOST:PORT, found {place}");
        return Err(Failure::Usage(Usage(why)));
    }
    Ok(record(&target, args.goal.port, file))
}

fn record(target: &Target, port: u16, file: &Path) -> Result<ExitCode> {
    let shown = file.display();
    let keep =
        |text: &str| std::fs::write(file, text).with_context(|| format!("cannot write {shown}"));
    let stop = tools::interrupt::watch()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("cannot listen on port {port}"))?;
    let own = listener.local_addr().context("the address of the relay")?;
    let record = Arc::new(Recording::of(&target.authority));
    // A file that cannot be written is found before there is something to lose.
    keep(&record.archive().0.to_string())?;
    info!("http://{own} passes requests on to {target}; Ctrl-C writes {shown}");
    let (start, address, seen) = (Instant::now(), target.address, Arc::clone(&record));
    let relayed = std::thread::spawn(move || relay(&listener, address, &seen));
    while !stop.load(Ordering::Relaxed) && !relayed.is_finished() {
        std::thread::sleep(GLANCE);
    }
    let (archive, kept, left_out) = record.archive();
    keep(&archive.to_string())?;
    let seconds = start.elapsed().as_secs_f64();
    let rate = (kept as u64 + left_out) as f64 / seconds;
    println!(
        "{kept} requests in {seconds:.1} s, {rate:.1} a second, in {shown}; {left_out} left out"
    );
    if relayed.is_finished() {
        let fault = relayed.join().map_err(|_| anyhow!("the relay panicked"))?;
        fault.context("the relay ended, because it cannot accept a connection")?;
    }
    Ok(ExitCode::SUCCESS)
}
