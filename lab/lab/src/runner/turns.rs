//! A block whose servers are all up at once and take turns under one generator.
//!
//! Each block starts fresh servers, because chance gives a process its memory layout. The trials of
//! a block share its conditions: a disturbance affects neighbouring windows of all servers alike.

use super::words::{self, Request};
use super::{Attempt, PATIENCE, Runner, Up};
use crate::block::Slot;
use crate::cost::CostWatch;
use crate::idle::IdleSockets;
use crate::machine::Watch;
use crate::observations::{Idle, Observations};
use crate::plan::Arm;
use crate::server::{Process, ProcessExit};
use crate::trial::{DIED, Ending, Trial};
use crate::turns::{Played, Turns};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The first blocks, in which memory for idle connections is measured: enough for an interval.
const SILENT_BLOCKS: u32 = stats::VALUES_MIN as u32;
/// The time within which the idle connections to one server begin, and the time after which no
/// block opens more: a server with a short accept queue takes a second for a few of them.
const OPENING: Duration = Duration::from_millis(1_500);
const OPENING_ALL: Duration = Duration::from_millis(2_500);
/// The time that a server with a long queue may take.
const OPENED: Duration = Duration::from_millis(300);
/// The time within which all idle connections are answered.
const ANSWERED: Duration = Duration::from_millis(300);
/// The time within which a server answers its last requests between two windows.
const DRAIN: [&str; 2] = ["--drain", "2s"];
/// The first of the connections that stay silent alongside busy ones: their cost is left out,
/// because they also pay for memory that is touched only once.
const FIRST: u32 = 100;
/// Targets that understand the market's commands.
const MARKET: &str = "stock://";
/// The request of an idle connection to a market.
const GREETING: &[u8] = b"show\n";

/// One server of the block, or the reason why there is none.
struct Player {
    entrant: usize,
    up: Result<Up, String>,
}

/// A slot, when it began, and what is known of it before its server has ended.
type Part = (Slot, Instant, Attempt);

impl Runner {
    /// The trials of these slots, which belong to one block and whose load points share their
    /// servers; idle connections are asked of the `first` such group. `None` if they were
    /// interrupted.
    pub(super) fn take_turns(
        &self,
        slots: &[Slot],
        first: bool,
        dir: &Path,
        begun: Instant,
    ) -> Option<Vec<Trial>> {
        let watch = Watch::start();
        let swapped = slots.first()?.swapped;
        let mut players = self.players(slots, swapped, dir);
        let mut parts = Vec::new();
        for here in slots.chunk_by(|a, b| a.point == b.point) {
            let slots: Vec<&Slot> = here.iter().collect();
            parts.extend(self.turns_at(here[0].point, &slots, &mut players, dir)?);
        }
        let silent = if first { self.silent(slots[0].block, &players) } else { Vec::new() };
        let ends = Runner::ends(players);
        let conditions = watch.stop();
        let last = slots.last()?.point;
        let trials = parts.into_iter().map(|(slot, start, mut run)| {
            if let Some((_, exit)) = ends.iter().find(|end| end.0 == slot.entrant) {
                (run.exit, run.exit_clean) = (Some(exit.how.clone()), exit.clean);
            }
            let idle = silent.iter().find(|it| it.0 == slot.entrant && slot.point == last);
            run.seen.idle = run.seen.idle.or(idle.map(|(_, idle)| idle.clone()));
            self.trial(&slot, [begun, start], conditions, run)
        });
        trials.collect()
    }

    /// Starts the servers in the order of the slots, which is random.
    fn players(&self, slots: &[Slot], swapped: bool, dir: &Path) -> Vec<Player> {
        let mut players: Vec<Player> = Vec::new();
        for slot in slots {
            if players.iter().all(|player| player.entrant != slot.entrant) {
                let arm = self.entrants[slot.entrant].at(&self.plan.points[slot.point]);
                let up = self.boot(&arm, swapped, &dir.join(slot.entrant.to_string()));
                players.push(Player { entrant: slot.entrant, up });
            }
        }
        players
    }

    /// One load point. `None` if it was interrupted.
    fn turns_at(
        &self,
        point: usize,
        slots: &[&Slot],
        players: &mut [Player],
        dir: &Path,
    ) -> Option<Vec<Part>> {
        let begun = Instant::now();
        let turns = self.plan.turns;
        let (plan, at) = (&self.plan, &self.plan.points[point]);
        let (warmup_ms, window_ms) = plan.spans(at);
        let (mut runs, mut playing, mut played) = (Vec::new(), Vec::new(), Vec::new());
        let mut cpu = None;
        for player in players.iter_mut() {
            let slot = slots.iter().find(|slot| slot.entrant == player.entrant);
            if let (Ok(up), Some(slot)) = (&mut player.up, slot) {
                let arm = &self.entrants[slot.entrant].at(at);
                if let Err(why) = up.hush(arm) {
                    played.push((player.entrant, Err(why)));
                    continue;
                }
                let request = Request::of(plan, arm, at, slot.seed, None);
                let mut run = words::run(&request, &up.server);
                run.extend(DRAIN.map(String::from));
                if let Some(folder) = up.cost.folder().filter(|_| up.server.is_started()) {
                    run.extend(["--watch-group".to_string(), folder.display().to_string()]);
                }
                run.extend(self.far.iter().flat_map(|far| far.flags()));
                runs.push(run);
                playing.push(player.entrant);
                cpu = up.cores.map(|cores| cores.1);
                up.cost.mark();
            }
        }
        let seed = slots.first().map_or(plan.seed, |slot| slot.seed);
        let windows = turns.windows;
        let (exe, far) = (&*self.exe, self.far.as_deref());
        let call = Turns { exe, far, dir, windows, window_ms, warmup_ms, seed, cpu };
        let loads = match runs.is_empty() {
            true => Vec::new(),
            false => call
                .take(&runs, &self.stop)?
                .unwrap_or_else(|why| playing.iter().map(|_| Err(why.clone())).collect()),
        };
        played.extend(playing.into_iter().zip(loads));
        let part = |slot: &&Slot| {
            let player = players.iter_mut().find(|player| player.entrant == slot.entrant);
            let played = played.iter().find(|it| it.0 == slot.entrant).map(|it| &it.1);
            ((*slot).clone(), begun, ended(player.map(|player| player.up.as_mut()), played))
        };
        Some(slots.iter().map(part).collect())
    }

