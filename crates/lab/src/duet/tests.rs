//! Facts about duets, with made-up players and with shell scripts.

use super::*;
use crate::plan::Provision;
use crate::server::tests::Room;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn part(name: &str, script: &str) -> Part {
    Part {
        arm: Arm {
            name: name.to_string(),
            command: ["sh", "-c", script].map(String::from).to_vec(),
            target: "line://{address}".to_string(),
            load: vec![
                "--request".to_string(),
                format!("hello {name}"),
                "--expect-prefix".to_string(),
                "he".to_string(),
            ],
            ..Arm::default()
        },
        idle: 0,
    }
}

fn plan(script: &str) -> Plan {
    Plan {
        parts: ["bare", "epoll", "uring"].iter().map(|name| part(name, script)).collect(),
        twin: true,
        point: LoadPoint { connections: 64, depth: 16, ..LoadPoint::default() },
        fresh_pairs: 8,
        windows: 2,
        window_ms: 1,
        warmup_ms: 1,
        seed: 3,
        files: vec![Provision { name: "stock.txt".to_string(), text: "1 2 3".to_string() }],
    }
}

fn side(cpu_ns_per_request: f64) -> Side {
    let check = Some(Check { kind: "prefix".into(), ok: true, detail: String::new() });
    let p99_ns = Some(3 * cpu_ns_per_request as u64);
    let (switches_per_request, throughput_rps, errors) = (None, None, vec![]);
    Side {
        requests: 10,
        cpu_ns_per_request,
        switches_per_request,
        p99_ns,
        throughput_rps,
        errors,
        check,
    }
}

/// The cost of each pairing follows from its index; the `fail`th pair of the first pairing fails.
struct Made {
    fail: u32,
    played: Vec<(usize, usize)>,
}

impl Players for Made {
    fn play(&mut self, pairing: (usize, usize), number: u32) -> Option<Result<Fresh, String>> {
        self.played.push(pairing);
        if pairing == (0, 1) && number == self.fail {
            return Some(Err("epoll: no message".to_string()));
        }
        let b = 1_000.0 * (1.0 + pairing.1 as f64 + f64::from(number) / 1_000.0);
        let bytes_each = 100.0 + f64::from(number);
        let silence = Silence { connections: 9, bytes_each, kernel_kb: None };
        Some(Ok(Fresh {
            number,
            swapped: false,
            ratio: 1_000.0 / b,
            a: side(1_000.0),
            b: side(b),
            a_idle: None,
            b_idle: (pairing.1 == 2).then_some(silence),
            conditions: Conditions::default(),
            doubts: Vec::new(),
        }))
    }
}

#[test]
fn the_first_arm_meets_each_other_and_itself() {
    let plan = plan("");
    assert_eq!(plan.check(), Ok(()));
    let mut made = Made { fail: 2, played: Vec::new() };
    let outcome = run(&plan, &mut made, &AtomicBool::new(false), |_, _, _, _| {});
    let names: Vec<(&str, &str)> =
        outcome.pairings.iter().map(|it| (it.a.as_str(), it.b.as_str())).collect();
    assert_eq!(names, [("bare", "epoll"), ("bare", "uring"), ("bare", "bare (twin)")]);
    assert_eq!(made.played.len(), 24);
    let epoll = &outcome.pairings[0];
    assert_eq!((epoll.fresh.len(), epoll.failures.len()), (7, 1));
    assert!((epoll.ratio.expect("seven ratios") - 0.5).abs() < 0.01);
    let interval = outcome.pairings[1].interval.expect("eight ratios");
    assert!(interval.low < 0.334 && interval.high > 0.332 && interval.cover > 0.95);
    assert_eq!(outcome.pairings[2].a_cpu_ns, Some(1_000.0));
    let late = epoll.p99_ratio.expect("both sides tell it");
    assert!((late.middle - 0.5).abs() < 0.01 && late.interval.is_some(), "{late:?}");
    assert_eq!(epoll.a_p99_ns, Some(3_000.0));
    let bytes = outcome.pairings[1].b_idle_bytes.expect("uring had silent connections");
    assert_eq!((bytes.middle, bytes.interval.map(|it| it.low)), (103.5, Some(100.0)));
    assert_eq!((epoll.b_idle_bytes, outcome.pairings[1].a_idle_bytes), (None, None));
    assert!(outcome.is_right());
}

