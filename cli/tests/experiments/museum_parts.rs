//! Every exhibit on the parts of a server, at its smallest size, from the real binary.
//!
//! The tests check no times. Every block must contain every arm, counts must be right (lengths of
//! paths, late ids, echoed packets), and page, table and raw data must agree.

use serde_json::Value;

use crate::Room;

/// Blocks of a quick look.
const BLOCKS: usize = 6;

struct Visit {
    document: Value,
    raw: Vec<Value>,
}

impl Visit {
    fn of(name: &str) -> Visit {
        let room = Room::shared();
        let document = room.visit(&format!("{name} --quick"));
        let lines = room.text(&format!("museum-{name}.jsonl"));
        let raw = lines.lines().map(|it| serde_json::from_str(it).expect("JSON lines")).collect();
        let visit = Visit { document, raw };
        visit.is_whole(name, &room.text(&format!("museum-{name}.html")));
        visit
    }

    /// Checks for all exhibits.
    fn is_whole(&self, name: &str, page: &str) {
        assert_eq!(self.document["exhibit"], name);
        for want in ["Repeated as it was", "Without the flaw", "--quick", "other programs"] {
            assert!(page.contains(want), "{name}: expected `{want}` in the page");
        }
        assert!(page.len() < 4_000_000 && !page.contains("src=\"http"), "{name}");
        let findings = self.document["findings"].as_array().expect("findings");
        assert!(findings.len() >= 3 && findings.iter().all(|it| it["value"].is_number()));
        for side in ["flawed", "corrected"] {
            let rows = self.document[side]["numbers"]["rows"].as_array().expect("rows");
            assert!(rows.len() >= 2, "{name}: {side} has its arms");
        }
        let headline = self.document["headline"].as_str().expect("a headline");
        assert!(!headline.contains("NaN") && !headline.contains("unknown"), "{name}: {headline}");
        let contests: Vec<&Value> = self.raw.iter().filter(|it| it["row"] == "contest").collect();
        assert!(!contests.is_empty() && self.raw[0]["quick"] == true, "{name}");
        for contest in contests {
            let what = &contest["what"];
            let runs = contest["runs"].as_array().expect("runs");
            // The twin comes last.
            assert_eq!(runs.len(), contest["arms"].as_array().expect("arms").len() + 1, "{what}");
            for blocks in runs {
                let blocks = blocks.as_array().expect("figures of each block");
                assert_eq!(blocks.len(), BLOCKS, "{what}");
                let is_cost = |it: &Value| it["ns"].as_f64().is_some_and(|it| it > 0.0);
                assert!(blocks.iter().all(is_cost), "{what}: {blocks:?}");
            }
        }
    }

    fn finding(&self, name: &str) -> &Value {
        let findings = self.document["findings"].as_array().expect("findings");
        let found = findings.iter().find(|it| it["name"] == name);
        found.unwrap_or_else(|| panic!("expected a finding {name} in {findings:#?}"))
    }

    /// A finding that does not depend on time.
    fn holds(&self, name: &str) {
        let found = self.finding(name);
        assert_eq!(found["came_out"], "yes", "{found}");
    }

    fn arms(&self) -> Vec<String> {
        let names =
            self.raw.iter().flat_map(|it| it["arms"].as_array().cloned().unwrap_or_default());
        names.filter_map(|it| it.as_str().map(String::from)).collect()
    }
}

fn has(arms: &[String], wanted: &[&str]) {
    for want in wanted {
        assert!(arms.iter().any(|it| it == want), "expected the arm `{want}` among {arms:?}");
    }
}

#[test]
fn pools_are_compared_with_heaps_with_and_without_caches() {
    let visit = Visit::of("pool-heap");
    let wanted = ["array, stack", "list, queue", "new/delete", "heap without caches", "first time"];
    has(&visit.arms(), &wanted);
    // Sixteen combinations of four circumstances.
    let runs = visit.arms().iter().filter(|it| it.len() == 4 && it.starts_with(['0', '1'])).count();
    assert_eq!(runs, 16);
    visit.finding("as-published");
}

#[test]
fn layouts_are_walked_and_freed() {
    let visit = Visit::of("pool-layout");
    has(&visit.arms(), &["array", "piece by piece", "array, shuffled", "list, stack"]);
    assert!(visit.document["facts"].to_string().contains("bytes from one object to the next"));
}

#[test]
fn words_are_written_near_and_far() {
    let visit = Visit::of("false-sharing");
    has(&visit.arms(), &["two, taking turns", "pool with a lock, two threads", "list, one thread"]);
}

#[test]
fn objects_find_their_way_home() {
    let visit = Visit::of("remote-free");
    has(&visit.arms(), &["heap", "pool with a lock", "pool with magazines"]);
    assert!(visit.document["corrected"].to_string().contains("p99.9"));
}

#[test]
fn published_paths_are_too_long_and_repaired_ones_are_not() {
    let visit = Visit::of("path-ladder");
    visit.holds("too-long");
    visit.holds("shortest");
    has(&visit.arms(), &["A* as published", "ordered map, hash", "our JPS"]);
    let rows = visit.document["flawed"]["numbers"]["rows"].to_string();
    // The lengths and expansions that an independent port of the published searches found.
    for want in ["25.556", "88.255", "38.142", "108.012", "\"24\"", "\"109\"", "\"73\""] {
        assert!(rows.contains(want), "expected {want} in {rows}");
    }
}

#[test]
fn servers_with_switches_echo_every_byte() {
    let visit = Visit::of("server-factors");
    visit.holds("verified");
    has(&visit.arms(), &["streamed, new buffer"]);
    let raced = |it: &&Value| it["race"]["arm"] == "11111" && it["race"]["ending"].is_object();
    assert_eq!(visit.raw.iter().filter(raced).count(), BLOCKS);
    assert!(visit.document["published"].to_string().contains("55,867"));
}

#[test]
fn late_ids_are_refused_by_a_counter() {
    let visit = Visit::of("id-schemes");
    visit.holds("late-accepted");
    visit.holds("late-refused");
    has(&visit.arms(), &["map, one lock", "array, place and counter", "our table of all workers"]);
}

#[test]
fn ascending_keys_make_a_list_of_a_plain_tree() {
    let visit = Visit::of("ordered-index");
    visit.holds("depth");
    visit.holds("balanced");
    has(&visit.arms(), &["list", "plain tree, node by node", "B-tree", "sorted array"]);
}
