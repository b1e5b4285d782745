//! The laws of the seam, held for the probe and for echo over many seeds.

use core::time::Duration;

use seam::{
    Buffers, Closed, Conn, Cx, Effects, Instant, Limits, Peer, Service, SessionId, WorkerId,
};
use sim::laws::probe::{
    Echo, LINE_MAX, Menu, Probe, World, asset, expected, numbered, plain, requests,
};
use sim::{Act, Case, Client, End, Faults, Script, Transcript, chunking, determinism, run};

/// Each request once, and an unterminated line at the end.
const EACH: &[u8] = b"echo hi\nmuch 9\nflow 20\nshy 20\ntoil 9\npause\nshared 7\nfile 5\nwait 3\n\
    nudge 1\njob abc\nlinger\ncount\nticks\nid\ntell 77 x\n\nwhat is it\nrest";

fn files() -> Faults {
    Faults::calm().with_assets(vec![asset()])
}

fn stay(acts: &[Act]) -> Client {
    let acts = [acts, &[Act::Stay]].concat();
    Client { start: Duration::ZERO, acts }
}

fn send(text: &str) -> Act {
    Act::Send(text.as_bytes().to_vec())
}

#[test]
fn chunking_holds_at_each_byte_and_under_each_weather() {
    let narrow = Probe::narrow();
    chunking(&narrow, World::default, EACH, &files(), 300, plain);
    let single = Probe { one_by_one: true, ..Probe::narrow() };
    chunking(&single, World::default, EACH, &files(), 300, plain);
    chunking(&Probe::default(), World::default, EACH, &files(), 100, plain);
    chunking(&Echo::default(), || (), EACH, &files(), 100, <[u8]>::to_vec);
}

#[test]
fn all_laws_hold_in_wild_weather() {
    for seed in sim::seeds(1_000) {
        sim::fuzz(seed, 8);
    }
}

fn wild(seed: u64) -> Case {
    let menu = Menu { lines_max: 20, files: true, endings: true, ..Menu::default() };
    let client = |at| Client::saying(&requests(seed * 4 + at, 8, menu));
    Case {
        script: Script { clients: (0..4).map(client).collect() },
        faults: Faults::wild(seed).with_assets(vec![asset()]),
        seed,
    }
}

#[test]
fn determinism_holds() {
    let tick = Some(Duration::from_millis(7));
    let probe = Probe { tick, patience: tick, ..Probe::narrow() };
    determinism(&probe, World::default, 200, wild);
}

#[test]
fn progress_input_that_nobody_uses_ends_the_connection() {
    let deaf = Echo::deaf();
    let max = deaf.limits.input_max;
    for seed in sim::seeds(300) {
        let check = |len: usize, why| {
            let script = Script::saying(&vec![b'x'; len]);
            let heard = run(&deaf, &(), &script, &Faults::rough(seed), seed);
            heard.lawful().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            assert_eq!(heard.only().closed, Some(why), "seed {seed}, {len} bytes");
        };
        check(max - 1, Closed::Service);
        check(max, Closed::Overlong);
        check(max + 4000, Closed::Overlong);
    }
}

#[test]
fn back_pressure_input_behind_a_job_is_bounded() {
    let limits = Limits { input_max: LINE_MAX, ..Probe::default().limits };
    let probe = Probe { limits, ..Probe::default() };
    let (world, effects) = (World::default(), Effects::new(false, false));
    let id = SessionId::new(0, 0, 1);
    let cx = Cx::new(Instant::ZERO, id, WorkerId::new(0, 1), &world, &effects);
    let mut conn = Conn::open(&probe, &cx, Peer::Local, &mut Buffers::new(1));
    conn.feed(&probe, &cx, b"job abc\n");
    let mut fed = 0;
    while conn.wants().read {
        conn.feed(&probe, &cx, b"echo x\n");
        fed += 7;
        assert!(fed < probe.limits.input_max + 7, "{fed} bytes wait behind a job");
    }
    let job = conn.take_job().expect("a job is out");
    conn.outcome(&probe, &cx, probe.work(&world, job));
    assert_eq!(conn.out().single(), Some(&[&b"cba\n"[..], &b"= x\n".repeat(fed / 7)].concat()[..]));
    conn.abort(Closed::Forced);
    conn.close(&probe, &cx);
}

