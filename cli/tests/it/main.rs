//! One suite for every engine: the real binary, real sockets, real signals.
//!
//! A test is a function of an [`arms::Arm`], one architecture. It is written once, and mounted on
//! each arm that can pass it: `cargo test -p roundhouse-cli --test it prefork::` runs all tests of
//! one engine, with `reset_storm` one test on all. The groups below assign tests to arms.
//! `ROUNDHOUSE_SOAK=1` lengthens the storms.

mod addresses;
mod arms;
mod books;
mod budget;
mod caged;
mod config;
mod crash;
mod drained;
mod durable;
mod echo;
mod game;
mod governed;
mod handover;
mod harness;
mod injected;
mod jobs;
mod manager;
mod market;
mod nodes;
mod overflow;
mod pace;
mod probe;
mod refusals;
mod rings;
mod save;
mod scarce;
mod sets;
mod sites;
mod slow;
mod spares;
mod spoken;
mod status;
mod stock;
mod storm;
mod term;
mod top;
#[path = "../../../services/stock/tests/stock/transcript.rs"]
mod transcript;
mod unheard;
mod vanished;
mod web;
mod websocket;
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

/// Makes a group of tests a macro that mounts it on an arm.
macro_rules! groups {
    ($d:tt $($(#[$doc:meta])* $group:ident { $($tests:tt)+ })+) => {
        $($(#[$doc])* macro_rules! $group {
            ($d arm:ident) => { tests! { $d arm, $($tests)+ } };
        })+
    };
}

groups! { $
    /// Tests of every engine.
    every {
        probe: random_scripts, pipelined_bursts, half_close, deadlines,
            one_state_for_all_workers, everyone_hears_of_the_drain;
        stock: golden_sessions;
        storm: reset_storm, who_never_closes_is_cut, churn;
        crash: supervisor_killed;
        durable: killed_again_and_again;
        term: stopped_under_load, the_second_signal_forces, the_drain_has_an_end,
            a_draining_server_is_closed;
        save: saved_when_the_last_client_is_gone;
        overflow: the_queue_overflows;
        scarce: few_descriptors_at_rest;
        injected: interrupted_calls, calls_that_would_block, a_wait_without_memory;
        vanished: who_vanished_is_asked_for, replies_to_who_vanished;
        drained: a_restart_loses_no_request, a_hand_over_loses_no_request;
        handover: who_is_inside_stays;
        web: the_same_answers, a_socket_in_the_file_system, a_half_closed_client_waits_for_free;
        addresses: several_addresses;
        slow: a_half_closed_reader_waits_for_free;
        status: counts_agree_with_what_was_served;
        websocket: requests_in_messages;
    }

    /// Tests that do not depend on the way to accept: once for each way to wait in each container.
    waits {
        probe: splits_at_every_byte, one_byte_at_a_time, random_scripts_in_narrow_bounds,
            great_replies, a_line_too_long, bye, patience_with_the_silent, the_world_ticks,
            bytes_for_another_session;
        stock: an_overlong_line, a_big_book;
        budget: a_pause_is_no_end, a_shortage_costs_the_silent, unread_replies_count;
        slow: a_reader_that_never_reads, a_slow_reader_gets_every_byte,
            who_takes_too_little_is_cut_off, the_idle_are_sent_home,
            a_request_that_never_ends;
        term: a_deaf_client_is_cut_when_forced;
        save: saved_at_intervals, never_torn;
        vanished: who_vanished_is_idle;
        web: a_great_file_to_a_slow_reader, the_slow_are_told;
    }

    /// Arms of which the governor is tested.
    overload { governed: an_overload_is_refused; }

    /// Arms that serve several clients at once.
    crowd { slow: the_greedy_do_not_starve_the_rest; }

    /// Arms that serve many clients in one loop.
    loops {
        scarce: descriptors_run_out, files_have_descriptors, the_limit_opens_an_eighth_below,
            the_limit_holds_for_all_workers, the_silent_make_room_at_the_limit;
        caged: a_deaf_crowd_in_little_memory, a_deaf_crowd_in_a_cage;
    }

    /// Arms that watch descriptors by their numbers.
    bits { sets: a_thousand_fit_and_the_rest_are_sent_away; }

    /// Arms that accept by a separate call.
    calls { injected: accepts_that_fail; }

    /// Faults of the disk of a log, with a committer that is a thread and one that is a process.
    disk {
        durable: a_full_log, a_disk_that_fails, a_disk_that_is_silent, durability_is_told;
        nodes: nodes_and_members_die, a_lost_quorum_is_told;
    }

    /// Tests of the administration, of rules and of files, once for each kind of container.
    office {
        manager: a_lent_listener;
        unheard: an_unwritable_output_costs_nothing, a_reader_that_pauses_stops_nothing;
        status: orders_are_obeyed, a_log_that_is_moved_loses_no_line, settings_are_reloaded,
            the_end_is_heard_behind_a_fork;
        websocket: certificates_are_renewed, lines_of_pages;
        term: interrupted_under_load, a_hangup_is_no_end;
        web: compressed, sealed, no_line_of_the_log_is_lost;
        words: verbose, silent_by_default, timer;
        sites: sites_by_name;
        addresses: rights_are_given_up;
        save: saved_at_the_end, a_full_disk, a_read_only_directory, one_server_a_book;
        durable: killed_before_a_sync;
    }

    /// Tests of the administration where workers are processes.
    stuck { status: a_stuck_visitor_hinders_nobody; }

    /// Arms with rings.
    ring { injected: a_ring_that_is_busy; }

    /// Arms whose clients take descriptors from the process that saves.
    hoard { scarce: saved_without_descriptors; }

    /// Arms whose workers have one client at a time.
    blocking {
        scarce: descriptors_are_taken_away;
        web: the_silent_make_room;
    }

    /// Arms whose workers are processes.
    processes {
        crash: workers_killed_under_load, workers_killed_under_a_global_lock,
            all_workers_killed_at_once, a_killed_worker_is_replaced,
            saved_after_a_worker_died_with_its_clients, workers_ignore_interrupts;
        durable: committer_and_workers_killed;
        status: a_death_is_told_with_its_reason;
    }

    /// The small set of rare points.
    rare {
        probe: random_scripts;
        storm: reset_storm;
        crash: supervisor_killed;
        drained: a_restart_loses_no_request, a_hand_over_loses_no_request;
        term: stopped_under_load, the_second_signal_forces, the_drain_has_an_end;
        overflow: the_queue_overflows;
        injected: interrupted_calls, calls_that_would_block;
        vanished: who_vanished_is_asked_for;
    }

    /// The addition to `rare` if a switch changes how bytes are moved.
    moves {
        probe: splits_at_every_byte, half_close, great_replies;
        slow: a_slow_reader_gets_every_byte, a_half_closed_reader_waits_for_free;
        web: the_same_answers, a_great_file_to_a_slow_reader, a_half_closed_client_waits_for_free;
    }

    /// Arms that start a worker for each connection.
    visit { injected: no_worker_for_a_visitor; }

    /// Arms with a process for each connection.
    kin {
        crash: workers_killed_under_load, workers_killed_under_a_global_lock;
        scarce: visitors_wait_for_descriptors;
    }

    /// Arms whose worker processes have one client at a time.
    single { crash: a_killed_child_takes_one_client_along; }

    /// Arms with one process that accepts for the others.
    passing { crash: the_acceptor_killed; }

    /// Arms whose idle workers all wait at one listener, each ready to take the next.
    sharing { crash: a_frozen_worker_delays_nobody_else; }

    /// Arms whose state is in private memory by default.
    private { handover: refused_with_private_state; }

    /// Arms that start and end processes while they run, so tests count the descriptors of each.
    spare {
        spares: processes_follow_the_load, who_has_served_enough_is_replaced;
        probe: random_scripts;
        storm: reset_storm;
        crash: supervisor_killed;
        term: stopped_under_load, the_second_signal_forces, the_drain_has_an_end;
        injected: interrupted_calls, calls_that_would_block;
    }

    /// Arms with helpers for blocking steps.
    aided { jobs: others_are_served_meanwhile; }

    /// Arms whose loops hire helpers.
    hiring { injected: a_helper_that_cannot_start; }

    /// Arms with queues between stages.
    queued { status: queues_are_told; }

    /// Arms without helpers for blocking steps.
    alone { jobs: others_wait_meanwhile; }
}

/// Mounts groups of tests on arms, one module for each arm. The groups after the bar complete the
/// set of an arm that differs from another by one switch. They are in a module `soak`, which
/// `cargo xtask ci` leaves out and `cargo xtask soak` runs.
macro_rules! mount {
    ($($engine:ident = $arm:ident: $($group:ident),+ $(| $($rest:ident),+)?;)+) => {
        $(mod $engine {
            $($group!($arm);)+
            $(mod soak {
                $($rest!($arm);)+
            })?
        })+
    };
}

mount! {
    iterative = ITERATIVE: every, waits, blocking, calls, private;
    epoll = EPOLL: every, waits, crowd, loops, calls, hoard, private, aided, hiring,
        office, disk, overload;
    epoll_edge = EPOLL_EDGE: rare, moves, private | every, waits, crowd, loops, calls, hoard;
    epoll_alone = EPOLL_ALONE: rare, private, alone;
    amped = AMPED: rare, loops, private, aided, hiring;
    prefork = PREFORK: every, waits, crowd, blocking, calls, processes, single, sharing,
        office, stuck, disk;
    uring = URING: every, waits, crowd, loops, ring, hoard, private, hiring, office;
    port = PORT: rare, moves, ring, private, aided
        | every, waits, crowd, loops, hoard;
    port_one = PORT_ONE: rare, loops, ring;
    processes_uring = PROCESSES_URING: rare, ring, processes, sharing
        | every, waits, crowd, loops;
    processes_reuseport = PROCESSES_REUSEPORT: rare, loops, calls, processes;
    threads_epoll = THREADS_EPOLL: rare, calls, private | every, waits, crowd, loops, hoard;
    processes_epoll = PROCESSES_EPOLL: every, waits, crowd, loops, calls, processes, sharing;
    threads_blocking = THREADS_BLOCKING: rare, blocking, calls, private | every, crowd;
    fork = FORK: every, waits, crowd, blocking, calls, visit, kin, single, office;
    thread = THREAD: every, waits, crowd, blocking, calls, hoard, visit, private, office, overload;
    pool = POOL: every, waits, crowd, blocking, calls, private;
    select = SELECT: every, waits, crowd, loops, bits, calls, hoard, private;
    poll = POLL: every, waits, crowd, loops, calls, hoard, private;
    prefork_lock = PREFORK_LOCK: rare, blocking, calls, processes, single | every, crowd;
    prefork_pass = PREFORK_PASS: rare, processes, single, passing | every, crowd, blocking, calls;
    processes_exclusive = PROCESSES_EXCLUSIVE: rare, loops, calls, processes, sharing;
    processes_pass = PROCESSES_PASS: rare, loops, calls, processes, passing | every, crowd;
    processes_pass_uring = PROCESSES_PASS_URING: rare, ring, processes, passing
        | every, crowd, loops, calls;
    worker = WORKER: every, waits, crowd, blocking, calls, processes, office;
    event = EVENT: every, waits, crowd, loops, calls, processes, office;
    worker_spare = WORKER_SPARE: crowd, spare;
    prefork_spare = PREFORK_SPARE: crowd, spare;
    coroutine = COROUTINE: every, waits, crowd, loops, calls, hoard, private, aided, hiring,
        overload;
    tokio_local = TOKIO_LOCAL: every, waits, crowd, loops, calls, hoard, private, aided, hiring,
        overload;
    tokio_steal = TOKIO_STEAL: every, waits, crowd, loops, calls, hoard, private, aided, overload;
    leader = LEADER: every, waits, crowd, loops, calls, hoard, private, aided, overload;
    staged = STAGED: every, waits, crowd, loops, calls, hoard, private, aided, overload, queued;
    threads_handoff = THREADS_HANDOFF: rare, loops, calls, private | every, crowd, hoard;
}
