//! A catalogue: English texts and templates with their translations.
//!
//! English is the key: the program makes its texts in English, and a catalogue replaces them where
//! they leave. A lookup tries the whole text, then its clauses, then the templates, then the parts
//! at each joint. A template such as `{n} of {n2} heats` has holes, and the first letter of a hole
//! limits its values: `n` a number, `w` one word, `v` a value without a joint, `l` a list, `t` a
//! text that is itself known. Templates are sorted by their letters outside the holes, so the most
//! specific one wins. A text without a translation stays English.

use crate::particle;
use std::borrow::Cow;
use std::collections::HashMap;

/// Joints of texts that are put together from others, tried in this order, after `; `. At the first
/// two all parts must be known: half a translation is worse than none.
const JOINTS: [(&str, bool); 4] = [(", ", true), (". ", true), (" · ", false), (": ", false)];

/// One text with its translation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The English text, or its template.
    pub id: String,
    /// Its translation.
    pub to: String,
}

/// The texts of one language.
pub struct Catalogue {
    entries: Vec<Translation>,
    exact: HashMap<String, usize>,
    /// The entries with holes, the most specific first.
    templates: Vec<Template>,
}

/// An English template: `head`, then each hole with the letters after it.
struct Template {
    head: String,
    holes: Vec<(String, String)>,
    entry: usize,
}

impl Catalogue {
    /// Reads a file of gettext: lines `msgid "…"` and `msgstr "…"`, each continued by lines in
    /// quotes.
    pub fn parse(text: &str) -> Catalogue {
        let mut entries: Vec<Translation> = Vec::new();
        let mut in_id = false;
        for line in text.lines() {
            let (word, quoted) = line.split_once('"').unwrap_or((line, ""));
            let part = unescaped(quoted.strip_suffix('"').unwrap_or(quoted));
            match (word.trim(), entries.last_mut()) {
                ("msgid", _) => {
                    entries.push(Translation { id: part, to: String::new() });
                    in_id = true;
                }
                ("msgstr", Some(entry)) => {
                    entry.to = part;
                    in_id = false;
                }
                ("", Some(entry)) if in_id => entry.id += &part,
                ("", Some(entry)) => entry.to += &part,
                _ => {}
            }
        }
        // The head of the file stands under the empty key.
        entries.retain(|entry| !entry.id.is_empty());
        let exact =
            entries.iter().enumerate().map(|(at, it)| (bare(&it.id).to_owned(), at)).collect();
        let with_holes =
            entries.iter().enumerate().filter(|(_, it)| holes(&it.id).next().is_some());
        let mut templates: Vec<Template> =
            with_holes.map(|(at, it)| Template::of(bare(&it.id), at)).collect();
        templates.sort_by_key(|it| std::cmp::Reverse(it.letters()));
        Catalogue { entries, exact, templates }
    }

    /// All texts.
    pub fn entries(&self) -> &[Translation] {
        &self.entries
    }

    /// The translation of exactly this text, with a full stop if it has one.
    pub fn exact(&self, text: &str) -> Option<String> {
        let inner = bare(text);
        let at = self.exact.get(inner)?;
        Some(bare(&self.entries[*at].to).to_owned() + &text[inner.len()..])
    }

