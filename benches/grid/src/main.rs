//! Path searches on the MovingAI maps named by `ROUNDHOUSE_MAPS`, against two peers and each other.
//!
//! ```text
//!   JPS  against the crate `grid_pathfinding`   arena2, under its rule: any corner may be cut
//!   A*   against the crate `pathfinding`        arena2 and den312d, no corner cut
//!   JPS and JPS+ against our own A*             every map, for the record
//! ```
//!
//! The lengths come first: before any timing, each arm's answers are compared with the lengths of
//! our oracle, and a peer's errors are printed beside its time. Every arm returns whole paths, cell
//! by cell. Times are processor time of the single working thread.

mod peers;

use std::hint::black_box;
use std::path::{Path, PathBuf};

use grid::movingai::{Map, Query, scenario};
use grid::{Always, Cell, Grid, Jumps, Method, NoObstacle, Rule, Searcher, oracle};
use paired::{Arm, Rounds, ns_each};

/// Rounds of a claim, and of a line for the record.
const ROUNDS: usize = 21;
const ROUNDS_RECORD: usize = 6;
/// The maximum number of queries a round; a maze of six thousand would only take longer.
const QUERIES_MAX: usize = 100;

/// A map with queries, spread over its whole scenario.
struct Course {
    name: String,
    grid: Grid,
    queries: Vec<Query>,
}

impl Course {
    fn read(file: &Path) -> Course {
        let name = file.file_name().unwrap_or_default().to_string_lossy().replace(".map.scen", "");
        let map = std::fs::read(file.with_extension("")).expect("a map lies beside its scenario");
        let map = Map::parse(&map).expect("the map is one");
        let queries = std::fs::read(file).expect("the scenario can be read");
        let mut queries = scenario(&queries).expect("the scenario is one");
        let every = queries.len().div_ceil(QUERIES_MAX);
        queries = queries.into_iter().rev().step_by(every).collect();
        Course { name, grid: map.grid().expect("a map is a grid"), queries }
    }

    /// Nanoseconds a query that `find` takes; it returns how many cells its path has.
    fn ns(&self, mut find: impl FnMut(Cell, Cell) -> usize) -> f64 {
        ns_each(self.queries.len() as u64, || {
            for query in &self.queries {
                black_box(find(query.from, query.to));
            }
        })
    }

    /// The true length of a query: as published for the rule of the sets, otherwise by Dijkstra.
    fn length<R: Rule>(&self, query: &Query) -> f64 {
        if R::CORNERS == NoObstacle::CORNERS {
            return query.length;
        }
        let to = usize::from(query.to.y) * usize::from(self.grid.width()) + usize::from(query.to.x);
        let costs = oracle::costs(&self.grid, R::CORNERS, query.from);
        value(costs[to].expect("it can be reached"))
    }
}

fn value(pair: oracle::Pair) -> f64 {
    f64::from(pair.straight) + f64::from(pair.diagonal) * std::f64::consts::SQRT_2
}

/// One of our methods: the number of cells of the path.
fn ours<R: Rule>(
    searcher: &mut Searcher<R>,
    grid: &Grid,
    method: Method<'_, R>,
    (from, to): (Cell, Cell),
) -> usize {
    let path = searcher.find(grid, method, from, to).expect("both cells are free");
    path.map_or(0, |path| path.steps().map(black_box).count())
}

/// Prints how many of `paths` have the right length, are too long, or not legal.
fn judge<R: Rule>(name: &str, course: &Course, find: impl Fn(Cell, Cell) -> Vec<Cell>) {
    let (mut optimal, mut long, mut illegal, mut worst) = (0, 0, 0, 1.0_f64);
    for query in &course.queries {
        let truth = course.length::<R>(query);
        match oracle::walk(&course.grid, R::CORNERS, find(query.from, query.to)) {
            Ok(found) if (value(found) - truth).abs() <= query.tolerance => optimal += 1,
            Ok(found) => {
                long += 1;
                worst = worst.max(value(found) / truth);
            }
            Err(_) => illegal += 1,
        }
    }
    let name = format!("{name} on {}", course.name);
    println!("{name:<44} optimal {optimal}, too long {long} (worst {worst:.4}), illegal {illegal}");
}

/// JPS under the rule of `grid_pathfinding`, against it.
fn jps(course: &Course) {
    let peer = peers::Jumper::new(&course.grid);
    judge::<Always>("grid_pathfinding", course, |from, to| peer.path(from, to));
    let mut searcher = Searcher::<Always>::new();
    let mut arms = [
        Arm::new("ours", || {
            course.ns(|from, to| ours(&mut searcher, &course.grid, Method::Jps, (from, to)))
        }),
        Arm::new("theirs", || course.ns(|from, to| peer.path(from, to).len())),
    ];
    claim(&format!("JPS / grid_pathfinding, {}", course.name), 0.25, &mut arms);
}