#[test]
fn back_pressure_a_reader_that_never_reads_stops_its_own_input_only() {
    let said = "much 20\n".repeat(1000);
    let greedy = stay(&[send(&said)]);
    let script = Script { clients: vec![greedy, Client::saying(b"echo quick\n")] };
    for later in [0, 100] {
        let faults = Faults { window: 64, sip: 0, later, ..files() };
        // The greedy client reads a minute apart, so it reads almost nothing before the other ends.
        let faults = Faults { delay: Duration::from_secs(60), sip: 1, ..faults };
        let world = World::default();
        let heard = run(&Probe::narrow(), &world, &script, &faults, 1);
        assert_eq!(heard.clients[1].bytes, b"= quick\nend 0\n");
        assert!(expected(said.as_bytes()).starts_with(&heard.clients[0].bytes));
        heard.lawful().expect("no input is offered while the output is full");
    }
}

#[test]
fn time_a_wait_lasts_and_a_late_peer_is_told() {
    let heard = |probe: &Probe, client| {
        run(probe, &World::default(), &Script { clients: vec![client] }, &files(), 1)
    };
    let waits = heard(&Probe::narrow(), Client::saying(b"wait 5000\necho on\n"));
    assert_eq!(waits.only().bytes, b"waited\n= on\nend 0\n");
    assert!(waits.end.ns() >= 6_000_000_000, "{:?}", waits.end);
    let nudged = heard(&Probe::narrow(), stay(&[send("nudge 50\necho on\n")]));
    assert_eq!(nudged.only().bytes, b"= on\n#nudge\n");
    assert_eq!(nudged.only().end, End::Open);
    let patience = Some(Duration::from_secs(2));
    let late = heard(&Probe { patience, ..Probe::narrow() }, stay(&[]));
    assert_eq!((&late.only().bytes[..], late.only().end), (&b"#late\n"[..], End::Closed));
}

#[test]
fn bytes_are_pushed_to_another_session_or_refused() {
    let first = SessionId::new(0, 0, 1).bits();
    let tells = Client {
        start: Duration::from_millis(1),
        acts: vec![send(&format!("tell {first} psst\ntell 99 lost\n"))],
    };
    let script = Script { clients: vec![stay(&[send("id\n")]), tells] };
    let hear = |faults: &Faults| -> Transcript {
        run(&Probe::narrow(), &World::default(), &script, faults, 1)
    };
    let carried = hear(&files());
    assert_eq!(carried.clients[0].bytes, format!("#id {first}\n~psst\n").into_bytes());
    assert_eq!(carried.clients[1].bytes, b"#told\n#told\nend 0\n");
    assert_eq!(carried.pushes_lost, 1);
    let refused = hear(&Faults { pushes: false, ..files() });
    assert_eq!(refused.clients[0].bytes, format!("#id {first}\n").into_bytes());
    assert_eq!(refused.clients[1].bytes, b"#refused\n#refused\nend 0\n");
}

#[test]
fn a_drain_ends_sessions_and_refuses_newcomers() {
    let idle = stay(&[send("echo a\n")]);
    let waits = stay(&[send("wait 500\n")]);
    let forever = stay(&[send("flow 100000\n")]);
    let newcomer = Client { start: Duration::from_secs(2), ..Client::saying(b"echo b\n") };
    let script = Script { clients: vec![idle, waits, forever, newcomer] };
    let drain = Some(Duration::from_millis(100));
    let faults = Faults { drain, window: 8, sip: 1, delay: Duration::from_millis(30), ..files() };
    let heard = run(&Probe::narrow(), &World::default(), &script, &faults, 5);
    heard.lawful().expect("a drain is lawful");
    assert_eq!(heard.clients[0].bytes, b"= a\n#drain\n");
    assert_eq!(heard.clients[1].bytes, b"waited\n#drain\n");
    assert_eq!(heard.clients[2].closed, Some(Closed::Forced));
    assert!(heard.clients[2].bytes.starts_with(&numbered(0)));
    assert_eq!(heard.clients[3].end, End::Refused);
}

#[test]
fn sessions_beyond_the_limit_wait_their_turn() {
    let limits = Limits { sessions_max: 2, ..Probe::narrow().limits };
    let probe = Probe { limits, ..Probe::narrow() };
    let script = Script { clients: vec![Client::saying(b"wait 10\necho me\n"); 9] };
    let heard = run(&probe, &World::default(), &script, &files(), 1);
    for client in &heard.clients {
        assert_eq!(client.bytes, b"waited\n= me\nend 0\n");
    }
    assert!(heard.end.ns() >= 1_050_000_000, "nine waits, two at a time: {:?}", heard.end);
}

#[test]
fn the_world_ticks_at_the_moments_it_asked_for() {
    let probe = Probe { tick: Some(Duration::from_millis(10)), ..Probe::narrow() };
    let script = Script::saying(b"wait 101\nticks\n");
    let heard = run(&probe, &World::default(), &script, &files(), 1);
    assert_eq!(heard.only().bytes, b"waited\n#ticks 11\nend 0\n");
}
