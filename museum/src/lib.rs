//! The museum: published measurements of servers, repeated with their flaw and then without it.
//!
//! An exhibit states a published result, repeats the experiment as it was until its artefact
//! appears, repeats it with the one change that removes the artefact, and explains in plain words
//! why the two differ. Every run uses real processes. The change is small: a sleep, a queue length,
//! a number of workers.
//!
//! ```text
//! exhibits/NAME.toml   words, expectations, [plan]      documents.toml  what was published
//!        |
//! visit --> measure::run(plan) -> Results      cells: arm, point, block -> figures
//!    |         |  crowds   the course's clients, a process each       (stage/crowd.rs)
//!    |         |  web      servers of pages and their clients         (measure/web.rs)
//!    |         |  race     randomised blocks of the laboratory
//!    |         \  code     what no plan can express                   (code/)
//!    |--> report::draft(plan, Results) -> Draft   rows, series, findings: numbers without a word
//!    \--> Text: the words, filled with the numbers -> document::Document
//! ```
//!
//! To add an exhibit, add its file in `exhibits/` and `exhibits/ko/` and its name in [`EXHIBITS`].
//! If a plan cannot express its measurement, add a function to `code`. The list, the command
//! line, the page and the JSON then include it.

mod artefact;
mod code;
mod conclusion;
mod contest;
mod draft;
mod exhibit;
mod law;
mod measure;
mod plan;
mod query;
mod report;
mod results;
pub mod ring;
mod scope;
mod stage;
mod text;
mod visit;

pub use artefact::program::run as artefact;
pub use exhibit::{Effort, Exhibit, Fault, ignored};
pub use law::Scale;
pub use stage::{Listener, Settings};
pub use text::Text;
pub use visit::{Kept, visit};

macro_rules! exhibits {
    ($($name:literal)*) => {
        &[$(Exhibit::new($name, [
            include_str!(concat!("../exhibits/", $name, ".toml")),
            include_str!(concat!("../exhibits/ko/", $name, ".toml")),
        ])),*]
    };
}

/// Every exhibit, in the order of a tour.
pub static EXHIBITS: &[Exhibit] = exhibits![
    "think-time" "staircase" "accept-queue" "workload" "stock-lock" "rounded-sleep"
    "pool-heap" "pool-layout" "false-sharing" "remote-free" "path-ladder" "server-factors"
    "id-schemes" "ordered-index" "three-servers" "tasks-or-threads" "concurrent-clients"
    "computing-time" "directives" "mixes" "spare-band" "automatic-configuration"
];

/// The exhibit of that name.
pub fn by_name(name: &str) -> Option<&'static Exhibit> {
    EXHIBITS.iter().find(|exhibit| exhibit.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exhibits_have_names_of_their_own_that_a_shell_takes() {
        let plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
        for (at, exhibit) in EXHIBITS.iter().enumerate() {
            let name = exhibit.name();
            assert!(!name.is_empty() && name != "all" && name.chars().all(plain), "{name}");
            let same = |other: &Exhibit| other.name() == name;
            assert_eq!(EXHIBITS.iter().position(same), Some(at), "{name}");
            assert!(by_name(name).is_some());
        }
        assert!(by_name("all").is_none());
    }

    #[test]
    fn every_exhibit_knows_how_long_it_takes() {
        let whole = Settings::sample(1.0);
        let short = Settings::sample(0.1);
        for exhibit in EXHIBITS {
            let plan = &exhibit.text().plan;
            let [whole, short] = [&whole, &short].map(|it| {
                let effort = measure::effort(plan, it);
                effort.unwrap_or_else(|why| panic!("{}: {why}", exhibit.name()))
            });
            assert!(whole.steps > 0 && whole.steps == short.steps, "{}", exhibit.name());
            assert!(whole.time >= short.time && whole.time.as_secs() > 0, "{}", exhibit.name());
        }
    }
}
