//! The client's view of the world, as packets describe it.

use super::link::Link;
use ::game::packet::{Ask, Bye, NoWay, Place, Role, Tell};
use anyhow::{Result, bail};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How long joining may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Rows that one packet requests.
const ROWS: u16 = 64;
/// Lines of talk that are kept.
const TALK_MAX: usize = 100;

/// A player or spectator.
#[derive(Clone, Debug)]
pub struct Guest {
    pub role: Role,
    pub at: Place,
    pub name: String,
}

/// The world as far as packets describe it.
#[derive(Default)]
pub struct Scene {
    pub me: u64,
    pub role: Option<Role>,
    pub size: Place,
    pub tick_ms: u16,
    pub tick: u32,
    pub guests: BTreeMap<u64, Guest>,
    /// The rest of the route, the present place first.
    pub way: Vec<Place>,
    /// Messages and events, the latest last.
    pub talk: VecDeque<String>,
    /// Why the connection is over.
    pub bye: Option<Bye>,
    /// An unknown session moved: the list of sessions must be fetched.
    pub is_lost: bool,
    rows: Vec<Option<Vec<u8>>>,
}

impl Scene {
    /// Waits for the welcome and the whole map.
    pub fn meet(&mut self, link: &mut Link) -> Result<()> {
        let mut asked = 0;
        loop {
            let Some(tell) = link.tell(PATIENCE)? else { bail!("it does not answer") };
            self.hear(tell);
            if let Some(why) = self.bye {
                bail!("{}", goodbye(why));
            }
            let known = self.rows.iter().take_while(|row| row.is_some()).count() as u16;
            if self.role.is_none() {
                continue;
            }
            if known == self.size.1 {
                return Ok(());
            }
            if known == asked {
                link.ask(&Ask::Rows { first: known, count: ROWS })?;
                asked = known.saturating_add(ROWS).min(self.size.1);
            }
        }
    }

    /// Applies a packet.
    pub fn hear(&mut self, tell: Tell) {
        match tell {
            Tell::Welcome { role, id, size, tick_ms, at, .. } => {
                (self.me, self.role, self.size, self.tick_ms) = (id, Some(role), size, tick_ms);
                self.rows = vec![None; usize::from(size.1)];
                self.guests.insert(id, Guest { role, at, name: "you".to_owned() });
            }
            Tell::Row { row, bits } => {
                if let Some(known) = self.rows.get_mut(usize::from(row)) {
                    *known = Some(bits);
                }
            }
            Tell::Enter { id, role, at, name } => {
                if id != self.me && self.guests.insert(id, Guest { role, at, name }).is_none() {
                    let text = format!("{} is here", self.name(id));
                    self.note(text);
                }
            }
            Tell::Leave(id) => {
                let text = format!("{} has left", self.name(id));
                if self.guests.remove(&id).is_some() {
                    self.note(text);
                }
            }
            Tell::Moves { tick, moved } => {
                self.tick = tick;
                for one in moved {
                    match self.guests.get_mut(&one.id) {
                        Some(guest) => guest.at = one.at,
                        None => self.is_lost = true,
                    }
                    if one.id == self.me && self.way.get(1) == Some(&one.at) {
                        self.way.remove(0);
                    }
                }
            }
            Tell::Path { is_exact, is_cut, turns, .. } => {
                if !is_exact {
                    self.note("that cannot be reached; this is as near as one gets".to_owned());
                } else if is_cut {
                    self.note("a long way: ask again at its end".to_owned());
                }
                self.way = turns;
            }
            Tell::NoWay(NoWay::Outside) => self.note("that is not on the map".to_owned()),
            Tell::NoWay(NoWay::Spectator) => self.note("spectators cannot walk".to_owned()),
            Tell::Said { from, to, text } => {
                let to = if to == 0 { "" } else { " to you" };
                let text = format!("{}{to}: {text}", self.name(from));
                self.note(text);
            }
            Tell::Pong(_) => self.note("the server is there".to_owned()),
            Tell::Bye(why) => self.bye = Some(why),
        }
    }

    /// The player's place.
    pub fn here(&self) -> Place {
        self.guests.get(&self.me).map_or((0, 0), |guest| guest.at)
    }

    /// Whether the player is at the end of the path.
    pub fn has_arrived(&self) -> bool {
        self.way.last().is_none_or(|end| *end == self.here())
    }

    /// Whether a place is free, as far as is known.
    pub fn is_free(&self, (x, y): Place) -> bool {
        let row = self.rows.get(usize::from(y)).and_then(Option::as_ref);
        x < self.size.0
            && row
                .and_then(|bits| bits.get(usize::from(x / 8)))
                .is_some_and(|byte| byte >> (x % 8) & 1 == 1)
    }

    /// The name of a session, or its id.
    pub fn name(&self, id: u64) -> String {
        match self.guests.get(&id) {
            Some(guest) => guest.name.clone(),
            None => format!("session {id}"),
        }
    }

    /// Each cell of the rest of the route.
    pub fn steps(&self) -> Vec<Place> {
        let mut cells = Vec::new();
        let mut at = self.here();
        for &turn in self.way.iter().skip(1) {
            while at != turn {
                let step = |from: u16, to: u16| {
                    from.saturating_add_signed(i16::from(to > from) - i16::from(to < from))
                };
                at = (step(at.0, turn.0), step(at.1, turn.1));
                cells.push(at);
            }
        }
        cells
    }

    fn note(&mut self, text: String) {
        if self.talk.len() == TALK_MAX {
            self.talk.pop_front();
        }
        self.talk.push_back(text);
    }
}

/// The text for a reason.
pub fn goodbye(why: Bye) -> &'static str {
    match why {
        Bye::BadPacket => "it received a malformed packet",
        Bye::NotJoined => "it expected us to join first",
        Bye::Full => "it is full",
        Bye::Drain => "it is stopping",
        Bye::Operator => "its operator has ended this connection",
    }
}
