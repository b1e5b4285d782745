//! The published figures of a study of Apache's thread pool.
//!
//! Jeon, Lee and Kang measured Apache 2.0.45 on a Pentium III of 1 GHz. Their figures 3 to 10 are
//! drawings whose numbers are not printed; the tables are. The conclusions are translated from the
//! Korean.

use super::servers::Directives;
use crate::draft::Part;
use std::time::Duration;

/// The source.
pub const SOURCE: &str = "H. S. Jeon, S. W. Lee, H. K. Kang: Analysis of Multi-thread Pool \
    Utilization Scheme on the Apache Web Server, Journal of KISS 32(1), 2005 (Apache 2.0.45, \
    Pentium III 1 GHz, Red Hat 8.0; two machines)";

/// Clients of the first experiment (table 2).
pub const CLIENTS: [u32; 4] = [10, 40, 70, 100];
/// Its length.
pub const SPAN: Duration = Duration::from_secs(120);
/// Its computing.
pub const WORK: Duration = Duration::from_millis(200);
/// Computing of the second experiment (tables 3 and 4), seconds.
pub const WORKS_S: [u32; 5] = [2, 4, 6, 8, 10];
/// Its clients.
pub const WORK_CLIENTS: u32 = 50;
/// Its length.
pub const WORK_SPAN: Duration = Duration::from_secs(1_200);
/// Requests answered at each of [`WORKS_S`], the same for processes and threads (table 4).
pub const ANSWERED: [u32; 5] = [600, 300, 200, 150, 100];

/// Requests of the rounds that fit into the second experiment, if all clients compute side by side.
pub fn whole_rounds(seconds: u32) -> u32 {
    WORK_CLIENTS * (WORK_SPAN.as_secs() as u32 / (WORK_CLIENTS * seconds))
}

/// Table 5, mostly threads.
pub const THREADS: Directives = Directives {
    name: "mostly threads",
    processes_max: 3,
    start: 1,
    workers: 150,
    spare_min: 25,
    spare_max: 75,
    threads: 50,
};
/// Table 5, mostly processes.
pub const PROCESSES: Directives = Directives {
    name: "mostly processes",
    processes_max: 150,
    start: 50,
    workers: 150,
    spare_min: 25,
    spare_max: 75,
    threads: 1,
};
/// Table 6: the same without maintenance of spares.
pub const THREADS_FIXED: Directives =
    Directives { name: "threads, fixed", start: 3, spare_min: 150, spare_max: 150, ..THREADS };
/// Table 6: the same without maintenance of spares.
pub const PROCESSES_FIXED: Directives = Directives {
    name: "processes, fixed",
    start: 150,
    spare_min: 150,
    spare_max: 150,
    ..PROCESSES
};

/// Table 1, from Yeom, Chong and Noh: share of dynamic documents (%), switches of Apache 1.3's
/// processes, of Apache 2.0's processes and threads, and the equivalence ratio as printed.
pub const SWITCHES: [(u32, u32, u32, u32, Option<f64>); 11] = [
    (100, 50_902, 50_214, 31_068, Some(0.02)),
    (90, 48_336, 49_995, 27_107, None),
    (80, 47_754, 44_762, 31_236, Some(0.10)),
    (70, 49_503, 44_203, 32_690, Some(0.16)),
    (60, 49_490, 42_461, 33_827, Some(0.21)),
    (50, 48_351, 39_351, 33_218, Some(0.27)),
    (40, 42_473, 30_681, 32_990, Some(0.36)),
    (30, 40_721, 26_980, 30_960, Some(0.44)),
    (20, 45_229, 22_906, 30_954, Some(0.72)),
    (10, 47_018, 22_862, 30_040, Some(0.80)),
    (0, 43_842, 13_965, 40_377, Some(0.74)),
];

/// The published equivalence ratio: the cost of a thread switch, as a share of a process switch, at
/// which both servers spend the same on switching. `None` if the threaded server has more process
/// switches than the other.
pub fn equivalence(processes: f64, hybrid_processes: f64, hybrid_threads: f64) -> Option<f64> {
    let left = processes - hybrid_processes;
    (left >= 0.0 && hybrid_threads > 0.0).then(|| left / hybrid_threads)
}

/// Directives as a table, a column each.
pub fn table(all: &[Directives]) -> Part {
    let mut part =
        Part { head: all.iter().map(|it| it.name.to_string()).collect(), ..Part::default() };
    for (at, (name, _)) in THREADS.rows().into_iter().enumerate() {
        let cells = all.iter().map(|it| it.rows()[at].1.to_string());
        part.rows.push([name.to_string()].into_iter().chain(cells).collect());
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_ratios_are_those_of_the_printed_counts() {
        for (dynamic, processes, hybrid, threads, printed) in SWITCHES {
            let found = equivalence(processes.into(), hybrid.into(), threads.into());
            let near =
                found.zip(printed).is_none_or(|(found, printed)| (found - printed).abs() < 0.011);
            assert!(near && found.is_some() == printed.is_some(), "{dynamic} %: {found:?}");
        }
    }

    #[test]
    fn the_directives_start_and_end_with_as_many_threads() {
        for [threads, processes] in [[THREADS, PROCESSES], [THREADS_FIXED, PROCESSES_FIXED]] {
            assert_eq!(threads.start * threads.threads, processes.start * processes.threads);
            assert_eq!(threads.processes_max * threads.threads, threads.workers);
        }
        assert_eq!(table(&[THREADS, PROCESSES]).rows[5], ["ThreadsPerChild", "50", "1"]);
    }
}
