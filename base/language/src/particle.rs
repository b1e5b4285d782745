//! Korean particles after a word that is known only at run time.

/// Pairs as a catalogue writes them, with the form after a consonant and after a vowel.
const PAIRS: [(&str, &str, &str); 6] = [
    ("은(는)", "은", "는"),
    ("이(가)", "이", "가"),
    ("을(를)", "을", "를"),
    ("와(과)", "과", "와"),
    ("(으)로", "으로", "로"),
    ("(이)라는", "이라는", "라는"),
];

/// `text` with each pair resolved by the sound before it.
pub(crate) fn resolved(mut text: String) -> String {
    for (pair, consonant, vowel) in PAIRS {
        while let Some(at) = text.find(pair) {
            let closed = match end(&text[..at]) {
                // After ㄹ the direction takes no vowel.
                End::Rieul => pair != "(으)로",
                End::Consonant => true,
                End::Vowel => false,
            };
            text.replace_range(at..at + pair.len(), if closed { consonant } else { vowel });
        }
    }
    text
}

/// The sound at the end of a word.
enum End {
    Vowel,
    Rieul,
    Consonant,
}

/// Ends of English words that are a consonant in Korean, where a short vowel is before it: stock is
/// 스톡, packet 패킷, web 웹, map 맵, and engine 엔진.
const CLOSED: [&str; 13] =
    ["ng", "ck", "cket", "ook", "web", "job", "map", "top", "group", "ne", "me", "drop", "step"];

/// The last sound of `text`, without marks that are not spoken. Of English words, those in `l`,
/// `le`, `m`, `n` and [`CLOSED`] end with a consonant in Korean; all others get a vowel.
fn end(text: &str) -> End {
    let silent = |c: char| matches!(c, '`' | '\'' | '"' | ')' | ']' | '”' | '’' | ' ');
    let text = text.trim_end_matches(silent).to_lowercase();
    match text.chars().last() {
        Some(c @ '가'..='힣') => match (u32::from(c) - u32::from('가')) % 28 {
            0 => End::Vowel,
            8 => End::Rieul,
            _ => End::Consonant,
        },
        Some('1' | '7' | '8' | 'l') => End::Rieul,
        Some('0' | '3' | '6' | 'm' | 'n') => End::Consonant,
        _ if text.ends_with("le") => End::Rieul,
        _ if CLOSED.iter().any(|end| text.ends_with(end)) => End::Consonant,
        _ => End::Vowel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_particle_follows_the_sound() {
        let check = |text: &str, want: &str| assert_eq!(resolved(text.to_owned()), want);
        check("`epoll`은(는) `uring`을(를)", "`epoll`은 `uring`을");
        check("thread이(가) 6000(으)로", "thread가 6000으로");
        check("nofile을(를) `profile`(으)로 table은(는)", "nofile을 `profile`로 table은");
        check("stock을(를) block이(가) lock와(과)", "stock을 block이 lock과");
        check("web을(를) map이(가) packet은(는) engine을(를)", "web을 map이 packet은 engine을");
        check("fork을(를) node이(가) port(으)로 box은(는)", "fork를 node가 port로 box는");
        check("서버와(과) 연결와(과) 연결(으)로", "서버와 연결과 연결로");
    }
}