    /// The translation of a text of any number of lines; unknown lines stay as they are, and so do
    /// the blanks around each.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let inner = text.trim();
        // A document in JSON is for programs.
        let is_json = inner.starts_with(['{', '[']) && inner.ends_with(['}', ']']);
        let is_json = is_json && inner.contains("\"");
        if is_json || !inner.bytes().any(|byte| byte.is_ascii_alphabetic()) {
            return Cow::Borrowed(text);
        }
        let start = text.len() - text.trim_start().len();
        let whole =
            |found: String| text[..start].to_owned() + &found + &text[start + inner.len()..];
        match inner.contains('\n') {
            // Only one line can be made by a template.
            true => self.exact(inner).map_or_else(
                || text.split_inclusive('\n').map(|line| self.text(line).into_owned()).collect(),
                |found| Cow::Owned(whole(found)),
            ),
            false => self.find(inner).map_or(Cow::Borrowed(text), |found| Cow::Owned(whole(found))),
        }
    }

    /// The translation of a text without blanks around it.
    fn find(&self, text: &str) -> Option<String> {
        let inner = bare(text);
        let made = || {
            let values = |it: &Template| it.values(inner, self);
            self.templates.iter().find_map(|it| Some(self.filled(it, values(it)?)))
        };
        // A sentence may begin with what is a clause elsewhere.
        let lower = || {
            let first = inner.chars().next().filter(char::is_ascii_uppercase)?;
            self.find(&(first.to_lowercase().to_string() + &inner[1..]))
        };
        let clauses = || self.joined(inner, "; ", true);
        let joined = || JOINTS.iter().find_map(|(joint, all)| self.joined(inner, joint, *all));
        let whole = self.exact(inner).or_else(clauses).or_else(made);
        let found = whole.or_else(lower).or_else(joined)?;
        Some(found + &text[inner.len()..])
    }

    /// A text whose parts between `joint` are translated one by one.
    fn joined(&self, text: &str, joint: &str, all: bool) -> Option<String> {
        let parts: Vec<&str> = text.split(joint).collect();
        let found: Vec<Option<String>> = match parts.len() {
            1 => return None,
            _ => parts.iter().map(|part| self.find(part)).collect(),
        };
        // Numbers, units and abbreviations need no translation.
        let letters = |word: &str| word.bytes().filter(u8::is_ascii_lowercase).count();
        let plain = |part: &str| part.split(' ').all(|word| letters(word) < 3);
        let known = || found.iter().zip(&parts).filter(|(it, part)| it.is_some() || plain(part));
        let any = found.iter().any(Option::is_some);
        let enough = any && (!all || known().count() == parts.len());
        let words = found.into_iter().zip(parts);
        let words = words.map(|(it, part)| it.unwrap_or_else(|| part.to_owned()));
        enough.then(|| words.collect::<Vec<_>>().join(joint))
    }

    /// The translation of a template with its values.
    fn filled(&self, template: &Template, values: Vec<&str>) -> String {
        let mut rest = bare(&self.entries[template.entry].to);
        let mut out = String::new();
        while let Some((before, name, after)) = hole(rest) {
            out += before;
            let at = template.holes.iter().position(|(known, _)| known == name);
            let value = at.map_or("", |at| values[at]);
            match name.bytes().next() {
                Some(b'n' | b'w' | b'v') => out += value,
                Some(b'l') => {
                    let items = value.replace(" and ", ", ").replace(" or ", ", ");
                    // An item of one word is a name that the reader types, such as `event`.
                    let items = items.split(", ").map(|item| match item.contains(' ') {
                        true => self.text(item),
                        false => item.into(),
                    });
                    out += &items.collect::<Vec<_>>().join(", ");
                }
                _ => out += &self.text(value),
            }
            rest = after;
        }
        particle::resolved(out + rest)
    }

    /// An HTML template whose text between tags, and labels in them, are translated; and the texts
    /// that the catalogue lacks.
    pub fn template(&self, source: &str) -> (String, Vec<String>) {
        let (mut out, mut missing) = (String::new(), Vec::new());
        let mut rest = source;
        let mut tag = "";
        while !rest.is_empty() {
            let close =
                ["script", "style"].iter().find(|name| tag[1.min(tag.len())..].starts_with(**name));
            // A tag ends at `>` outside an expression of the template.
            let (is_tag, end) = match (close, rest.starts_with('<')) {
                (Some(name), _) => (false, rest.find(&format!("</{name}"))),
                (None, true) => (true, outside(rest, '>').map(|at| at + 1)),
                (None, false) => (false, outside(rest, '<')),
            };
            let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
            out += &match (is_tag, close) {
                (true, _) => self.labels(part, &mut missing),
                (false, Some(_)) => self.script(part, &mut missing),
                (false, None) => self.segment(part, &mut missing),
            };
            tag = if is_tag { part } else { "" };
            rest = after;
        }
        (out, missing)
    }

    /// A script whose texts, in calls of its function `T`, are translated.
    pub fn script(&self, source: &str, missing: &mut Vec<String>) -> String {
        let mut out = String::new();
        let mut rest = source;
        while let Some((before, after)) = rest.split_once("T(") {
            out += before;
            out += "T(";
            rest = after;
            let quote = after.chars().next().filter(|it| "\"'".contains(*it));
            let found = quote.and_then(|it| after[1..].split_once(it));
            let is_call = before.chars().last().is_none_or(|c| !c.is_alphanumeric());
            if let Some((text, after)) = found.filter(|_| is_call) {
                match self.exact(text) {
                    // A string of JSON is one of the script too.
                    Some(to) => out += &format!("\"{}\"", to.replace('"', "\\\"")),
                    None => {
                        missing.push(text.to_owned());
                        out += &rest[..text.len() + 2];
                    }
                }
                rest = after;
            }
        }
        out + rest
    }

    /// The text between two tags.
    fn segment(&self, part: &str, missing: &mut Vec<String>) -> String {
        let inner = part.trim();
        let words = inner.split_whitespace().collect::<Vec<_>>().join(" ");
        if !has_words(&words) {
            return part.to_owned();
        }
        match self.exact(&words) {
            Some(found) => part.replace(inner, &found),
            None => {
                missing.push(words);
                part.to_owned()
            }
        }
    }

    /// A tag with the labels that are read aloud.
    fn labels(&self, tag: &str, missing: &mut Vec<String>) -> String {
        let mut out = tag.to_owned();
        for name in ["aria-label=\"", "data-label=\"", "placeholder=\"", "title=\""] {
            let found = tag.split_once(name).and_then(|(_, rest)| rest.split_once('"'));
            if let Some((label, _)) = found.filter(|(label, _)| has_words(label)) {
                match self.exact(label) {
                    Some(to) => {
                        out = out.replace(&format!("{name}{label}"), &format!("{name}{to}"))
                    }
                    None => missing.push(label.to_owned()),
                }
            }
        }
        out
    }
}

