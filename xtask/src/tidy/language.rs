//! Language: retired words, and sentences without a subject.

use super::{Finding, Tree};

/// Words that gave way to the field's own, with the word that took their place. Each stands here in
/// two halves, because this file is checked too.
const RETIRED: &[(&str, &str)] = &[
    (concat!("Ten", "ant"), "ServiceInstance"),
    (concat!("ten", "ant"), "instance"),
    (concat!("Tro", "upe"), "PacedRunner"),
    (concat!("tro", "upe"), "runner"),
    (concat!("Cas", "ter"), "PacedSource"),
    (concat!("cas", "ter"), "source"),
    (concat!("Lob", "by"), "ParkedConnections"),
    (concat!("lob", "by"), "parked connections"),
    (concat!("Qu", "ay"), "CompletionPort"),
    (concat!("qu", "ay"), "completion port"),
    (concat!("An", "nex"), "Admin"),
    (concat!("an", "nex"), "admin"),
    (concat!("Kee", "per"), "StateStore"),
    (concat!("kee", "per"), "store"),
    (concat!("Di", "ce"), "Rng"),
    (concat!("di", "ce"), "rng"),
    (concat!("Still", "born"), "DiedAtStartup"),
    (concat!("Chron", "icle"), "EventLog"),
    (concat!("chron", "icle"), "event log"),
    (concat!("fare", "well"), "bye"),
    (concat!("ane", "w"), "again"),
    (concat!("sha", "ll"), "must, or the plain present"),
    (concat!("dear", "er"), "costlier, or more expensive"),
    (concat!("dear", "est"), "costliest, or most expensive"),
    // The Korean glossary: one term for one thing.
    (concat!("서술", "자"), "파일 디스크립터 (descriptor)"),
    (concat!("스냅", "숏"), "스냅샷 (snapshot)"),
    (concat!("인공", "물"), "측정 아티팩트 (artefact)"),
    (concat!("접수", "자"), "수락 스레드 (acceptor)"),
    (concat!("수락", "기"), "수락 스레드 (acceptor)"),
    (concat!("전송", "기"), "송신 방식, or 송신 프로세스 (sender)"),
    (concat!("송신", "자"), "송신 방식, or 송신 프로세스 (sender)"),
    (concat!("낱", "말"), "단어 (word)"),
    (concat!("되풀", "이"), "반복 (repetition)"),
    (concat!("지시", "자"), "지시어 (directive)"),
    (concat!("부하 지", "점"), "부하점 (load point)"),
    (concat!("이중 경", "주"), "맞대결(duet)"),
    (concat!("인증서 사", "슬"), "인증서 체인 (certificate chain)"),
    (concat!("말없", "는"), "유휴 (idle)"),
];

/// Phrases that a reader stumbles over, and what to write.
const STUMBLES: &[(&str, &str)] = &[
    (concat!("so ", "many "), "a number, or `many`"),
    (concat!("for ", "to "), "`to`"),
    (concat!("believe ", "to "), "`believe that they`"),
    (concat!("who ", "behaves"), "the client that is meant"),
    (concat!("whom ", "nobody"), "the receiver that is meant"),
    (concat!("who ", "waits is"), "the client that is meant"),
    (concat!("besi", "de "), "next to, compared with, or alongside"),
    (concat!("afr", "esh"), "again"),
    (concat!("carried ", "out"), "executed"),
    (concat!("at one ", "time"), "at once"),
    (concat!("told ", "apart"), "distinguished"),
    (concat!("of your ", "own"), "`your own …`"),
];

/// Endings of files whose sentences are read by people.
const PROSE: &[&str] = &["rs", "md", "c", "h", "toml", "html"];

/// The history may keep its words.
const HISTORY: &str = "CHANGELOG.md";

/// Words that gave way to the field's own do not come back.
pub(super) fn retired(tree: &Tree) -> Vec<Finding> {
    tree.judge(|file, line, _| {
        let is_here = |word: &str| file.path != HISTORY && contains_word(line, word);
        let words = RETIRED.iter().filter(|(word, _)| is_here(word));
        words
            .map(|(word, instead)| format!("`{word}` is retired: write `{instead}`"))
            .collect::<Vec<_>>()
    })
}

/// Sentences have a subject: a thing of the field, not a headless `who` or `what`.
pub(super) fn sentences(tree: &Tree) -> Vec<Finding> {
    tree.judge(|file, line, _| {
        let is_prose = file.path != HISTORY && PROSE.contains(&file.ending());
        let prose = if file.is_source() { said(line) } else { Some(line) };
        let Some(prose) = prose.filter(|_| is_prose) else { return Vec::new() };
        let padded = format!("{} ", prose.to_lowercase());
        let stumbles = STUMBLES.iter().filter(|(phrase, _)| padded.contains(&format!(" {phrase}")));
        let stumbles = stumbles.map(|(phrase, instead)| {
            format!("`{}` makes readers stumble: write {instead}", phrase.trim())
        });
        let is_text = !file.is_source() || line.trim_start().starts_with("//");
        let headless = (is_text && is_headless(prose))
            .then(|| "a sentence begins with its subject: name the thing that is meant".to_owned());
        stumbles.chain(headless).collect()
    })
}

/// The words of a line of source: its comment, or its first string.
fn said(line: &str) -> Option<&str> {
    let comment = line.trim_start().strip_prefix("//").map(|it| it.trim_start_matches(['/', '!']));
    comment.or_else(|| line.split('"').nth(1))
}

/// Whether a sentence in `prose` begins with a bare `Who` or `What` and asks nothing.
fn is_headless(prose: &str) -> bool {
    let begins = ["", ". ", ": ", "; "].into_iter().flat_map(|end| {
        let at = if end.is_empty() { vec![0] } else { ends(prose, end) };
        at.into_iter().map(|at| prose[at..].trim_start())
    });
    let mut bare = begins.filter_map(|it| it.strip_prefix("Who ").or(it.strip_prefix("What ")));
    !prose.contains('?') && bare.any(|rest| rest.starts_with(|it: char| it.is_ascii_lowercase()))
}

/// Where `end` ends in `prose`.
fn ends(prose: &str, end: &str) -> Vec<usize> {
    prose.match_indices(end).map(|(at, _)| at + end.len()).collect()
}

/// Whether `line` contains `word` as a word, or as a part of a compound name.
fn contains_word(line: &str, word: &str) -> bool {
    let is_camel = word.starts_with(|it: char| it.is_ascii_uppercase());
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().unwrap_or(' ');
        let after = line[at + word.len()..].chars().next().unwrap_or(' ');
        let begins = if is_camel { !before.is_ascii_uppercase() } else { !before.is_alphabetic() };
        begins && !after.is_ascii_lowercase()
    })
}
