//! The published figures of a portfolio on the parts of a game server.
//!
//! Four chapters: memory pools against `new` and `delete`; A* against jump point search; a network
//! library on completion ports before and after optimisation, with an echo server; a binary search
//! tree against a red-black tree and a list. Its tables are facts and are cited as such, its
//! conclusions are translated from the Korean. It was built with optimisation off, as its appendix
//! states; it gives no intervals and no repeated processes.

use stats::words;

/// The machine of every chapter.
const MACHINE: &str = "Ryzen 7 6800HS, Windows 11, Visual Studio 2022, Release build with \
    optimisation off, means of 500,000 (pools, trees) or 100,000 (paths) runs";

/// The source of chapter `number`.
pub fn source(number: u32, title: &str) -> String {
    format!(
        "Portfolio of a game server programmer, in Korean, chapter {number}, {title}. {MACHINE}"
    )
}

/// Sizes of objects, bytes.
pub const SIZES: [u32; 5] = [32, 64, 128, 256, 512];
/// Pairs of allocation and free; each figure below is the sum over them.
pub const PAIRS: u32 = 4_000;
/// Names of the five ways to allocate.
pub const WAYS: [&str; 5] =
    ["array, stack", "array, queue", "list, stack", "list, queue", "new/delete"];
/// Microseconds for [`PAIRS`] pairs, by way and size.
pub const PAIRS_US: [[f64; 5]; 5] = [
    [44.14, 42.54, 45.36, 45.24, 44.65],
    [47.01, 45.55, 49.06, 50.99, 49.47],
    [43.07, 43.70, 45.06, 45.31, 44.90],
    [47.75, 55.86, 48.76, 48.88, 50.98],
    [133.35, 179.55, 219.53, 197.23, 190.37],
];
/// Microseconds to free 2,000 of 4,000 in a fixed random order, by pool and size.
pub const FREES_US: [[f64; 5]; 4] = [
    [21.83, 20.78, 16.51, 16.06, 16.65],
    [16.64, 17.08, 24.21, 18.67, 18.28],
    [16.15, 16.14, 24.00, 16.57, 16.82],
    [16.60, 19.22, 16.83, 17.51, 17.60],
];
/// Sizes of objects that four threads shared, bytes.
pub const SHARED_SIZES: [u32; 3] = [16, 32, 128];
/// Microseconds for one of four threads to take, write and give back 1,000 objects of one pool: an
/// array, a list.
pub const SHARED_US: [[f64; 3]; 2] = [[160.75, 141.65, 144.44], [154.20, 143.73, 144.41]];
/// Bytes of an object, and microseconds for 10,000 times `new`, once, in a fresh program.
pub const COLD_US: [(u32, f64); 3] = [(4, 416.68), (32, 671.65), (128, 1178.89)];

/// One of the four path queries.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Its name.
    pub name: &'static str,
    /// Whether the query is on the maze.
    pub maze: bool,
    /// The goal; every search starts at (0, 0).
    pub goal: (u16, u16),
    /// Microseconds of A* and of JPS.
    pub us: [f64; 2],
    /// The length of a shortest path, from an independent search: the portfolio gives none.
    pub shortest: f64,
}

/// The four queries.
pub const QUERIES: [Query; 4] = [
    Query { name: "open, near", maze: false, goal: (20, 10), us: [157.8, 5.07], shortest: 24.1421 },
    Query {
        name: "open, far",
        maze: false,
        goal: (70, 35),
        us: [3_760.75, 20.43],
        shortest: 84.4975,
    },
    Query { name: "maze, near", maze: true, goal: (20, 10), us: [244.15, 6.60], shortest: 38.1421 },
    Query {
        name: "maze, far",
        maze: true,
        goal: (70, 35),
        us: [28_524.01, 52.63],
        shortest: 108.0122,
    },
];

/// Keys in the trees.
pub const KEYS: u32 = 2_000;
/// Keys that are looked for and erased.
pub const SOUGHT: u32 = 100;
/// Names of the three structures.
pub const TREES: [&str; 3] = ["list", "BST", "RBT"];
/// Microseconds to insert [`KEYS`] in random order, to find and to erase [`SOUGHT`] of them.
pub const TREES_US: [[f64; 3]; 3] =
    [[60.86, 793.12, 1_895.23], [186.51, 7.65, 14.03], [219.34, 6.87, 14.74]];

/// The echo server's monitors before and after the change: name, before, after.
pub const ECHO: [(&str, f64, f64); 8] = [
    ("server: receptions/s", 32_567.0, 55_867.0),
    ("server: most receptions in a second", 38_989.0, 83_205.0),
    ("server: bytes received/s", 16_306_660.0, 27_972_990.0),
    ("server: CPU, %", 22.74, 19.38),
    ("server: private bytes", 20_893_696.0, 135_053_312.0),
    ("client: messages sent/s", 1_899_983.0, 3_956_455.0),
    ("client: messages received/s", 1_900_199.0, 3_956_762.0),
    ("client: highest latency, ms", 13.0, 4.0),
];

/// A published table of times: a name, and a number for each column.
pub fn table<const N: usize>(
    rows: impl IntoIterator<Item = (&'static str, [f64; N])>,
) -> Vec<Vec<String>> {
    let row = |(name, values): (&str, [f64; N])| {
        [name.to_string()].into_iter().chain(values.map(words::number)).collect()
    };
    rows.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_factors_are_those_that_were_concluded() {
        // "Three to four times": from 3.0 to 4.8.
        let factors = PAIRS_US[..4].iter().flat_map(|way| way.iter().zip(PAIRS_US[4]));
        let factors: Vec<f64> = factors.map(|(pool, heap)| heap / pool).collect();
        let least = factors.iter().copied().fold(f64::INFINITY, f64::min);
        let most = factors.iter().copied().fold(0.0, f64::max);
        assert!((2.7..3.1).contains(&least) && (4.7..5.0).contains(&most), "{least} {most}");
        // 31, 184, 37 and 542 times.
        let paths = QUERIES.map(|it| (it.us[0] / it.us[1]).round() as u32);
        assert_eq!(paths, [31, 184, 37, 542]);
    }
}
