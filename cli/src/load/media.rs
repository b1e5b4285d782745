//! `load` of media servers: thousands of receivers, as in `roundhouse play`, because the measure of
//! a media server is punctuality and not replies.

use std::time::Duration;

use ::load::{Target, Usage};
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
        stagger: ramp,
        tcp: false,
        multicast: false,
        interface: None,
        start: Duration::ZERO,
        user: None,
        json: args.output.json,
    }))
}

/// Refuses flags that only targets of another protocol than that of `target` take: they would
/// change nothing.
pub fn check_flags(target: &Target) -> Result<(), Usage> {
    let own = format!("{}://", target.scheme.name());
    let odd = given(|flag| {
        let scheme = flag.get_help_heading().and_then(|it| it.strip_prefix("Targets "));
        scheme.is_some_and(|scheme| scheme != own)
    });
    if odd.is_empty() {
        return Ok(());
    }
    Err(Usage(format!(
        "expected flags that {target} takes, found {}: another protocol's, see --help",
        odd.join(", ")
    )))
}

/// The given flags that do not apply to receivers.
fn meaningless() -> Vec<String> {
    given(|flag| !KNOWN.contains(&flag.get_id().as_str()))
}

/// The flags on the command line that are odd.
fn given(is_odd: impl Fn(&clap::Arg) -> bool) -> Vec<String> {
    let command = Args::augment_args(clap::Command::new("load"));
    let flags = command.clone();
    let Ok(found) = command.try_get_matches_from(std::env::args_os().skip(1)) else {
        return Vec::new();
    };
    let is_given = |flag: &clap::Arg| {
        found.value_source(flag.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    let odd = flags.get_arguments().filter(|flag| is_odd(flag) && is_given(flag));
    odd.map(|flag| format!("--{}", flag.get_long().unwrap_or(flag.get_id().as_str()))).collect()
}

fn is_media(place: &str) -> bool {
    let scheme = place.split_once("://").map_or("", |(scheme, _)| scheme);
    ["rtsp", "rtspt", "rtp", "udp+rtp"].contains(&scheme)
}