impl Template {
    fn of(id: &str, entry: usize) -> Template {
        let (head, mut rest) = id.split_at(id.find('{').unwrap_or(id.len()));
        let mut holes = Vec::new();
        while let Some((_, name, after)) = hole(rest) {
            let end = hole(after).map_or(after.len(), |(before, _, _)| before.len());
            holes.push((name.to_owned(), after[..end].to_owned()));
            rest = after;
        }
        Template { head: head.to_owned(), holes, entry }
    }

    /// The letters outside the holes.
    fn letters(&self) -> usize {
        self.head.len() + self.holes.iter().map(|(_, after)| after.len()).sum::<usize>()
    }

    /// The values of the holes, if this template makes `text`.
    fn values<'a>(&self, text: &'a str, known: &Catalogue) -> Option<Vec<&'a str>> {
        let mut values = Vec::new();
        let rest = text.strip_prefix(self.head.as_str())?;
        fit(&self.holes, rest, &mut values, known).then_some(values)
    }
}

/// Fills `holes` from `text` to its end, each hole with as little as possible.
fn fit<'a>(
    holes: &[(String, String)],
    text: &'a str,
    values: &mut Vec<&'a str>,
    known: &Catalogue,
) -> bool {
    let Some(((name, after), rest)) = holes.split_first() else { return text.is_empty() };
    let last = rest.is_empty().then(|| text.strip_suffix(after.as_str()).map(str::len));
    let ends: Vec<usize> = match last {
        Some(end) => end.into_iter().collect(),
        None => text.match_indices(after.as_str()).map(|(at, _)| at).collect(),
    };
    ends.into_iter().any(|end| {
        let value = &text[..end];
        values.push(value);
        let after = &text[end + after.len()..];
        let fits = takes(name, value, known) && fit(rest, after, values, known);
        if !fits {
            values.pop();
        }
        fits
    })
}

