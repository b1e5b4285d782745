//! A small lexer that separates code from comments and literals.
//!
//! Blanking keeps every line and column, so a place in the blanked text is the same place in the
//! file. Rust and C differ little here; the differences (raw strings, lifetimes, nested comments)
//! do not occur in our C.

/// `text` with the inside of comments, strings and characters replaced by spaces.
pub fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        for &c in &chars[at..end.unwrap_or(at + 1)] {
            out.push(if end.is_some() && c != '\n' { ' ' } else { c });
        }
        at = end.unwrap_or(at + 1);
    }
    out
}

/// The end of the comment or literal that begins at `at`, if one does.
fn literal_end(chars: &[char], at: usize) -> Option<usize> {
    let next = |offset: usize| chars.get(at + offset).copied().unwrap_or('\0');
    match (chars[at], next(1)) {
        ('/', '/') => Some(position(chars, at, '\n')),
        ('/', '*') => Some(comment_end(chars, at)),
        ('"', _) => Some(string_end(chars, at + 1, '"')),
        ('\'', '\\') => Some(string_end(chars, at + 1, '\'')),
        ('\'', c) if c != '\'' && next(2) == '\'' => Some(at + 3),
        ('r', '#' | '"') if at == 0 || !raw_prefix_is_name(chars, at) => raw_end(chars, at + 1),
        _ => None,
    }
}

/// Whether the `r` at `at` ends a longer word; `br` and `cr` begin raw strings too.
fn raw_prefix_is_name(chars: &[char], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map_or(' ', |i| chars[i]);
    let start = if matches!(before(1), 'b' | 'c') { 2 } else { 1 };
    is_word(before(start))
}

fn position(chars: &[char], from: usize, wanted: char) -> usize {
    chars[from..].iter().position(|&c| c == wanted).map_or(chars.len(), |offset| from + offset)
}

fn comment_end(chars: &[char], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(chars.len())
}

fn string_end(chars: &[char], from: usize, quote: char) -> usize {
    let mut at = from;
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// The end of a raw string whose hashes begin at `from`; `None` for a raw name (`r#fn`).
fn raw_end(chars: &[char], from: usize) -> Option<usize> {
    let hashes = chars[from..].iter().take_while(|&&c| c == '#').count();
    if chars.get(from + hashes) != Some(&'"') {
        return None;
    }
    let mut at = from + hashes + 1;
    while at < chars.len() {
        let closing = chars[at + 1..].iter().take(hashes).take_while(|&&c| c == '#').count();
        if chars[at] == '"' && closing == hashes {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    Some(chars.len())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The byte offsets in `code` of `word` as a whole name.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = code[..at].chars().next_back().is_some_and(is_word);
        let after = code[at + word.len()..].chars().next().is_some_and(is_word);
        !before && !after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, blanked: &str) {
        assert_eq!(blank(text), blanked, "of {text:?}");
        assert_eq!(blank(text).chars().count(), text.chars().count(), "columns stay");
    }

    #[test]
    fn comments_and_literals_are_blanked_and_nothing_else() {
        check("a // unsafe\nb", "a          \nb");
        check("a /* x /* y */ z */ b", "a                   b");
        check(r#"f("un\"safe") g"#, "f(          ) g");
        check(r##"r#"un"safe"# g"##, "             g");
        check("x = br\"a\\\" g", "x = b      g");
        check("'a' '\\'' 'a: &'static str", "         'a: &'static str");
        check("r#fn(1)", "r#fn(1)");
        check("for\"x\"", "for   ");
    }

    #[test]
    fn a_word_is_not_found_inside_another() {
        let found: Vec<usize> = words("unsafe_code unsafe xunsafe (unsafe)", "unsafe").collect();
        assert_eq!(found, vec![12, 28]);
    }
}
