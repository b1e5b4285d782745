//! The corner rules as types, and the tables that follow from them for each neighbourhood.
//!
//! Directions are numbered clockwise from north: even ones are straight, odd ones diagonal. A
//! neighbourhood is nine bits, row by row. Every question of a search about one cell is a look-up
//! in a table of 512 entries that the compiler fills from the definitions below.
//!
//! The successors are those of Harabor and Grastien ("Online Graph Pruning for Pathfinding on Grid
//! Maps", AAAI 2011; "The JPS Pathfinding System", SoCS 2012, without corner cutting). Among paths
//! of equal length one is kept: the one that goes diagonally first, or, where there are only four
//! neighbours, vertically first. A neighbour is *natural* if that order says so, and *forced* if an
//! obstacle stands where the path would otherwise have gone.

use std::fmt;

/// Which diagonal steps are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}", self.name())]
pub enum Corners {
    /// Wherever the target is free, even between two obstacles.
    Always,
    /// With at most one obstacle at the two corners that the step touches.
    OneObstacle,
    /// With no obstacle there: the rule of the MovingAI sets.
    NoObstacle,
    /// None: a cell has four neighbours.
    FourNeighbour,
}

impl Corners {
    /// All rules, the freest first.
    pub const ALL: [Corners; 4] =
        [Corners::Always, Corners::OneObstacle, Corners::NoObstacle, Corners::FourNeighbour];

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Corners::Always => "always",
            Corners::OneObstacle => "one-obstacle",
            Corners::NoObstacle => "no-obstacle",
            Corners::FourNeighbour => "four",
        }
    }

    /// Whether two cells that touch only at a corner can be neighbours on a path.
    pub(crate) const fn joins_corners(self) -> bool {
        matches!(self, Corners::Always)
    }
}

/// The offset of one step in each direction, in columns and rows.
pub(crate) const STEP: [(i32, i32); 8] =
    [(0, -1), (1, -1), (1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1)];
/// No direction: a search begins here, and every neighbour is a successor.
pub(crate) const NOWHERE: usize = 8;
/// The bit of each direction in a neighbourhood.
const BIT: [u32; 8] = [1, 2, 5, 8, 7, 6, 3, 0];

/// The direction `turns` eighths clockwise of `direction`.
pub(crate) const fn turned(direction: usize, turns: usize) -> usize {
    (direction + turns) % 8
}

const fn is_free(around: usize, direction: usize) -> bool {
    around >> BIT[direction] & 1 == 1
}

/// The legal steps from a cell, a bit for each direction.
const fn moves_of(corners: Corners, around: usize) -> u8 {
    let mut moves = 0;
    let mut direction = 0;
    while direction < 8 {
        let sides = is_free(around, turned(direction, 7)) as u8
            + is_free(around, turned(direction, 1)) as u8;
        let fits = direction % 2 == 0
            || match corners {
                Corners::Always => true,
                Corners::OneObstacle => sides >= 1,
                Corners::NoObstacle => sides == 2,
                Corners::FourNeighbour => false,
            };
        if fits && is_free(around, direction) {
            moves |= 1 << direction;
        }
        direction += 1;
    }
    moves
}

/// The natural directions of a path that came in `direction`.
const fn natural(corners: Corners, direction: usize) -> u8 {
    let ahead = 1 << direction;
    let walks = walks(corners);
    if walks >> direction & 1 == 0 {
        return ahead;
    }
    let turn = turn(corners);
    ahead | 1 << turned(direction, turn) | 1 << turned(direction, 8 - turn)
}

/// The directions that an obstacle next to or behind the path makes necessary.
const fn forced(corners: Corners, direction: usize, around: usize) -> u8 {
    let mut forced = 0;
    let mut side = 0;
    while side < 2 {
        // The left side first, then the right one as its mirror image.
        let sign = if side == 0 { 7 } else { 1 };
        let at = [
            direction,
            turned(direction, sign),
            turned(direction, sign * 2),
            turned(direction, sign * 3),
        ];
        let diagonal = direction % 2 == 1;
        let beside = !is_free(around, at[2]);
        let behind = !is_free(around, at[3]);
        forced |= match corners {
            Corners::Always | Corners::OneObstacle if diagonal => (behind as u8) << at[2],
            Corners::Always | Corners::OneObstacle => (beside as u8) << at[1],
            Corners::NoObstacle if diagonal => 0,
            Corners::NoObstacle => (behind as u8) << at[2] | (behind as u8) << at[1],
            Corners::FourNeighbour if direction == 2 || direction == 6 => (behind as u8) << at[2],
            Corners::FourNeighbour => 0,
        };
        side += 1;
    }
    forced & moves_of(corners, around)
}