    /// Opens idle connections to one server after the other, each of which asks once, and
    /// measures their memory.
    fn silent(&self, block: u32, players: &[Player]) -> Vec<(usize, Idle)> {
        let wanted = self.plan.turns.silent;
        let spent = Duration::from_millis(self.idle_ms.load(Ordering::Relaxed));
        if wanted == 0 || block >= SILENT_BLOCKS || spent > OPENING_ALL {
            return Vec::new();
        }
        let one = |player: &Player| {
            let up = player.up.as_ref().ok()?;
            let pid = up.server.root();
            let begun = Instant::now();
            let mut held = IdleSockets::within(OPENING).in_network_of(self.far.as_ref());
            held.grow(&up.server.address, pid, wanted);
            let late = begun.elapsed().saturating_sub(OPENED);
            self.idle_ms.fetch_add(late.as_millis() as u64, Ordering::Relaxed);
            if self.entrants[player.entrant].target.starts_with(MARKET) {
                held.count_answers(GREETING, ANSWERED);
            }
            held.weigh(pid);
            Some((player.entrant, held.close()))
        };
        players.iter().filter_map(one).collect()
    }

    /// Ends all servers: the signals first, so that they drain side by side.
    fn ends(players: Vec<Player>) -> Vec<(usize, ProcessExit)> {
        let mut asked = Vec::new();
        for Player { entrant, up } in players {
            if let Ok(mut up) = up {
                let died = up.server.process.ended().map(|exit| {
                    let complaint = up.server.process.complaint();
                    let blank = if complaint.is_empty() { "" } else { ": " };
                    let how = format!("{DIED} ({}){blank}{complaint}", exit.how);
                    ProcessExit { how, clean: false }
                });
                up.server.process.ask_to_stop();
                // A control group can go only when its processes have gone.
                asked.push((entrant, up.server.process, died, up.cost));
            }
        }
        let end = |(entrant, process, died, _group): (usize, Process, Option<_>, CostWatch)| {
            let ended = process.wait(PATIENCE);
            (entrant, died.unwrap_or(ended))
        };
        asked.into_iter().map(end).collect()
    }
}

/// The outcome of one server's turns.
fn ended(
    up: Option<Result<&mut Up, &mut String>>,
    played: Option<&Result<Played, String>>,
) -> Attempt {
    let (up, played) = match (up, played) {
        (Some(Err(reason)), _) => return Attempt::unavailable(reason.clone()),
        (Some(Ok(up)), Some(played)) => (up, played),
        (..) => return Attempt::failed("it took no turn".to_string()),
    };
    let run = up.run();
    let failed = |reason: String| Attempt { boot_ms: run.boot_ms, ..Attempt::failed(reason) };
    let Played { load, p99_ns, warmed_ms } = match played {
        Ok(played) => played,
        Err(reason) => return failed(reason.clone()),
    };
    let cost = up.cost.since_mark(load.requests_total.max(load.requests));
    let idle = up.held.take().map(IdleSockets::close);
    let lost = idle.as_ref().map_or(0, |idle| idle.opened - idle.kept);
    if lost > 0 {
        return failed(format!("the server closed {lost} idle connections"));
    }
    let seen = Observations {
        cost: cost.filter(|_| up.server.is_started()),
        idle,
        p99_ns: *p99_ns,
        warmed_ms: Some(*warmed_ms).filter(|time| *time > 0),
        ..Observations::default()
    };
    Attempt { ending: Some(Ending::Measured { load: Box::new(load.clone()) }), seen, ..run }
}

impl Up {
    /// Opens the arm's idle connections. Each is answered once where the server is a market, so
    /// that its session holds the memory that it keeps after a request.
    fn hush(&mut self, arm: &Arm) -> Result<(), String> {
        self.held = None;
        if arm.idle == 0 {
            return Ok(());
        }
        let pid = self.server.root();
        let mut held = IdleSockets::default().in_network_of(self.far.as_ref());
        for wanted in [FIRST.min(arm.idle / 2), arm.idle] {
            held.grow(&self.server.address, pid, wanted);
            let seen = held.seen();
            if seen.opened < wanted {
                let (opened, why) = (seen.opened, &seen.why);
                return Err(format!("expected {wanted} idle connections, found {opened}: {why}"));
            }
            if arm.target.starts_with(MARKET) {
                held.speak(GREETING)?;
            }
        }
        held.weigh(pid);
        self.held = Some(held);
        Ok(())
    }
}