fn takes(hole: &str, value: &str, known: &Catalogue) -> bool {
    match hole.bytes().next() {
        Some(b'n') => !value.is_empty() && !value.chars().any(|c| c.is_alphabetic() || c == '`'),
        Some(b'w') => !value.is_empty() && !value.contains(' '),
        // Sentences, clauses and items are joined by these, and names hold none.
        Some(b'v') => !value.is_empty() && !["; ", ", ", ". "].iter().any(|it| value.contains(it)),
        Some(b'l') => !value.is_empty() && !["; ", ". "].iter().any(|it| value.contains(it)),
        Some(b't') => known.find(value).is_some(),
        // The holes of a page's script are filled there.
        Some(b'0'..=b'9') => false,
        _ => true,
    }
}

/// A text without its full stop.
fn bare(text: &str) -> &str {
    match text.ends_with("..") {
        true => text,
        false => text.strip_suffix('.').unwrap_or(text),
    }
}

/// The first hole of a template: the text before it, its name, the text after it.
fn hole(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (name, after) = rest.split_once('}')?;
    Some((before, name, after))
}

/// The names of a template's holes.
pub(crate) fn holes(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|part| Some(part.split_once('}')?.0))
}

/// The first `wanted` outside `{{ }}` and `{% %}`.
fn outside(text: &str, wanted: char) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        (c == wanted && depth <= 0).then_some(at)
    })
}

/// Whether a piece of a template has words outside its expressions.
fn has_words(text: &str) -> bool {
    let mut depth = 0;
    let any = text.chars().any(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        depth == 0 && c.is_alphabetic()
    });
    // A term's words stand inside an expression; blocks of a template have names, not words.
    (any || text.contains("term(\"")) && !text.contains("{% block")
}

/// The text of a quoted string of a catalogue.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(c) = letters.next() {
        out.push(match c {
            '\\' => match letters.next() {
                Some('n') => '\n',
                other => other.unwrap_or('\\'),
            },
            c => c,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Catalogue {
        Catalogue::parse(
            "msgid \"\"\nmsgstr \"Language: ko\"\n\nmsgid \"{service} on {v}: {w}, {n} workers\"\n\
             msgstr \"{v}의 {service}: {w}, 워커 {n}개\"\n\nmsgid \"web\"\nmsgstr \"웹\"\n\n\
             msgid \"is \"\n\"\\\"late\\\"\"\nmsgstr \"늦음\"\n\nmsgid \"cheapest: `{w}`\"\n\
             msgstr \"`{w}`이(가) 가장 쌈\"\n\nmsgid \"How\"\nmsgstr \"방법\"\n\n\
             msgid \"one of {l}\"\nmsgstr \"{l} 가운데 하나\"\n\n\
             msgid \"a web\"\nmsgstr \"웹 하나\"\n",
        )
    }

    #[test]
    fn texts_are_known_by_their_templates() {
        let check = |text: &str, want: &str| assert_eq!(sample().text(text), want, "{text}");
        check("web on [::1]:80: epoll, 2 workers\n", "[::1]:80의 웹: epoll, 워커 2개\n");
        check("web on a: epoll, two workers", "web on a: epoll, two workers");
        check("  is \"late\"; Cheapest: `a`.", "  늦음; `a`가 가장 쌈.");
        check("web; other", "web; other");
        // An item of one word is a name that the reader types.
        check("one of web, a web, epoll", "web, 웹 하나, epoll 가운데 하나");
        check("web\nother\n  web", "웹\nother\n  웹");
        check("12 %", "12 %");
    }

    #[test]
    fn a_page_keeps_its_tags_and_expressions() {
        let page =
            "<p title=\"How\">\n  How{% if a > 1 %}<b>web</b>{% endif %} <i>{{ How }}</i> x</p>";
        let (out, missing) = sample().template(page);
        let want =
            "<p title=\"방법\">\n  How{% if a > 1 %}<b>웹</b>{% endif %} <i>{{ How }}</i> x</p>";
        assert_eq!(out, want);
        assert_eq!(missing, ["How{% if a > 1 %}", "x"]);
        let script = "<script>a < T('web') + T(\"How\") + GT('web') + T('no {n}', b)</script>How";
        let (out, missing) = sample().template(script);
        let want = "<script>a < T(\"웹\") + T(\"방법\") + GT('web') + T('no {n}', b)</script>방법";
        assert_eq!((out.as_str(), &missing[..]), (want, &["no {n}".to_owned()][..]));
    }
}
