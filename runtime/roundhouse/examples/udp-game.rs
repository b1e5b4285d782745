//! Positions of players: each sends its own as text, `X Y`, and twenty times a second everybody who
//! spoke in the last two seconds gets the positions of all, a line each. The address of a player is
//! its name.

#![forbid(unsafe_code)]

use roundhouse::prelude::*;
use std::fmt::Write;
use std::net::SocketAddr;

const TICK: Duration = Duration::from_millis(50);
const SILENCE: Duration = Duration::from_secs(2);
/// Players at one time. A line has at most 70 bytes, so that all fit a datagram, and with two
/// copies of them the output of a tick.
const PLAYERS: usize = 128;

share! {
    #[derive(Clone, Copy)]
    struct Player {
        x: i32,
        y: i32,
        heard_ns: u64,
    }
}

share! {
    struct World {
        /// By address, as text.
        players: Map<Bytes<48>, Player, PLAYERS>,
    }
}

struct Game;

fn position(text: &[u8]) -> Option<(i32, i32)> {
    let (x, y) = str::from_utf8(text).ok()?.trim().split_once(' ')?;
    Some((x.parse().ok()?, y.parse().ok()?))
}

impl Datagrams for Game {
    type State = World;

    fn limits(&self) -> DatagramLimits {
        DatagramLimits { datagram_max: 70 * PLAYERS, output_max: 2 * 70 * PLAYERS * PLAYERS }
    }

    fn receive(&self, cx: &Cx<'_, World>, from: SocketAddr, datagram: &[u8], _: &mut Replies) {
        let Some((x, y)) = position(datagram) else { return };
        let Some(name) = Bytes::new(from.to_string()) else { return };
        let player = Player { x, y, heard_ns: cx.now.ns() };
        // A player beyond the limit is not seen.
        if cx.state.players.insert(cx.worker, name, player).is_ok() {
            cx.answered(1);
        }
    }

    fn tick(&self, cx: &Cx<'_, World>, out: &mut Replies) -> Option<Instant> {
        let (mut all, mut players, mut silent) = (String::new(), Vec::new(), Vec::new());
        cx.state.players.for_each(cx.worker, |name, player| {
            if cx.now.since(Instant::from_ns(player.heard_ns)) > SILENCE {
                silent.push(*name);
            } else if let Ok(name) = str::from_utf8(name) {
                let _ = writeln!(all, "{name} {} {}", player.x, player.y);
                players.extend(name.parse::<SocketAddr>());
            }
        });
        for name in silent {
            cx.state.players.remove(cx.worker, &name);
        }
        for player in players {
            out.send(player, all.as_bytes());
        }
        Some(cx.now + TICK)
    }
}

fn main() -> ExitCode {
    udp(Game).main()
}
