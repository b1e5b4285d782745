//! The language of the binary: by the flag, else by the environment; never in JSON.

use std::process::Command;

use crate::harness::BINARY;

/// The output of a command with these words, where LANG has this value.
fn said(lang: &str, words: &[&str]) -> String {
    let mut command = Command::new(BINARY);
    command.args(words).env_remove("LC_ALL").env_remove("LC_MESSAGES").env("LANG", lang);
    let output = command.output().expect("the binary starts");
    String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8")
}

fn is_korean(text: &str) -> bool {
    text.chars().any(|c| ('가'..='힣').contains(&c))
}

#[test]
fn the_flag_wins_over_the_environment() {
    let check = |lang: &str, words: &[&str], korean: bool| {
        let text = said(lang, words);
        assert_eq!(is_korean(&text), korean, "{lang} {words:?}:\n{text}");
    };
    check("ko_KR.UTF-8", &["--help"], true);
    check("C.UTF-8", &["--help"], false);
    check("C.UTF-8", &["race", "--lang", "ko", "--help"], true);
    check("ko_KR.UTF-8", &["--lang=en", "race", "--help"], false);
    check("ko_KR.UTF-8", &["load", "--schema"], false);
    check("ko_KR.UTF-8", &["engines", "--json"], false);
}

#[test]
fn the_c_locale_speaks_the_english_of_the_flag_byte_for_byte() {
    for words in [&["--help"][..], &["race", "-h"], &["serve", "stock", "--help"], &["engines"]] {
        let english = said("ko_KR.UTF-8", &[words, &["--lang", "en"]].concat());
        assert_eq!(said("C", words), english, "{words:?}");
    }
    assert_eq!(said("C", &["serv"]), said("ko_KR.UTF-8", &["--lang", "en", "serv"]));
}

#[test]
fn mistakes_are_told_in_korean_and_quote_hangul() {
    let text = said("ko_KR.UTF-8", &["serve", "stock", "--data", "/없는 폴더/장부.txt"]);
    assert!(text.contains("/없는 폴더/장부.txt"), "{text}");
    let text = said("ko_KR.UTF-8", &["serve", "stock", "--port", "가"]);
    assert!(text.contains("'가'") && text.contains("올바르지 않습니다"), "{text}");
    let of_commands: [&[&str]; 7] = [
        &["serve", "stock", "--engine", "epol"],
        &["serve", "http", "no-such-folder", "--port", "0"],
        &["load", "127.0.0.1:6000"],
        &["tune", "nothing"],
        &["museum", "nothing"],
        &["play", "http://x"],
        &["report", "no-such.jsonl"],
    ];
    for words in of_commands {
        let text = said("ko_KR.UTF-8", words);
        assert!(is_korean(&text) && !text.contains("expected"), "{words:?}: {text}");
    }
    let text = said("ko_KR.UTF-8", &["serv"]);
    assert!(text.contains("오류: 'serv'라는 하위 명령은 없습니다"), "{text}");
    assert!(text.contains("사용법: roundhouse"), "{text}");
}
