//! Further runs: the paper's three tables beside ours, from the same ten sessions by every sender,
//! idle and under overload, and the cost of a packet by each; then growing packets and rates until
//! copies matter.

mod copies;
mod overload;
mod price;
mod sessions;

use crate::draft::Draft;
use crate::exhibit::{Effort, Fault};
use crate::stage::{Settings, Stage};
#[cfg(test)]
use lab::pace::Work;
use lab::pace::{Around, Sink};
use std::time::Duration;

/// Senders that a quick visit looks at, if they work.
const QUICK: [&str; 4] = ["plain", "plain-abs", "sendmmsg", "uring-chain"];

/// The effort of the rooms, by the number of present senders.
pub fn effort(settings: &Settings) -> Effort {
    let senders = if settings.quick { QUICK.len() as u32 } else { 20 };
    let each = time(settings) + Duration::from_millis(700);
    let ranks = if settings.quick { 1 } else { 3 };
    let tables = Effort::new(2, each * senders * (1 + ranks) * settings.blocks(1) / 2);
    let classes = Effort::new(1, Duration::from_secs(15));
    tables.and(classes).and(price::effort(senders)).and(copies::effort(settings))
}

/// The duration of a paced run.
fn time(settings: &Settings) -> Duration {
    let whole = settings.scale.of(Duration::from_secs(3)).max(Duration::from_millis(1_200));
    match (settings.full, settings.quick) {
        // A thousand packets, as published.
        (true, _) => Duration::from_secs(30),
        (_, true) => Duration::from_millis(300),
        _ => whole,
    }
}

/// Runs them one after another.
///
/// # Errors
/// If the raw file cannot be written.
pub fn measure(stage: &mut Stage<'_>, it: &mut Draft) -> Result<(), Fault> {
    if stage.stopped() {
        return Ok(());
    }
    let mut senders = stage.senders();
    if stage.settings().quick {
        senders.retain(|name| QUICK.contains(&name.as_str()));
    }
    if !senders.is_empty() {
        sessions::measure(stage, it, &senders)?;
        overload::measure(stage, it, &senders)?;
        price::measure(stage, it, &senders)?;
        copies::measure(stage, it, &senders)?;
    }
    Ok(())
}

/// The rooms without a sender.
#[cfg(test)]
pub fn nothing(it: &mut Draft) {
    let work = Work::audio(Duration::from_secs(1));
    sessions::draft(it, &[], work, Around::default());
    overload::draft(it, &[], work);
    overload::draft_classes(it, &[]);
    price::draft(it, &[], work, Sink::Heard);
    copies::draft(it, &[], &[], &[], Around::default());
    copies::draft_rates(it, &[], &[], Around::default());
}

/// Surroundings without another program.
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
