//! A streaming worker without a server, for probes, benches and tests.

use std::time::Duration;

use engines::{Assets, ExtraWorkerEntry};
use memory::{Board, Phase, Placement, Region, SlotState};
use seam::{PacedSource, WorkerId};
use std::os::fd::AsFd;
use sys::eventfd::EventFd;
use sys::poll::{PollFd, poll};

use crate::fault::Fault;
use crate::runner::PacedRunner;

/// The interval at which the worker's end is checked.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Runs one worker until every stream ordered beforehand has ended. During `quiet` no other thread
/// of this process runs, so that the worker can be measured.
///
/// `meanwhile` runs on a separate thread and gets a bell that tells the worker of changed orders.
/// When it returns, the worker waits for the streams ordered so far, and for no others.
///
/// # Errors
/// Why the worker could not begin.
pub fn run_alone<P: PacedSource>(
    runner: &PacedRunner<'_, P>,
    assets: &Assets,
    quiet: Duration,
    meanwhile: impl FnOnce(&dyn Fn()) + Send,
) -> Result<(), Fault> {
    runner.rank.check().map_err(Fault::Rank)?;
    let mut board: Region<Board> = Region::place(Placement::Private).map_err(Fault::Wait)?;
    board.init(&[]).expect("a scoreboard needs no seed");
    let [orders, stop, bell] = [(); 3].map(|()| EventFd::new());
    let (orders, stop, bell) =
        (orders.map_err(Fault::Wait)?, stop.map_err(Fault::Wait)?, bell.map_err(Fault::Wait)?);
    let id = WorkerId::new(0, 1);
    board.sit(id, sys::process::this());
    let board = &*board;
    board.advance(Phase::Ready);
    let (orders, stop, bell) = (&orders, &stop, &bell);
    let (slots, verbose, is_successor) = (1, false, false);
    let entry =
        ExtraWorkerEntry { assets, board, id, slots, orders, stop, bell, verbose, is_successor };
    std::thread::scope(|scope| {
        let start = std::thread::Builder::new;
        let worker = start()
            .spawn_scoped(scope, || {
                let ended = runner.serve(&entry);
                bell.ring();
                ended
            })
            .map_err(Fault::Wait)?;
        let company = start().spawn_scoped(scope, || meanwhile(&|| orders.ring()));
        let company = company.map_err(|error| {
            // The worker must not wait for further orders.
            board.advance(Phase::Draining);
            stop.ring();
            Fault::Wait(error)
        })?;
        // The worker is ready once it has taken its orders, or has failed.
        while board.slot(0).state() != SlotState::Ready && !worker.is_finished() {
            let mut list = [PollFd::new(bell.as_fd(), true, false)];
            // A worker that could not begin rings the bell before it ends.
            poll(&mut list, Some(LOOK_EVERY)).map_err(Fault::Wait)?;
            bell.clear();
        }
        std::thread::sleep(quiet);
        let company = company.join();
        board.advance(Phase::Draining);
        stop.ring();
        let ended = worker.join().unwrap_or(Err(Fault::Panicked));
        if company.is_err() { Err(Fault::Panicked) } else { ended }
    })
}