/// A* without corner cutting, against `pathfinding`.
fn astar(course: &Course) {
    let peer = peers::Generic::new(&course.grid);
    judge::<NoObstacle>("pathfinding", course, |from, to| peer.path(from, to));
    let mut searcher = Searcher::<NoObstacle>::new();
    let mut arms = [
        Arm::new("ours", || {
            course.ns(|from, to| ours(&mut searcher, &course.grid, Method::AStar, (from, to)))
        }),
        Arm::new("theirs", || course.ns(|from, to| peer.path(from, to).len())),
    ];
    claim(&format!("A* / pathfinding, {}", course.name), 0.15, &mut arms);
}

fn claim(name: &str, goal: f64, arms: &mut [Arm<'_>]) {
    let rounds = Rounds::run(arms, ROUNDS, 1);
    let ratio = rounds.ratio("ours", "theirs");
    println!(
        "{name:<44} {ratio}  goal {goal:.2}: {}  (ours {:.1} us, theirs {:.1} us a query)",
        ratio.against(goal),
        rounds.median("ours") / 1e3,
        rounds.median("theirs") / 1e3,
    );
}

/// JPS and JPS+ against our own A*, without corner cutting. There is no goal, because a slow A*
/// would flatter them.
fn record(course: &Course) -> [f64; 2] {
    let table = Jumps::<NoObstacle>::of(&course.grid);
    let methods = [Method::AStar, Method::Jps, Method::JpsPlus(&table)];
    let names = ["A*", "JPS", "JPS+"];
    let mut searchers = [const { None }; 3].map(|_: Option<()>| Searcher::<NoObstacle>::new());
    let mut expanded = [0; 3];
    for ((method, searcher), expanded) in methods.iter().zip(&mut searchers).zip(&mut expanded) {
        for query in &course.queries {
            ours(searcher, &course.grid, *method, (query.from, query.to));
            *expanded += u64::from(searcher.stats().expanded);
        }
    }
    let arms = methods.iter().zip(&mut searchers).zip(names).map(|((method, searcher), name)| {
        Arm::new(name, move || {
            course.ns(|from, to| ours(searcher, &course.grid, *method, (from, to)))
        })
    });
    let mut arms: Vec<Arm<'_>> = arms.collect();
    let rounds = Rounds::run(&mut arms, ROUNDS_RECORD, 2);
    let [astar, jps, plus] = names.map(|name| rounds.median(name) / 1e3);
    let share = |at: usize| expanded[at] as f64 / course.queries.len() as f64;
    println!(
        "{:<16} {:016x} {:>4}  {astar:>9.1} {jps:>8.1} {plus:>8.1}   {} {}   {:>8.0} {:>6.0} \
         {:>6.0}",
        course.name,
        course.grid.fingerprint(),
        course.queries.len(),
        rounds.ratio("JPS", "A*"),
        rounds.ratio("JPS+", "A*"),
        share(0),
        share(1),
        share(2),
    );
    [rounds.ratio("JPS", "A*").median, rounds.ratio("JPS+", "A*").median]
}

fn main() {
    let folder = std::env::var_os("ROUNDHOUSE_MAPS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/maps"),
        PathBuf::from,
    );
    let entries = std::fs::read_dir(&folder).expect("ROUNDHOUSE_MAPS names a folder of maps");
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "scen"));
    files.sort();
    let courses: Vec<Course> = files.iter().map(|file| Course::read(file)).collect();
    for course in &courses {
        if course.name == "arena2" {
            jps(course);
        }
        if course.name == "arena2" || course.name == "den312d" {
            astar(course);
        }
    }
    println!(
        "\n{:<16} {:<16} {:>4}  {:>9} {:>8} {:>8}   {:<20} {:<20}   cells expanded a query",
        "map", "fingerprint", "n", "A* us", "JPS us", "JPS+ us", "JPS / A*", "JPS+ / A*"
    );
    let all: Vec<[f64; 2]> = courses.iter().map(record).collect();
    let mean = |at: usize| {
        let logs = all.iter().map(|ratios: &[f64; 2]| ratios[at].ln()).sum::<f64>();
        (logs / all.len().max(1) as f64).exp()
    };
    println!("geometric mean: JPS {:.3}, JPS+ {:.3} of A*", mean(0), mean(1));
    println!(
        "doubt: one machine, one thread, queries from one scenario a map, grids warm in cache"
    );
}