/// The directions in which a search walks cell by cell and looks aside; in the others it runs.
const fn walks(corners: Corners) -> u8 {
    match corners {
        Corners::FourNeighbour => 0b0001_0001,
        _ => 0b1010_1010,
    }
}

/// The eighths between a direction of walking and the two in which it looks aside.
const fn turn(corners: Corners) -> usize {
    match corners {
        Corners::FourNeighbour => 2,
        _ => 1,
    }
}

const fn moves_table(corners: Corners) -> [u8; 512] {
    let mut table = [0; 512];
    let mut around = 0;
    while around < 512 {
        table[around] = moves_of(corners, around);
        around += 1;
    }
    table
}

const fn forced_table(corners: Corners) -> [[u8; 512]; 8] {
    let mut table = [[0; 512]; 8];
    let mut direction = 0;
    while direction < 8 {
        let mut around = 0;
        while around < 512 {
            table[direction][around] = forced(corners, direction, around);
            around += 1;
        }
        direction += 1;
    }
    table
}

/// The successors by direction of entry (the last is [`NOWHERE`]) and by neighbourhood.
const fn successors_table(corners: Corners) -> [[u8; 512]; 9] {
    let mut table = [[0; 512]; 9];
    let mut around = 0;
    while around < 512 {
        let moves = moves_of(corners, around);
        table[NOWHERE][around] = moves;
        let mut direction = 0;
        while direction < 8 {
            let goes_on = natural(corners, direction) & moves;
            table[direction][around] = goes_on | forced(corners, direction, around);
            direction += 1;
        }
        around += 1;
    }
    table
}

/// Precomputed tables of a rule, for the searches in this crate only.
pub trait Tables {
    const RULE: Corners;
    /// Legal steps by neighbourhood.
    const MOVES: &'static [u8; 512] = &moves_table(Self::RULE);
    /// Forced successors by direction and neighbourhood.
    const FORCED: &'static [[u8; 512]; 8] = &forced_table(Self::RULE);
    /// Successors by direction of entry and neighbourhood: one look-up for each cell.
    const SUCCESSORS: &'static [[u8; 512]; 9] = &successors_table(Self::RULE);
    const WALKS: u8 = walks(Self::RULE);
    /// Eighths to look aside.
    const TURN: usize = turn(Self::RULE);

    /// The directions in which a search leaves a cell that it entered in `direction`.
    #[inline]
    fn successors(direction: usize, around: usize) -> u8 {
        Self::SUCCESSORS[direction][around]
    }

    /// The cells of a run towards higher bits that have a forced neighbour in the row `beside`.
    #[inline]
    fn forced_forward(beside: u64, here: u64) -> u64 {
        match Self::RULE {
            Corners::Always => !beside & beside >> 1,
            Corners::OneObstacle => !beside & beside >> 1 & here >> 1,
            Corners::NoObstacle | Corners::FourNeighbour => beside & !beside << 1,
        }
    }

    /// The same towards lower bits.
    #[inline]
    fn forced_backward(beside: u64, here: u64) -> u64 {
        match Self::RULE {
            Corners::Always => !beside & beside << 1,
            Corners::OneObstacle => !beside & beside << 1 & here << 1,
            Corners::NoObstacle | Corners::FourNeighbour => beside & !beside >> 1,
        }
    }
}

/// A rule as a type: [`Always`], [`OneObstacle`], [`NoObstacle`] or [`FourNeighbour`].
pub trait Rule: Tables + Copy + Default + fmt::Debug + Send + Sync + 'static {
    /// The rule as a value.
    const CORNERS: Corners = <Self as Tables>::RULE;
}

macro_rules! rules {
    ($($(#[$what:meta])* $name:ident;)*) => {$(
        $(#[$what])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name;

        impl Tables for $name {
            const RULE: Corners = Corners::$name;
        }

        impl Rule for $name {}
    )*};
}

rules! {
    /// [`Corners::Always`] as a type.
    Always;
    /// [`Corners::OneObstacle`] as a type.
    OneObstacle;
    /// [`Corners::NoObstacle`] as a type.
    NoObstacle;
    /// [`Corners::FourNeighbour`] as a type.
    FourNeighbour;
}
