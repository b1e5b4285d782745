//! The world under the nine laws: whatever the network cuts, delays or breaks, moves are single
//! steps on free cells, every client is told about all others, and path lengths match the oracle.

use ::game::packet::{Ask, Bye, Place, Role, TELL_MAX, Tell, front};
use ::game::{Game, Options, Terrain, World};
use grid::{Cell, Corners, Grid, oracle};
use memory::Region;
use seam::Closed;
use sim::{Act, Case, Client, End, Faults, Heard, Script, Transcript};
use stats::Rng;
use std::collections::BTreeMap;
use std::time::Duration;

fn founded() -> Region<World> {
    Region::<World>::alone(&[])
}

const MS: Duration = Duration::from_millis(1);

/// A map with walls that have gaps, so that paths have turns.
fn grid() -> Grid {
    let free = |cell: Cell| cell.x % 8 != 5 || cell.y == (cell.x * 7) % 23;
    Grid::from_fn(60, 23, free).expect("a size")
}

fn game(budget: u32) -> Game {
    let terrain = Terrain::new(grid()).expect("there is land");
    Game::new(terrain, Options { budget, searchers: 2, ..Options::default() })
}

/// One worker that supports push, as the launcher ensures.
fn weather(faults: Faults) -> Faults {
    Faults { workers: 1, roam: false, pushes: true, ..faults }
}

fn wire(asks: &[Ask]) -> Vec<u8> {
    let mut bytes = Vec::new();
    asks.iter().for_each(|ask| ask.put(&mut bytes));
    bytes
}

fn join(role: Role) -> Ask {
    Ask::Join { version: 1, role, name: "Ada".to_owned() }
}

fn told(heard: &[u8]) -> Result<Vec<Tell>, String> {
    let (mut rest, mut told) = (heard, Vec::new());
    while let Some((body, used)) = front(rest, TELL_MAX).map_err(|bad| bad.to_string())? {
        told.push(Tell::read(body).map_err(|bad| bad.to_string())?);
        rest = &rest[used..];
    }
    Ok(told)
}

fn case(seed: u64, faults: Faults) -> Case {
    let mut rng = Rng::new(seed);
    let clients = (0..1 + rng.below(5)).map(|_| {
        let role = *rng.pick(&[Role::Player, Role::Player, Role::Spectator]);
        let mut acts = vec![Act::Send(wire(&[join(role)]))];
        for _ in 0..rng.below(8) {
            let place = (rng.below(62) as u16, rng.below(24) as u16);
            let asks = match rng.below(6) {
                0 => vec![Ask::Stop, Ask::Who],
                1 => vec![Ask::Say { to: 0, text: "hello".to_owned() }, Ask::Ping(4)],
                2 => vec![Ask::Rows { first: place.1, count: 3 }],
                // The second request replaces the first.
                3 => vec![Ask::Go((1, 1)), Ask::Go(place)],
                _ => vec![Ask::Go(place)],
            };
            let mut said = wire(&asks);
            if rng.once_in(30) {
                let place = rng.below(said.len());
                said[place] = rng.roll() as u8;
            }
            acts.push(Act::Send(said));
            acts.push(Act::Wait(Duration::from_micros(rng.below(900_000) as u64)));
        }
        Client { start: Duration::from_micros(rng.below(200_000) as u64), acts }
    });
    Case { script: Script { clients: clients.collect() }, faults: weather(faults), seed }
}

/// Checks that the packets each client received are consistent.
fn judge(case: &Case, transcript: &Transcript) -> Result<(), String> {
    let grid = grid();
    for (at, heard) in transcript.clients.iter().enumerate() {
        judge_client(&grid, heard).map_err(|why| format!("client {at}: {why}, {heard:?}"))?;
        let whole = case.faults.drain.is_none() && heard.closed == Some(Closed::Service);
        if whole && heard.end == End::Closed && heard.bytes.is_empty() {
            return Err(format!("client {at} was told nothing"));
        }
    }
    Ok(())
}

