//! The report and the exhibit, opened from files as a reader would.

use crate::browser::{Browser, decoded};
use crate::{page, sample};
use document::{Document, Plot, Section, Series};
use lab::record::{Recorder, Run};
use serde_json::{Value, json};
use std::process::Command;
use testkit::{Folder, run};

fn report(run: &Run) -> String {
    let summary = lab::verdict::analyse(run);
    let doubts = lab::doubts::doubts(run, &summary);
    pages::report(run, &summary, &doubts, &[]).expect("the template fits")
}

/// A browser, and the address of a file with this page.
fn begin(html: &str) -> Option<(Browser, Folder, String)> {
    let (browser, room) = (Browser::open()?, Folder::new());
    let url = page(&room, "page.html", html);
    Some((browser, room, url))
}

/// Waits until every chart outside closed parts is drawn, whether or not it was scrolled to; the
/// number of charts, and of drawings.
fn draw(browser: &mut Browser) -> (u64, u64) {
    browser.wait("document.documentElement.classList.contains('drawn')");
    let shown = "[...document.querySelectorAll('.chart')].filter((it) => it.clientWidth)";
    browser.wait(&format!("{shown}.every((it) => it.dataset.drawn)"));
    let mut count = |what: &str| browser.eval(&format!("{what}.length")).as_u64().unwrap_or(0);
    (count(shown), count("document.querySelectorAll('.chart .main-svg')"))
}

fn calm(browser: &mut Browser, at: &str) {
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{at}: {complaints:#?}");
}

/// Words whose colour contrasts too little with its background: WCAG 2.2, success criterion
/// 1.4.3 (4.5 to 1, for large letters 3 to 1).
const FAINT: &str = include_str!("faint.js");

#[test]
fn a_report_is_whole_in_light_and_dark_from_a_phone_to_a_wall() {
    let Some((mut browser, _room, url)) = begin(&report(&sample::whole())) else { return };
    let mut papers = Vec::new();
    for (width, scheme) in [(360, "light"), (1600, "dark")] {
        let at = format!("{width} {scheme}");
        browser.look(width, 900, scheme);
        browser.go(&url);
        let (figures, drawn) = draw(&mut browser);
        assert!(figures > 15 && drawn >= figures, "{at}: {drawn} of {figures} charts");
        let over = browser
            .eval("[document.documentElement.scrollWidth, document.documentElement.clientWidth]");
        assert_eq!(over[0], over[1], "{at}: the page is wider than the window");
        assert_eq!(browser.eval(FAINT), json!([]), "{at}: faint words");
        papers.push(browser.eval("getComputedStyle(document.body).backgroundColor"));
        assert!(
            browser.requests().iter().all(|it| it.starts_with("file:")
                || it.starts_with("data:")
                || it.starts_with("blob:")),
            "{at}: {:?}",
            browser.requests()
        );
        calm(&mut browser, &at);
        browser.shot(&format!("report-{width}-{scheme}"));
    }
    assert_ne!(papers[0], papers[1], "dark has a separate colour");
}

#[test]
fn charts_follow_the_scheme_and_are_printed_light() {
    let Some((mut browser, _room, url)) = begin(&report(&sample::small())) else { return };
    browser.look(1280, 900, "light");
    browser.go(&url);
    draw(&mut browser);
    let fill = "getComputedStyle(document.querySelector('#timeline .xtitle')).fill";
    let light = browser.eval(fill);
    browser.look(1280, 900, "dark");
    browser.wait(&format!("{fill} !== {light}"));
    calm(&mut browser, "after the change");
    browser.eval(
        "addEventListener('beforeprint', () => {
            window.kept = [...document.querySelectorAll('.chart')]
                .map((it) => it.querySelectorAll('.main-svg').length);
        })",
    );
    let pdf = browser.call("Page.printToPDF", json!({"paperWidth": 8.27, "paperHeight": 11.69}));
    let bytes = decoded(pdf["data"].as_str().expect("a document"));
    assert!(bytes.starts_with(b"%PDF-") && bytes.len() > 50_000, "{} bytes", bytes.len());
    let kept = browser.eval("window.kept");
    let kept: Vec<u64> =
        kept.as_array().expect("the page prints").iter().filter_map(Value::as_u64).collect();
    assert!(kept.len() > 4 && kept.iter().all(|&svgs| svgs > 0), "charts on paper: {kept:?}");
    browser.wait("!document.documentElement.classList.contains('paper')");
    calm(&mut browser, "after printing");
    if let Ok(dir) = std::env::var("ROUNDHOUSE_SHOTS") {
        std::fs::write(format!("{dir}/report.pdf"), bytes).expect("a writable directory");
    }
}

