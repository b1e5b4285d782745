//! `load` of media servers: thousands of receivers, as in `roundhouse play`, because the measure of
//! a media server is punctuality and not replies.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args as _;
use clap::parser::ValueSource;

use super::Args;
use tools::play;

/// Receivers without --closed.
const RECEIVERS: u32 = 64;
/// How long without --for.
const SPAN: Duration = Duration::from_secs(10);
/// Time over which sessions start without --ramp.
const RAMP: Duration = Duration::from_secs(1);

/// The flags that apply to receivers.
const KNOWN: [&str; 6] = ["places", "closed", "span", "ramp", "json", "plain"];

/// The receivers, if the target is a source of media.
///
/// # Errors
/// A flag that does not apply to receivers.
pub fn listener(args: &Args) -> Result<Option<play::Args>, String> {
    let Some(url) = args.places.first().filter(|place| is_media(place)) else { return Ok(None) };
    let mut odd = meaningless();
    if args.places.len() > 1 {
        odd.push("a second target".to_owned());
    }
    if !odd.is_empty() {
        return Err(format!(
            "{url} is listened to: expected -c RECEIVERS, --for, --ramp and --json, found {}",
            odd.join(", ")
        ));
    }
    let sessions = args.model.closed.map_or(RECEIVERS, |it| u32::try_from(it).unwrap_or(u32::MAX));
    let ramp = args.model.ramp.map_or(RAMP, |rate| {
        Duration::try_from_secs_f64(f64::from(sessions) / rate).unwrap_or(Duration::MAX)
    });
    Ok(Some(play::Args {
        url: url.clone(),
        time: args.span.span.unwrap_or(SPAN),
        sessions,
        ramp,
        tcp: false,
        multicast: false,
        interface: None,
        from: 0.0,
        user: None,
        json: args.output.json,
    }))
}

/// The given flags that do not apply to receivers.
fn meaningless() -> Vec<String> {
    let command = Args::augment_args(clap::Command::new("load"));
    let flags = command.clone();
    let Ok(found) = command.try_get_matches_from(std::env::args_os().skip(1)) else {
        return Vec::new();
    };
    let is_odd = |flag: &&clap::Arg| {
        let id = flag.get_id().as_str();
        !KNOWN.contains(&id) && found.value_source(id) == Some(ValueSource::CommandLine)
    };
    let odd = flags.get_arguments().filter(is_odd);
    odd.map(|flag| format!("--{}", flag.get_long().unwrap_or(flag.get_id().as_str()))).collect()
}

fn is_media(place: &str) -> bool {
    let scheme = place.split_once("://").map_or("", |(scheme, _)| scheme);
    ["rtsp", "rtspt", "rtp", "udp+rtp"].contains(&scheme)
}

/// Receives.
///
/// # Errors
/// As [`play::run`].
pub fn run(listener: &play::Args) -> Result<ExitCode> {
    play::run(listener)
}
