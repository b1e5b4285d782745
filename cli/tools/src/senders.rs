//! `roundhouse senders`: the ways in which packets can wait for their moment and leave, those that
//! work on the machine, and why the others do not. The command tests each by sending packets. The
//! museum measures them, in processes of the hidden subcommands.

mod kernel;
mod rank;
mod rate;
mod soak;

pub use rank::RankArgs;

use std::process::ExitCode;

use anyhow::Result;
use pacing::{Sender, Works, probe};
use pages::terminal::{annotated, folded};
use serde_json::json;
use stats::words::time;

/// The flags of `roundhouse senders`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// The table as JSON
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

/// The subcommands.
#[derive(clap::Subcommand)]
enum Action {
    /// Send with one sender; prints its cost and lateness as one line of JSON
    #[command(hide = true)]
    Rate { sending: String },
    /// The loop that counts a core's idle time
    #[command(hide = true)]
    Soak,
}

/// Prints the table, or runs a subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.action {
        None => shown(args.json),
        Some(Action::Rate { sending }) => {
            let reading = rate::cast(&serde_json::from_str(sending)?)?;
            println!("{}", serde_json::to_string(&reading)?);
        }
        Some(Action::Soak) => soak::run(),
    }
    Ok(ExitCode::SUCCESS)
}

/// Tries every sender and prints the table.
fn shown(is_json: bool) {
    let found: Vec<(Sender, Result<Works, String>)> =
        Sender::all().map(|sender| (sender, probe(sender))).collect();
    if is_json {
        let rows: Vec<_> = found.iter().map(|(sender, found)| described(*sender, found)).collect();
        println!("{:#}", json!({ "senders": rows }));
    } else {
        print!("{}", table(&found));
    }
}

fn described(sender: Sender, found: &Result<Works, String>) -> serde_json::Value {
    json!({
        "name": sender.name(),
        "how": sender.row().how,
        "needs": sender.row().needs,
        "code": sender.code(),
        "usual": sender == Sender::USUAL,
        "missing": found.as_ref().err(),
        "late_p50_ns": found.as_ref().ok().map(|works| works.late_p50.as_nanos() as u64),
        "late_max_ns": found.as_ref().ok().map(|works| works.late_max.as_nanos() as u64),
        "calls_per_100": found.as_ref().ok().map(|works| works.calls_percent),
    })
}

fn table(found: &[(Sender, Result<Works, String>)]) -> String {
    let mut notes = String::new();
    let rows = found.iter().map(|(sender, found)| {
        let (here, late, calls) = match found {
            Ok(works) => {
                ("yes", time(works.late_p50.as_nanos() as f64), works.calls_percent.to_string())
            }
            Err(_) => ("no", String::new(), String::new()),
        };
        let cells = [sender.name().into(), sender.row().needs.into(), here.into(), late, calls];
        (cells, sender.row().how.to_owned())
    });
    let heads = ["sender", "needs", "here", "late p50", "calls/100"];
    let rows = annotated(heads, rows);
    for (sender, found) in found {
        if let Err(why) = found {
            notes += &format!("Not on this machine: {sender} ({why})\n");
        }
    }
    format!(
        "{rows}\n{}\n\
         Each was tried over the loopback device: 2 streams, 3 packets of 172 bytes every\n\
         3 ms, compared byte for byte. Other load shows in the lateness.\n\
         The media server takes one by name: roundhouse serve media --sender NAME\n\
         ({})\n",
        folded(&notes, 2),
        Sender::USUAL
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_sender_has_a_row_and_every_reason_is_told() {
        let works = Works {
            late_p50: Duration::from_micros(70),
            late_max: Duration::from_millis(2),
            calls_percent: 40,
        };
        let found: Vec<_> = Sender::all()
            .map(|sender| match sender {
                Sender::Splice => (sender, Err("no pipe".to_owned())),
                sender => (sender, Ok(works)),
            })
            .collect();
        let text = table(&found);
        for sender in Sender::all() {
            assert!(text.contains(sender.name()), "{text}");
        }
        for part in ["Not on this machine: splice (no pipe)", "70.0 µs"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
