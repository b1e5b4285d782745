//! Tests of the page: its text, its escapes, its size.

use super::*;
use crate::sample;
use lab::trial::Ending;

fn page(run: &Run) -> String {
    let summary = lab::verdict::analyse(run);
    report(run, &summary, &lab::doubts::doubts(run, &summary), &[]).expect("the template fits")
}

fn has(html: &str, wanted: &[&str]) {
    for want in wanted {
        assert!(html.contains(want), "expected `{want}` in the page");
    }
}

#[test]
fn the_page_says_what_was_found_and_how_sure_it_is() {
    let html = page(&sample::small());
    has(
        &html,
        &[
            "requests per second than epoll at depth",
            "<p class=\"further\">",
            ". iterative ",
            "popovertarget=\"t-verdict\">slower</button>",
            "Verdict against epoll",
            "class=\"strip",
            "popovertarget=\"t-percentile\">mean</button>",
            "in the program",
            "epoll (twin)",
            "Smoke size: 6 blocks",
            "replies right 6",
            "right in all 60 trials",
            "data-for=\"cost-1\"",
            "data-for=\"tail-0\"",
            "data-for=\"timeline\"",
        ],
    );
    assert!(html.len() < 4_000_000, "{} bytes", html.len());
}

#[test]
fn sections_are_there_only_if_the_record_has_their_data() {
    let (small, whole) = (page(&sample::small()), page(&sample::whole()));
    for (section, only_in_whole) in [
        ("id=\"verdict\"", false),
        ("id=\"tails\"", false),
        ("id=\"more\"", true),
        ("data-for=\"sweep-0\"", true),
        ("data-for=\"latency-1\"", true),
        ("data-for=\"capacity-", true),
        ("data-for=\"overload-", true),
        ("data-for=\"calls-0\"", true),
        ("per idle client", true),
        ("popovertarget=\"t-little\"", false),
    ] {
        assert!(whole.contains(section), "expected `{section}` in the whole page");
        assert_eq!(small.contains(section), !only_in_whole, "`{section}` in the small page");
    }
    assert!(whole.len() < 4_000_000, "{} bytes", whole.len());
}

#[test]
fn every_term_that_is_offered_has_its_explanation() {
    let html = page(&sample::whole());
    for part in html.split("popovertarget=\"t-").skip(1) {
        let id = part.split('"').next().unwrap_or_default();
        assert!(crate::glossary::TERMS.iter().any(|it| it.id == *id), "no explanation of `{id}`");
        assert!(html.contains(&format!("id=\"t-{id}\"")), "no popover for `{id}`");
    }
}

#[test]
fn the_page_needs_no_network_and_escapes_what_it_was_given() {
    let html = page(&sample::small());
    let head = html.split("<script type=\"application/octet-stream\"").next().unwrap_or_default();
    for never in ["src=\"http", "href=\"http", "<link rel=\"stylesheet", "@import", "<stock>"] {
        assert!(!head.contains(never), "found `{never}` in the page");
    }
    assert!(html.contains("&lt;stock&gt; market"));
}

#[test]
fn wrong_answers_and_absent_arms_are_loud() {
    let mut run = sample::small();
    for trial in run.trials.iter_mut().filter(|trial| trial.arm == "uring") {
        trial.ending = Ending::Unavailable { reason: "io_uring is <disabled>".to_string() };
    }
    let first = run.trials.iter_mut().find(|trial| trial.arm == "epoll");
    if let Some(Ending::Measured { load }) = first.map(|trial| &mut trial.ending) {
        let check = load.check.as_mut().expect("the sample has one");
        (check.ok, check.detail) = (false, "stock 3: expected 10, found 9".to_string());
    }
    has(
        &page(&run),
        &[
            "not measured: io_uring is &lt;disabled&gt;",
            "Wrong answers were seen, so nothing else counts: epoll, ",
            "The speeds below must not be used",
            "stock 3: expected 10, found 9",
        ],
    );
}

#[test]
fn replies_are_counted_by_status_and_errors_by_kind() {
    let mut run = sample::small();
    let counted = |run: &mut Run, change: fn(&mut lab::load::Load)| {
        for trial in &mut run.trials {
            if let Ending::Measured { load } = &mut trial.ending {
                change(load);
            }
        }
        // As a record is read again: its outcome has an internal tag.
        let text = serde_json::to_string(&run.trials).expect("plain data");
        run.trials = serde_json::from_str(&text).expect("as it was written");
        page(run)
    };
    assert!(!page(&run).contains("a status of 200"), "a record without statuses says nothing");
    let html = counted(&mut run, |load| load.statuses = [("204".to_string(), 10)].into());
    has(&html, &["<p class=\"note\">All 300 replies have a status of 200 to 399"]);
    let html = counted(&mut run, |load| {
        load.statuses.insert("503".to_string(), 7);
        let kind = "closed_early".to_string();
        load.errors.push(lab::load::Fault { kind, count: 1_000, example: String::new() });
    });
    has(
        &html,
        &[
            "<th scope=\"col\">204</th><th scope=\"col\">503</th>",
            "<th scope=\"col\">closed early</th>",
            "<th scope=\"row\">uring</th><td>60</td><td>42</td><td>6,000</td>",
        ],
    );
}

#[test]
fn an_empty_run_still_makes_a_page() {
    let run = Run { trials: Vec::new(), ..sample::small() };
    assert!(page(&run).contains("Nothing could be measured."));
}

#[test]
fn a_p99_without_enough_requests_says_so() {
    let mut run = sample::small();
    for trial in &mut run.trials {
        if let Ending::Measured { load } = &mut trial.ending {
            load.service.p99_ns = None;
        }
    }
    has(&page(&run), &["<td>too few requests</td>"]);
}

/// Writes the made-up pages to the directory in `ROUNDHOUSE_PAGES`, to be looked at.
#[test]
fn the_sample_pages_can_be_looked_at() {
    for (name, run) in [("small", sample::small()), ("whole", sample::whole())] {
        let html = page(&run);
        assert!(html.trim_end().ends_with("</html>"), "the page is whole");
        if let Ok(dir) = std::env::var("ROUNDHOUSE_PAGES") {
            let path = std::path::Path::new(&dir).join(format!("{name}.html"));
            std::fs::write(&path, html).expect("ROUNDHOUSE_PAGES names a writable directory");
        }
    }
}
