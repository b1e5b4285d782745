//! One suite for every engine: the real binary, real sockets, real signals.
//!
//! A test is a function over an [`arms::Arm`], a point of the space of architectures. It is written
//! once, and mounted on each arm that can pass it: `cargo test -p cli --test it prefork::` runs all
//! of one engine, `cargo test -p cli --test it reset_storm` one test of all. The groups below say
//! who must pass what. `ROUNDHOUSE_SOAK=1` lengthens the storms.

mod arms;
mod crash;
mod handover;
mod harness;
mod market;
mod probe;
mod refusals;
mod rings;
mod save;
mod scarce;
mod slow;
mod stock;
mod storm;
mod term;
mod transcript;
mod words;

/// Makes each function of a module a test of the arm.
macro_rules! tests {
    ($arm:ident, $($file:ident: $($test:ident),+ $(,)?;)+) => {
        $($(
            #[test]
            fn $test() {
                crate::arms::$arm.run(crate::$file::$test);
            }
        )+)+
    };
}

/// What every engine does.
macro_rules! every {
    ($arm:ident) => {
        tests! { $arm,
            probe: splits_at_every_byte, one_byte_at_a_time, random_scripts,
                random_scripts_in_narrow_bounds, pipelined_bursts, great_replies, half_close,
                a_line_too_long, bye, deadlines, patience_with_the_silent,
                one_state_for_all_workers, the_world_ticks, bytes_for_another_session,
                everyone_hears_of_the_drain;
            stock: golden_sessions, course_clients, course_crowd, an_overlong_line, a_big_book;
            slow: a_reader_that_never_reads, a_slow_reader_gets_every_byte, the_idle_are_sent_home;
            storm: reset_storm, who_never_closes_is_cut, churn;
            crash: supervisor_killed;
            term: stopped_under_load, interrupted_under_load, the_second_signal_forces,
                the_drain_has_an_end, a_deaf_client_is_cut_when_forced, a_draining_house_is_closed,
                a_hangup_is_no_end;
            save: saved_when_the_last_client_is_gone, saved_at_intervals, saved_at_the_end,
                never_torn, a_full_disk, a_read_only_directory, foreign_books;
            handover: no_request_fails, who_is_inside_stays;
            words: verbose, silent_by_default, timer;
        }
    };
}

/// What those do that serve several clients at one time.
macro_rules! crowd {
    ($arm:ident) => {
        tests! { $arm, slow: the_greedy_do_not_starve_the_rest; }
    };
}

/// What those do that serve many clients in one loop.
macro_rules! loops {
    ($arm:ident) => {
        tests! { $arm,
            scarce: descriptors_run_out, the_limit_opens_an_eighth_below,
                the_limit_holds_for_all_workers;
        }
    };
}

/// What those do whose workers have one client at a time.
macro_rules! blocking {
    ($arm:ident) => {
        tests! { $arm, scarce: descriptors_are_taken_away; }
    };
}

/// What those do whose workers are processes.
macro_rules! processes {
    ($arm:ident) => {
        tests! { $arm,
            crash: workers_killed_under_load, workers_killed_under_a_global_lock,
                a_killed_worker_is_replaced, saved_after_a_worker_died_with_its_clients,
                workers_ignore_interrupts;
        }
    };
}

/// What those do whose idle workers all wait at one listener, each ready to take the next.
macro_rules! sharing {
    ($arm:ident) => {
        tests! { $arm, crash: a_frozen_worker_delays_nobody_else; }
    };
}

/// What those do whose state lies in private memory unless they are told otherwise.
macro_rules! private {
    ($arm:ident) => {
        tests! { $arm, handover: refused_with_private_state; }
    };
}

/// Mounts groups of tests on arms, a module for each arm.
macro_rules! mount {
    ($($engine:ident = $arm:ident: $($group:ident),+;)+) => {
        $(mod $engine {
            $($group!($arm);)+
        })+
    };
}

mount! {
    iterative = ITERATIVE: every, blocking, private;
    epoll = EPOLL: every, crowd, loops, private;
    epoll_edge = EPOLL_EDGE: every, crowd, loops, private;
    prefork = PREFORK: every, crowd, blocking, processes, sharing;
    uring = URING: every, crowd, loops, private;
    uring_own = URING_OWN: every, crowd, loops, private;
    uring_calls = URING_CALLS: every, crowd, loops, private;
    processes_uring = PROCESSES_URING: every, crowd, loops, processes, sharing;
    processes_uring_once = PROCESSES_URING_ONCE: loops, processes;
    processes_reuseport = PROCESSES_REUSEPORT: loops, processes;
    threads_epoll = THREADS_EPOLL: every, crowd, loops, private;
    processes_epoll = PROCESSES_EPOLL: every, crowd, loops, processes, sharing;
    threads_blocking = THREADS_BLOCKING: every, crowd, blocking, private;
    fork = FORK: every, crowd, blocking;
    thread = THREAD: every, crowd, blocking, private;
    pool = POOL: every, crowd, blocking, private;
    select = SELECT: every, crowd, loops, private;
    poll = POLL: every, crowd, loops, private;
    prefork_lock = PREFORK_LOCK: every, crowd, blocking, processes;
    prefork_pass = PREFORK_PASS: every, crowd, blocking, processes;
    processes_exclusive = PROCESSES_EXCLUSIVE: loops, processes, sharing;
    processes_pass = PROCESSES_PASS: every, crowd, loops, processes;
    processes_pass_uring = PROCESSES_PASS_URING: every, crowd, loops, processes;
    threads_handoff = THREADS_HANDOFF: every, crowd, loops, private;
}