/// The simulated network may reorder ticks, so moves are sorted by tick.
fn judge_client(grid: &Grid, heard: &Heard) -> Result<(), String> {
    let mut seen: BTreeMap<u64, (u32, Place)> = BTreeMap::new();
    let free = |(x, y): Place| match grid.is_free(Cell::new(x, y)) {
        true => Ok(()),
        false => Err(format!("{x},{y} is a wall")),
    };
    for tell in told(&heard.bytes)? {
        match tell {
            Tell::Welcome { role: Role::Player, at, .. }
            | Tell::Enter { role: Role::Player, at, .. } => free(at)?,
            Tell::Moves { tick, moved } => {
                for one in moved {
                    free(one.at)?;
                    let (then, before) =
                        seen.insert(one.id, (tick, one.at)).unwrap_or((tick, one.at));
                    let far = before.0.abs_diff(one.at.0).max(before.1.abs_diff(one.at.1));
                    if u32::from(far) > tick.abs_diff(then) {
                        return Err(format!("{before:?} to {:?}, ticks {then} to {tick}", one.at));
                    }
                }
            }
            Tell::Path { steps: (straight, diagonal), turns, is_exact, .. } => {
                let cells: Vec<Cell> = turns.iter().map(|&(x, y)| Cell::new(x, y)).collect();
                let (from, to) = (cells[0], cells[cells.len() - 1]);
                let costs = oracle::costs(grid, Corners::OneObstacle, from);
                let shortest = costs[usize::from(to.y) * 60 + usize::from(to.x)];
                let found = Some(oracle::Pair { straight, diagonal });
                if is_exact && shortest != found {
                    return Err(format!(
                        "{from:?} to {to:?}: expected {shortest:?}, found {found:?}"
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn steps_are_steps_and_ways_are_shortest() {
    for budget in [1, 40, 100_000] {
        let game = game(budget);
        sim::check(&game, founded, 15, |seed| case(seed, Faults::rough(seed)), judge);
        sim::check(&game, founded, 15, |seed| case(seed, Faults::wild(seed)), judge);
        assert_eq!(game.searching(), 0, "every searcher comes back");
    }
}

#[test]
fn any_split_is_the_same_to_the_world() {
    let game = game(100_000);
    // Independent of time: immediate replies must be the same however the input arrives.
    let asks = [join(Role::Spectator), Ask::Rows { first: 20, count: 9 }, Ask::Who, Ask::Ping(1)];
    let calm = weather(Faults::calm());
    let ids = |heard: &[u8]| heard.to_vec();
    sim::chunking(&game, founded, &wire(&asks), &calm, 0, ids);
    let wrong = [&wire(&asks)[..], b"\x01\0\x55", &wire(&asks)].concat();
    sim::chunking(&game, founded, &wrong, &calm, 0, ids);
    sim::determinism(&game, founded, 20, |seed| case(seed, Faults::wild(seed)));
}

/// Two walkers and a spectator: all receive every step of a walk, and each other's messages.
#[test]
fn everybody_hears_of_everybody() {
    let game = game(100_000);
    let client = |start: u32, asks: &[Ask], stay: u32| {
        let acts = vec![Act::Send(wire(asks)), Act::Wait(stay * MS)];
        Client { start: start * MS, acts }
    };
    let say = Ask::Say { to: 0, text: "off I go".to_owned() };
    let clients = vec![
        client(0, &[join(Role::Spectator)], 9_000),
        client(100, &[join(Role::Player), say, Ask::Go((1, 1))], 8_000),
        client(200, &[join(Role::Player), Ask::Go((0, 22))], 8_000),
    ];
    let state = founded();
    let faults = weather(Faults::calm());
    let heard = sim::run(&game, &*state, &Script { clients }, &faults, 1);
    heard.lawful().expect("all laws hold");
    let told: Vec<Vec<Tell>> =
        heard.clients.iter().map(|it| told(&it.bytes).expect("packets")).collect();
    let count = |at: usize, is: &dyn Fn(&Tell) -> bool| told[at].iter().filter(|it| is(it)).count();
    assert_eq!(count(0, &|it| matches!(it, Tell::Enter { .. })), 2);
    assert_eq!(count(2, &|it| matches!(it, Tell::Enter { .. })), 2, "of those before him");
    for at in 0..2 {
        assert_eq!(count(at, &|it| matches!(it, Tell::Said { .. })), 1, "client {at}");
    }
    let walks = |at: usize, goal: Place| {
        let moves = told[at].iter().filter_map(|it| match it {
            Tell::Moves { moved, .. } => Some(moved),
            _ => None,
        });
        moves.flatten().any(|one| one.at == goal)
    };
    for at in 0..3 {
        assert!(walks(at, (0, 22)) && (at == 2 || walks(at, (1, 1))), "client {at}");
    }
    assert_eq!(count(0, &|it| matches!(it, Tell::Leave(_))), 2);
    assert_eq!(heard.pushes_lost, 0);
}

#[test]
fn who_does_not_belong_is_told_why() {
    let check = |said: &[u8], why: Bye| {
        let (game, state) = (game(100), founded());
        let mut client = Client::saying(said);
        client.acts.push(Act::Stay);
        let script = Script { clients: vec![client] };
        let heard = sim::run(&game, &*state, &script, &weather(Faults::calm()), 1);
        heard.lawful().expect("all laws hold");
        let told = told(&heard.only().bytes).expect("packets");
        assert_eq!(told.last(), Some(&Tell::Bye(why)), "{said:?}");
        assert_eq!(state.refused(why), 1, "{said:?}");
    };
    check(&wire(&[Ask::Who]), Bye::NotJoined);
    check(&wire(&[join(Role::Player), join(Role::Player)]), Bye::NotJoined);
    check(b"", Bye::NotJoined);
    check(b"\0\0", Bye::BadPacket);
    check(&[&wire(&[join(Role::Player)])[..], b"\x02\0\x02\0"].concat(), Bye::BadPacket);
    let newer = Ask::Join { version: 9, role: Role::Player, name: String::new() };
    check(&wire(&[newer]), Bye::NotJoined);
}

/// A search without budget does not return, and delays only the session that asked for it.
#[test]
fn a_search_without_budget_holds_up_nobody() {
    let game = game(1);
    let clients = (0..4).map(|at| {
        let asks = [join(Role::Player), Ask::Go((59, 22)), Ask::Ping(at)];
        let acts = vec![Act::Send(wire(&asks)), Act::Wait(400 * MS)];
        Client { start: Duration::ZERO, acts }
    });
    let script = Script { clients: clients.collect() };
    let state = founded();
    let heard = sim::run(&game, &*state, &script, &weather(Faults::calm()), 1);
    heard.lawful().expect("all laws hold");
    for client in &heard.clients {
        let told = told(&client.bytes).expect("packets");
        assert!(told.iter().any(|tell| matches!(tell, Tell::Pong(_))), "{told:?}");
    }
    let searched = state.searched();
    assert!(searched <= state.ticks(), "{searched} cells in {} ticks", state.ticks());
}
