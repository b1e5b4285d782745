//! The rooms behind the first: the paper's three tables beside ours, which are the same ten
//! sessions by every sender, idle and under overload, and what a packet takes by each; then packets
//! and rates that grow until copies matter.

mod copies;
mod overload;
mod price;
mod sessions;

use crate::exhibit::{Effort, Fault};
use crate::showing::Finding;
use crate::stage::{Settings, Stage};
use lab::pace::{Around, Sink};
use std::time::Duration;

/// Senders that a quick visit looks at, if they work.
const QUICK: [&str; 4] = ["plain", "plain-abs", "sendmmsg", "uring-chain"];

/// How much the rooms have to do, by the number of senders of today.
pub fn effort(settings: &Settings) -> Effort {
    let senders = if settings.quick { QUICK.len() as u32 } else { 20 };
    let each = time(settings) + Duration::from_millis(700);
    let ranks = if settings.quick { 1 } else { 3 };
    let tables = Effort::new(2, each * senders * (1 + ranks) * settings.blocks(1) / 2);
    tables.and(price::effort(senders)).and(copies::effort(settings))
}

/// How long a paced run lasts.
fn time(settings: &Settings) -> Duration {
    let whole = settings.scale.of(Duration::from_secs(3)).max(Duration::from_millis(1_200));
    if settings.quick { Duration::from_millis(300) } else { whole }
}

/// Hangs the rooms; what was expected of them and came out.
///
/// # Errors
/// If the raw file cannot be written.
pub fn hang(stage: &mut Stage<'_>) -> Result<Vec<Finding>, Fault> {
    let mut senders = stage.senders();
    if stage.settings().quick {
        senders.retain(|name| QUICK.contains(&name.as_str()));
    }
    if senders.is_empty() {
        return Ok(Vec::new());
    }
    let mut findings = sessions::show(stage, &senders)?;
    findings.extend(overload::show(stage, &senders)?);
    findings.extend(price::show(stage, &senders)?);
    findings.extend(copies::show(stage, &senders)?);
    Ok(findings)
}

/// Surroundings without anybody else.
fn alone(stage: &Stage<'_>, sink: Sink) -> Around {
    Around { cores: stage.cores(), sink, ..Around::default() }
}

/// A device that frees packets if one can be made, else the loopback device.
fn sink(stage: &mut Stage<'_>) -> Sink {
    match Sink::Freed.can_be_made() {
        Ok(()) => Sink::Freed,
        Err(why) => {
            stage.doubt(format!(
                "No device that frees packets could be made ({why}), so the cost of receiving is \
                 in the cost of a packet."
            ));
            Sink::Heard
        }
    }
}
