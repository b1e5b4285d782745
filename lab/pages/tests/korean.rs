//! A report in Korean has no English sentence. The language belongs to the process, so tests that
//! choose it have one of their own.

mod sample;

/// English words in a row that are a sentence rather than names.
const ROW_MAX: usize = 3;

/// The texts of a page between its tags, without code, scripts and styles.
fn texts(html: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut hidden = "";
    for part in html.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap_or((part, ""));
        let name = tag.split([' ', '\n']).next().unwrap_or_default();
        match name {
            "script" | "style" | "code" | "title" => hidden = name,
            _ if tag.strip_prefix('/') == Some(hidden) => hidden = "",
            _ => {}
        }
        if hidden.is_empty() && !text.trim().is_empty() {
            found.push(text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    found
}

/// The longest row of English words.
fn row(text: &str) -> usize {
    let is_word = |word: &str| {
        let word = word.trim_matches(|c: char| ",.;:()".contains(c));
        word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    let words: Vec<&str> = text.split(' ').collect();
    words.split(|word| !is_word(word)).map(<[&str]>::len).max().unwrap_or(0)
}

#[test]
fn exhibits_have_no_english_heading() {
    let korean = language::korean();
    let missing = |page: &str| korean.template(page).1;
    assert_eq!(missing(include_str!("../src/assets/exhibit.html")), ["Roundhouse"]);
}

#[test]
fn a_korean_report_has_no_english_sentence() {
    language::choose(["roundhouse", "--lang=ko"].map(Into::into));
    for run in [sample::whole(), sample::small()] {
        let summary = lab::verdict::analyse(&run);
        let doubts = lab::doubts::doubts(&run, &summary);
        let html = pages::report(&run, &summary, &doubts, &[]).expect("the template fits");
        if let Some(file) = std::env::var_os("KOREAN_REPORT") {
            std::fs::write(file, &html).expect("the file can be written");
        }
        assert!(html.contains("<html lang=\"ko\">"));
        let english: Vec<String> =
            texts(&html).into_iter().filter(|text| row(text) > ROW_MAX).collect();
        assert!(english.is_empty(), "{} texts are English: {english:#?}", english.len());
    }
    assert_eq!(row("with `epoll` in all of its parts"), 5);
}