#[test]
fn wrong_replies_are_named() {
    let plan = Plan { fresh_pairs: 1, ..plan("") };
    let mut pairing = Pairing::new(&plan, (0, 1));
    let mut bad = side(1.0);
    bad.check = Some(Check { kind: "x".into(), ok: false, detail: "9, not 10".into() });
    pairing.take(Ok(Fresh {
        number: 0,
        swapped: false,
        ratio: 1.0,
        a: side(1.0),
        b: bad,
        a_idle: None,
        b_idle: None,
        conditions: Conditions::default(),
        doubts: Vec::new(),
    }));
    assert_eq!(pairing.broken, ["epoll, pair 1: the check failed: 9, not 10"]);
}

#[test]
fn bad_duets_say_why() {
    fn check(change: impl Fn(&mut Plan), want: BadDuet) {
        let mut bad = plan("");
        change(&mut bad);
        assert_eq!(bad.check(), Err(want));
    }
    check(|p| (p.parts.truncate(1), p.twin = false).1, BadDuet::TooFew);
    check(|p| p.parts.clear(), BadDuet::TooFew);
    check(|p| p.parts[2].arm.name = "bare".into(), BadDuet::SameName("bare".into()));
    check(|p| p.parts[1].arm.command.clear(), BadDuet::NoCommand("epoll".into()));
    check(|p| p.windows = 0, BadDuet::Zero("windows"));
    check(|p| p.point.model = Model::Overload { factor: 2.0 }, BadDuet::Model(String::new()));
    let mut alone = plan("");
    alone.parts.truncate(1);
    assert_eq!(alone.check(), Ok(()), "one arm and its twin are a duet");
}

#[test]
fn processes_play_and_their_words_arrive() {
    let room = Room::new("duet");
    let exe = room.0.join("exe");
    let report = |cpu: f64| {
        format!(
            "{{\"report\":{{\"schema\":\"roundhouse.load/1\",\"requests\":5,\
             \"throughput_rps\":3e7,\"service\":{{}},\
             \"server\":{{\"cpu_ns_per_request\":{cpu}}}}}}}"
        )
    };
    let script = format!(
        "#!/bin/sh\necho \"$@\" > {0}/words\ncp $3 {0}/asked\n\
         echo '{{\"schema\":\"roundhouse.turns/1\",\"turns\":[{1},{2}]}}'\n",
        room.0.display(),
        report(1.8),
        report(2.0)
    );
    fs::write(&exe, script).expect("the room is writable");
    fs::set_permissions(&exe, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let ready = "test -f {dir}/stock.txt && echo '{\"listening\":\"127.0.0.1:9\"}'; exec sleep 60";
    let plan = Plan { fresh_pairs: 1, twin: false, ..plan(ready) };
    let stop = AtomicBool::new(false);
    let mut stage = Stage::new(&plan, &exe, &room.0, None, &stop);
    let outcome = run(&plan, &mut stage, &stop, |_, _, _, _| {});
    assert_eq!(outcome.pairings[0].failures, Vec::<String>::new());
    assert!((outcome.pairings[1].fresh[0].ratio - 0.9).abs() < 1e-9);
    let rates = outcome.pairings[1].fresh[0].values(Metric::Throughput);
    assert_eq!(rates, [Some(3e7), Some(3e7)]);
    let read = |name: &str| fs::read_to_string(room.0.join(name)).expect("the generator ran");
    let words = read("words");
    assert!(words.starts_with("load --turns ") && words.ends_with(" --json\n"), "{words}");
    assert!(words.contains("--windows 2 --window 1ms --seed "), "{words}");
    let asked: Vec<Vec<String>> = serde_json::from_str(&read("asked")).expect("a list");
    for (words, name) in asked.iter().zip(["bare", "uring"]) {
        let words = words.join(" ");
        let want = "line://127.0.0.1:9 --closed 64 --depth 16 --warmup 1ms --seed ";
        assert!(words.starts_with(want) && words.contains(" --watch "), "{words}");
        let request = format!("--request hello {name} --expect-prefix he");
        assert!(words.ends_with(&request), "expected {request} in {words}");
    }
}

#[test]
fn an_interrupted_duet_keeps_what_is_known() {
    let plan = plan("");
    let stop = AtomicBool::new(false);
    let mut made = Made { fail: 99, played: Vec::new() };
    let outcome = run(&plan, &mut made, &stop, |_, _, number, _| {
        stop.store(number >= 1, Ordering::Relaxed);
    });
    assert!(outcome.interrupted && !outcome.is_right());
    let known: usize = outcome.pairings.iter().map(|it| it.fresh.len()).sum();
    assert_eq!(known, 4);
}
