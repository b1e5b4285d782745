//! The museum: published measurements of servers, repeated with their flaw and then without it.
//!
//! An exhibit states a published result, repeats the experiment as it was until its artefact
//! appears, repeats it with the one change that removes the artefact, and explains in plain words
//! why the two differ. Every run uses real processes. The change is small: a sleep, a queue length,
//! a number of workers.
//!
//! ```text
//! visit --> Exhibit::show(stage) -> Draft   rows, series, findings: numbers without a word
//!    |         |
//!    |         Stage: crowd  the course's clients, a process each       (stage/crowd.rs)
//!    |                race   randomised blocks of the laboratory         (stage/race.rs)
//!    \--> Text: exhibits/NAME.toml, its sentences  -> document::Document
//! law       results of arithmetic                counters  the kernel's counters
//! course, portfolio, web/study    the published figures
//! ```
//!
//! To add an exhibit, add one file beside `think_time.rs` that implements [`Exhibit`], its words in
//! `exhibits/NAME.toml` and `exhibits/ko/NAME.toml`, its `mod` line, and its row in [`EXHIBITS`].
//! The list, the command line, the page and the JSON then include it.

pub mod artefact;
pub mod contest;
pub mod counters;
pub mod course;
pub mod draft;
pub mod exhibit;
pub mod factors;
pub mod law;
pub mod parts;
pub mod portfolio;
pub mod stage;
mod text;
mod visit;
mod web;

mod accept_queue;
mod conclusion;
mod rounded_sleep;
mod staircase;
mod stock_lock;
mod think_time;
mod workload;

pub use draft::Draft;
pub use exhibit::{Effort, Exhibit, Fault};
pub use stage::{Listener, Settings, Stage, is_quiet};
pub use text::Text;
pub use visit::{Kept, visit};

/// Every exhibit, in the order of a tour.
pub const EXHIBITS: &[&dyn Exhibit] = &[
    &think_time::ThinkTime,
    &staircase::Staircase,
    &accept_queue::AcceptQueue,
    &workload::Workload,
    &stock_lock::StockLock,
    &rounded_sleep::RoundedSleep,
    &parts::pool_heap::PoolHeap,
    &parts::pool_layout::PoolLayout,
    &parts::false_sharing::FalseSharing,
    &parts::remote_free::RemoteFree,
    &parts::path_ladder::PathLadder,
    &parts::server_factors::ServerFactors,
    &parts::id_schemes::IdSchemes,
    &parts::ordered_index::OrderedIndex,
    &web::three::ThreeServers,
    &web::clients::ConcurrentClients,
    &web::computing::ComputingTime,
    &web::directives::DirectivesTable,
    &web::mixes::Mixes,
    &web::band::Band,
    &web::adaptive::Adaptive,
];

/// The exhibit of that name.
pub fn by_name(name: &str) -> Option<&'static dyn Exhibit> {
    EXHIBITS.iter().copied().find(|exhibit| exhibit.name() == name)
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
            let same = |other: &&dyn Exhibit| other.name() == name;
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
            let (whole, short) = (exhibit.effort(&whole), exhibit.effort(&short));
            assert!(whole.steps > 0 && whole.steps == short.steps, "{}", exhibit.name());
            assert!(whole.time >= short.time && whole.time.as_secs() > 0, "{}", exhibit.name());
        }
    }
}
