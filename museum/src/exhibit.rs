//! An exhibit: one file of words and a plan; and the reasons why it can fail.

use crate::draft::Draft;
use crate::law::Scale;
use crate::results::Results;
use crate::stage::{Settings, Stage};
use crate::text::Text;
use crate::{measure, report};
use std::time::Duration;

/// A published measurement that can be repeated, with its flaw and without.
#[derive(Clone, Copy, Debug)]
pub struct Exhibit {
    /// The name on the command line, such as `think-time`.
    name: &'static str,
    /// Its file, and the same in Korean.
    pub(crate) files: [&'static str; 2],
}

impl Exhibit {
    pub(crate) const fn new(name: &'static str, files: [&'static str; 2]) -> Exhibit {
        Exhibit { name, files }
    }

    /// The name on the command line, such as `think-time`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The texts: heading, summary, prose for the measurements, and the plan.
    pub fn text(&self) -> Text {
        Text::of(self)
    }

    /// The effort with these settings.
    pub fn effort(&self, settings: &Settings) -> Effort {
        // A test plans every exhibit.
        measure::effort(&self.text().plan, settings).unwrap_or_default()
    }

    /// Whether `--clients` changes it.
    pub fn has_clients(&self) -> bool {
        let sizes = Some((1..=37).collect());
        let crowds = Settings { clients: sizes, ..Settings::default() };
        self.text().plan.clients || self.effort(&crowds) != self.effort(&Settings::default())
    }

    /// Whether its clients can come from another machine.
    pub fn has_visitors(&self) -> bool {
        self.text().plan.visitors
    }

    /// Runs it. A stopped one has the measurements so far.
    ///
    /// # Errors
    /// If a server or a client fails; see [`Fault`].
    pub fn show(&self, stage: &mut Stage<'_>) -> Result<Draft, Fault> {
        let plan = self.text().plan;
        let results = measure::run(stage, &plan)?;
        let scope = plan.scope(stage.settings(), &results)?;
        report::doubts(&plan, &scope)?.into_iter().for_each(|doubt| stage.doubt(doubt));
        let mut draft = report::draft(&plan, &scope)?;
        draft.facts.extend(stage.contest_facts());
        Ok(draft)
    }

    /// The draft before anything is measured.
    ///
    /// # Errors
    /// If an expression of its plan is wrong.
    pub fn nothing(&self, settings: &Settings) -> Result<Draft, Fault> {
        let plan = self.text().plan;
        report::draft(&plan, &plan.scope(settings, &Results::default())?)
    }
}
/// The flags among `settings` that would change nothing in this exhibit, each with the reason.
pub fn ignored(exhibit: &Exhibit, settings: &Settings) -> Vec<(&'static str, &'static str)> {
    let usual = Settings::default;
    let same = |other: Settings| exhibit.effort(&other) == exhibit.effort(&usual());
    let shortest = Scale::new(Scale::LEAST).unwrap_or(Scale::WHOLE);
    let (is_scaled, blocks) = (settings.scale != Scale::WHOLE, settings.blocks.map(|_| 37));
    let quick = settings.quick && same(Settings { quick: true, ..usual() });
    let full = settings.full && same(Settings { full: true, ..usual() });
    let scale = is_scaled && same(Settings { scale: shortest, ..usual() });
    let blocks = blocks.is_some() && same(Settings { blocks, ..usual() });
    let clients = settings.clients.is_some() && !exhibit.has_clients();
    let far = settings.far.is_some() && !exhibit.has_visitors();
    let flags = [
        ("--quick", quick, "its clients sleep, and --scale shortens that"),
        ("--full", full, "it has the published sizes already"),
        ("--scale", scale, "it has no pause that could be shorter"),
        ("--blocks", blocks, "it repeats nothing"),
        ("--clients", clients, "the number of clients is none of its variables"),
        ("--load-from", far, "it measures one machine"),
    ];
    flags.into_iter().filter(|it| it.1).map(|(flag, _, why)| (flag, why)).collect()
}

/// The effort of an exhibit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Steps, for a progress bar.
    pub steps: u32,
    /// The approximate time of all of them.
    pub time: Duration,
}

impl Effort {
    /// `steps` of `each`.
    pub fn new(steps: u32, each: Duration) -> Effort {
        Effort { steps, time: each * steps }
    }

    /// This, and then `more`.
    pub fn and(self, more: Effort) -> Effort {
        Effort { steps: self.steps + more.steps, time: self.time + more.time }
    }
}

/// The reason why an exhibit failed.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Fault {
    /// A file or directory could not be used.
    #[display("{_0}")]
    File(String),
    /// A server did not start.
    #[display("the server did not become ready: {_0}")]
    Server(String),
    /// A client program did not report.
    #[display("the clients did not finish: {_0}")]
    Clients(String),
    /// The laboratory could not run a race.
    #[display("the laboratory could not measure: {_0}")]
    Lab(String),
    /// The visitor has stopped the run.
    #[display("it was stopped")]
    Stopped,
    /// The words and the numbers of an exhibit do not fit: a mistake in this crate.
    #[display("the exhibit's text cannot be filled: {_0}")]
    Text(String),
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EXHIBITS;

    #[test]
    fn flags_that_change_nothing_are_known() {
        let (scale, clients) = (Scale::new(0.5).expect("a scale"), Some(vec![7]));
        let all = Settings { quick: true, scale, clients, ..Settings::default() };
        let found = |flag: &str| -> Vec<&str> {
            let uses = |it: &&Exhibit| ignored(it, &all).iter().all(|it| it.0 != flag);
            EXHIBITS.iter().filter(|it| uses(it)).map(|it| it.name()).collect()
        };
        let crowds = ["think-time", "staircase", "accept-queue", "workload", "stock-lock"];
        assert!(crowds.iter().all(|name| !found("--quick").contains(name)));
        assert_eq!(EXHIBITS.len() - found("--quick").len(), crowds.len());
        assert!(found("--scale").starts_with(&crowds));
        let clients = ["concurrent-clients", "computing-time", "directives"];
        assert_eq!(found("--clients"), [&crowds[..], &clients].concat());
        assert!(ignored(&EXHIBITS[0], &Settings::default()).is_empty());
    }
}