#[test]
fn a_report_can_be_read_without_script() {
    let Some((mut browser, _room, url)) = begin(&report(&sample::small())) else { return };
    browser.look(800, 900, "light");
    browser.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    browser.go(&url);
    let seen = browser.eval(
        "({
            notice: document.getElementById('scriptless').checkVisibility(),
            charts: [...document.querySelectorAll('.chart')].some((it) => it.checkVisibility()),
            rows: document.querySelectorAll('.verdicts tr').length,
            tables: document.querySelectorAll('details.data table').length,
            figures: document.querySelectorAll('figure').length,
        })",
    );
    assert_eq!(seen["notice"], json!(true), "{seen}");
    assert_eq!(seen["charts"], json!(false), "{seen}");
    assert_eq!(seen["tables"], seen["figures"], "every chart has its table: {seen}");
    assert!(seen["rows"].as_u64() > Some(5), "{seen}");
    calm(&mut browser, "without script");
}

#[test]
fn a_report_is_used_by_keyboard_and_told_to_a_screen_reader() {
    let Some((mut browser, _room, url)) = begin(&report(&sample::small())) else { return };
    browser.look(1280, 900, "light");
    browser.go(&url);
    browser.press("Tab");
    assert_eq!(browser.eval("document.activeElement.className"), json!("skip"));
    // The first term: opened by Enter, closed by Escape, and the focus is where it was.
    browser.eval("document.querySelector('header .term').focus()");
    let open = "document.querySelectorAll('[popover]:popover-open').length";
    assert_eq!(browser.eval(open), json!(0));
    browser.press("Enter");
    browser.wait(&format!("{open} === 1"));
    let inside =
        "(() => { const it = document.querySelector(':popover-open').getBoundingClientRect();
        return it.left >= 0 && it.right <= innerWidth && it.top >= 0 && it.width > 100; })()";
    assert_eq!(browser.eval(inside), json!(true), "the explanation is on the screen");
    browser.press("Escape");
    browser.wait(&format!("{open} === 0"));
    assert_eq!(browser.eval("document.activeElement.className"), json!("term"));
    let tree = browser.call("Accessibility.getFullAXTree", json!({}));
    let nodes =
        tree["nodes"].as_array().expect("a tree").iter().filter(|it| it["ignored"] == false);
    let (mut mains, mut first) = (0, 0);
    for node in nodes {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        let name = node["name"]["value"].as_str().unwrap_or_default();
        mains += u32::from(role == "main");
        let level = node["properties"].as_array().into_iter().flatten();
        let level =
            level.filter(|it| it["name"] == "level").find_map(|it| it["value"]["value"].as_u64());
        first += u32::from(role == "heading" && level == Some(1));
        let needs = matches!(role, "button" | "link" | "image" | "img" | "navigation" | "figure");
        assert!(!needs || !name.trim().is_empty(), "a nameless {role}: {node}");
    }
    assert_eq!((mains, first), (1, 1), "one main part, one first heading");
}

#[test]
fn an_exhibit_is_whole_on_a_phone_and_on_a_desk() {
    let Some(mut browser) = Browser::open() else { return };
    let room = Folder::new();
    let line = |name: &str, published| {
        let points = [(1.0, 1.0), (10.0, 9.98), (1_000.0, 761.0)];
        Series { published, ..Series::measured(name, points) }
    };
    let plot = || Plot {
        title: "Requests per second".to_owned(),
        series: vec![line("published", true), line("repeated", false)],
        ..Plot::default()
    };
    let side =
        || Section { finding: "The same.".to_owned(), plot: Some(plot()), ..Section::default() };
    let exhibit = Document {
        title: "Think time".to_owned(),
        headline: "A client that sleeps measures its own sleep.".to_owned(),
        flawed: side(),
        corrected: side(),
        ..Document::default()
    };
    let url =
        page(&room, "exhibit.html", &pages::exhibit(&exhibit, "").expect("the template fits"));
    for (width, scheme) in [(360, "dark"), (1280, "light")] {
        browser.look(width, 900, scheme);
        browser.go(&url);
        let (figures, drawn) = draw(&mut browser);
        assert!(figures == 2 && drawn >= 2, "{width}: {drawn} of {figures} charts");
        let over = browser
            .eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(over, json!(0), "{width}: the page is wider than the window");
        assert_eq!(browser.eval(FAINT), json!([]), "{width} {scheme}: faint words");
        calm(&mut browser, scheme);
        browser.shot(&format!("exhibit-{width}-{scheme}"));
    }
}

#[test]
fn a_race_that_has_not_ended_is_drawn_from_its_record() {
    let (room, race) = (Folder::new(), sample::small());
    let raw = room.path().join("report.jsonl");
    let mut recorder = Recorder::begin(&raw, &race.manifest).expect("the folder is writable");
    for trial in &race.trials[..40] {
        recorder.append(Box::new(trial.clone())).expect("the folder is writable");
    }
    let mut report = Command::new(env!("CARGO_BIN_EXE_roundhouse"));
    run(report.arg("report").arg(&raw).arg("--html").arg(room.path().join("report.html")))
        .success();
    let page = room.text("report.html");
    assert!(page.contains("id=\"verdict\"") && page.contains("iterative"), "{} bytes", page.len());
}
