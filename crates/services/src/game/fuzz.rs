//! Random packets, broken ones and noise, with searches that always lack budget: every participant
//! stands on a free cell, every move is one step, and all searchers return.

use memory::Region;
use seam::{Buffers, Conn, Cx, Effects, Instant, Peer, Service, SessionId, WorkerId};
use stats::Rng;
use std::collections::BTreeMap;
use std::time::Duration;

use super::packet::{Ask, Place, Role, TELL_MAX, Tell, front};
use super::{Game, Options, Terrain, World};
use grid::{Cell, Grid};

/// Plays about `events` packets from `seed`.
///
/// # Panics
/// When the world violates one of these; the message carries the seed.
pub fn fuzz(seed: u64, events: u32) {
    let mut rng = Rng::new(seed);
    for world in 0..events.div_ceil(400) {
        let at = format!("services::game::fuzz seed {seed}, world {world}");
        play(&mut rng, events.min(400), &at);
    }
}

/// A client, whose received packets are checked.
struct Visitor {
    conn: Option<Conn<Game>>,
    id: SessionId,
    heard: Vec<u8>,
    /// The positions of all participants, as far as this client was told.
    seen: BTreeMap<u64, Place>,
}

fn play(rng: &mut Rng, events: u32, at: &str) {
    let (width, height) = (1 + rng.below(40), 1 + rng.below(40));
    let holes = 1 + rng.below(5);
    let grid = Grid::from_fn(width, height, |_| !rng.once_in(holes + 1)).expect("a size");
    let Ok(terrain) = Terrain::new(grid) else { return };
    let options = Options { budget: 1 + rng.below(50) as u32, searchers: 2, ..Options::default() };
    let game = Game::new(terrain, options);
    let world = Region::<World>::alone(&[]);
    let effects = Effects::new(true, false);
    let mut visitors: Vec<Visitor> = Vec::new();
    let mut now = Instant::from_ns(1);
    for event in 0..events {
        let cx = |id| Cx::new(now, id, WorkerId::new(0, 1), &*world, &effects);
        match rng.below(10) {
            0 if visitors.len() < 6 => {
                let id = SessionId::new(0, event, 1);
                let conn = Conn::open(&game, &cx(id), Peer::Local, &mut Buffers::new(1));
                let (heard, seen) = (Vec::new(), BTreeMap::new());
                visitors.push(Visitor { conn: Some(conn), id, heard, seen });
            }
            0..=6 if !visitors.is_empty() => {
                let one = rng.below(visitors.len());
                let said = said(rng, visitors.get(one).map_or(0, |it| it.id.bits()));
                let Visitor { conn: Some(conn), id, .. } = &mut visitors[one] else { continue };
                if conn.wants().read {
                    let cut = rng.below(said.len() + 1);
                    conn.feed(&game, &cx(*id), &said[..cut]);
                    conn.feed(&game, &cx(*id), &said[cut..]);
                }
            }
            _ => {
                now = now + Duration::from_millis(1 + rng.below(80) as u64);
                let cx = |id| Cx::new(now, id, WorkerId::new(0, 1), &*world, &effects);
                game.tick(&cx(SessionId::NONE));
                for Visitor { conn, id, .. } in &mut visitors {
                    if let Some(conn) = conn {
                        conn.deadline(&game, &cx(*id));
                    }
                }
            }
        }
        settle(rng, &game, &world, &effects, now, &mut visitors, at);
    }
    drop(visitors);
    assert_eq!(game.searching(), 0, "{at}: every searcher comes back");
}

/// A random packet.
fn said(rng: &mut Rng, own: u64) -> Vec<u8> {
    let mut said = Vec::new();
    let place = (rng.below(42) as u16, rng.below(42) as u16);
    let ask = match rng.below(12) {
        0..=2 => {
            let role = *rng.pick(&[Role::Player, Role::Player, Role::Spectator]);
            Ask::Join { version: 1, role, name: "x".repeat(rng.below(18)) }
        }
        3..=7 => Ask::Go(place),
        8 => Ask::Stop,
        9 => Ask::Say { to: *rng.pick(&[0, own, 77]), text: "hello".to_owned() },
        _ if rng.once_in(3) => Ask::Rows { first: place.0, count: place.1 },
        10 => Ask::Who,
        _ => Ask::Ping(3),
    };
    ask.put(&mut said);
    if rng.once_in(60) {
        let place = rng.below(said.len());
        said[place] = rng.roll() as u8;
    }
    said
}

/// Runs jobs and pushes until nothing is left, and checks what each client receives.
fn settle(
    rng: &mut Rng,
    game: &Game,
    world: &World,
    effects: &Effects,
    now: Instant,
    visitors: &mut [Visitor],
    at: &str,
) {
    let cx = |id| Cx::new(now, id, WorkerId::new(0, 1), world, effects);
    for visitor in &mut *visitors {
        let Some(conn) = &mut visitor.conn else { continue };
        // A job may take a while.
        if conn.wants().job && !rng.once_in(3) {
            let outcome = game.work(world, conn.take_job().expect("it was wanted"));
            conn.outcome(game, &cx(visitor.id), outcome);
        }
        if rng.once_in(200) {
            conn.eof(game, &cx(visitor.id));
        }
    }
    for visitor in &mut *visitors {
        let Some(mut conn) = visitor.conn.take() else { continue };
        while let Some(part) = conn.out().take() {
            visitor.heard.extend_from_slice(part.in_memory().expect("no files"));
            conn.landed(game, &cx(visitor.id), part.len());
        }
        match conn.wants().close {
            true => conn.close(game, &cx(visitor.id)),
            false => visitor.conn = Some(conn),
        }
    }
    for push in effects.take_pushes() {
        let to = visitors.iter_mut().find(|visitor| visitor.id == push.to);
        if let Some(Visitor { conn: Some(conn), .. }) = to {
            let _ = conn.push(game, &cx(push.to), &push.bytes);
        }
    }
    visitors.iter_mut().for_each(|visitor| judge(game, visitor, at));
}

/// Reads received data, which must be whole packets.
fn judge(game: &Game, visitor: &mut Visitor, at: &str) {
    let heard = core::mem::take(&mut visitor.heard);
    let mut rest = &heard[..];
    while !rest.is_empty() {
        let (body, used) = front(rest, TELL_MAX).expect(at).expect("packets come whole");
        rest = &rest[used..];
        let free = |(x, y): Place| {
            assert!(game.terrain().grid().is_free(Cell::new(x, y)), "{at}: {x},{y} is blocked");
        };
        match Tell::read(body).unwrap_or_else(|bad| panic!("{at}: {bad}")) {
            Tell::Enter { id, role: Role::Player, at: place, .. }
            | Tell::Welcome { id, role: Role::Player, at: place, .. } => {
                free(place);
                visitor.seen.insert(id, place);
            }
            Tell::Moves { moved, .. } => {
                for one in moved {
                    free(one.at);
                    if let Some(before) = visitor.seen.insert(one.id, one.at) {
                        let far = before.0.abs_diff(one.at.0).max(before.1.abs_diff(one.at.1));
                        assert!(far == 1, "{at}: {before:?} to {:?} is no step", one.at);
                    }
                }
            }
            Tell::Path { turns, .. } => {
                turns.iter().for_each(|turn| free(*turn));
                assert_eq!(visitor.seen.get(&visitor.id.bits()), turns.first(), "{at}");
            }
            _ => {}
        }
    }
}
