//! External input is accepted or refused; it never causes a panic.

use lab::condition::Condition;
use lab::file::{PlanFile, PointSpec, Span};
use lab::load::Load;
use lab::plan::Arm;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::path::Path;

const PLAN: &str = "question = 'q'\nblocks = 3\nwarmup = '1ms'\nmetrics = ['p99']\n[gates]\n\
    steal_max = 0.1\n[[arm]]\nengine = 'epoll'\nargs = ['--edge']\n[[arm]]\nname = 'x'\ncommand = \
    'a {port}'\nready = 'r'\nstop = 'int'\n[[point]]\nconnections = [1, 2]\ndepth = 3\n[[point]]\n\
    rate = [0.5, 5e9]\nof = 'own'\n[[point]]\npromise = 'p99 < 1ms'\n[[point]]\noverload = 2.0\n";
const CONDITION: &str = "uring p99 >= 1.10x epoll at depth 16";
const LOAD: &str = "{\"schema\":\"roundhouse.load/1\",\"model\":\"open\",\"requests\":10,\
    \"throughput_rps\":5.5,\"service\":{\"count\":10,\"p50_ns\":7},\"errors\":[{\"kind\":\"a\",\
    \"count\":1}],\"health\":{\"verdict\":\"ok\"},\"timeline\":[{\"at_ms\":1,\"for_ms\":2,\
    \"requests\":3}]}\n";

/// The text with a few bytes changed, doubled or cut out; still UTF-8.
fn spoilt(text: &str, rng: &mut Pcg64) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..rng.random_range(1..6) {
        let at = rng.random_range(0..bytes.len());
        match rng.random_range(0..4) {
            0 => bytes[at] = rng.random(),
            1 => bytes.insert(at, b"0-.'\"[]{}=<>x \n9"[rng.random_range(0..16)]),
            2 => drop(bytes.drain(at..(at + rng.random_range(1..9)).min(bytes.len()))),
            _ => {
                let piece = bytes[at..(at + rng.random_range(1..20)).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
        }
        if bytes.is_empty() {
            bytes.push(b' ');
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn texts_are_taken_or_refused() {
    for seed in 0..3_000 {
        let mut rng = Pcg64::seed_from_u64(seed);
        // Shown only after a panic, which names no seed by itself.
        println!("seed {seed}");
        if let Ok(file) = PlanFile::parse(&spoilt(PLAN, &mut rng)) {
            let points = vec![PointSpec::closed(1, 1, 0)];
            let plan = file.plan(Path::new("."), points, |_| {
                Ok(Arm { command: vec!["x".to_string()], ..Arm::default() })
            });
            if let Ok(plan) = plan {
                let _ = plan.check();
                assert!(!plan.hash().is_empty());
            }
        }
        let _ = spoilt(CONDITION, &mut rng).parse::<Condition>();
        let _ = Load::parse(&spoilt(LOAD, &mut rng)).map(|load| load.faults());
        let _ = spoilt("150.5ms", &mut rng).parse::<Span>();
    }
}
