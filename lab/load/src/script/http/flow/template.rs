//! Texts with variables, `${name}`, taken apart once: pieces and slots.
//!
//! A template is filled into a buffer that the caller owns. Each place has its coding, so that no
//! value breaks out of it: a quote in JSON is escaped, a blank in a path is `%20`, the end of a
//! line in a header field is a blank (RFC 9110 section 5.5).

use std::io::Write;
use std::sync::Arc;

const BUILT_IN: [(&str, Slot); 3] =
    [("user", Slot::User), ("iteration", Slot::Iteration), ("random", Slot::Random)];

/// The place of a variable's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    User,
    Iteration,
    Random,
    Data(usize),
    /// A value that a step has taken from its reply.
    Taken(usize),
}

/// The form that a value must have where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Plain,
    Field,
    /// Within quotes in JSON.
    Json,
    /// In a form (application/x-www-form-urlencoded).
    Form,
    /// In the path and query of a request.
    Path,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(Vec<u8>),
    Slot(Slot, Coding),
}

/// A text with variables.
#[derive(Clone, Debug, Default)]
pub(super) struct Template(Vec<Piece>);

/// The names of variables in a flow: the columns of its data, and what its steps take.
#[derive(Default)]
pub(super) struct Names {
    pub(super) columns: Vec<String>,
    pub(super) taken: Vec<String>,
}

#[derive(Default)]
pub(super) struct Values {
    pub(super) user: u64,
    pub(super) iteration: u64,
    pub(super) random: u64,
    pub(super) row: Arc<[String]>,
    pub(super) taken: Vec<Vec<u8>>,
}

impl Names {
    fn slot(&self, name: &str) -> Result<Slot, String> {
        let place = |list: &[String]| list.iter().position(|known| known == name);
        let built_in = BUILT_IN.iter().find(|known| known.0 == name).map(|known| known.1);
        let column = || place(&self.columns).map(Slot::Data);
        let taken = || place(&self.taken).map(Slot::Taken);
        taken().or_else(column).or(built_in).ok_or_else(|| {
            let own = self.columns.iter().chain(&self.taken).map(String::as_str);
            let all: Vec<&str> = BUILT_IN.iter().map(|known| known.0).chain(own).collect();
            let all = all.join(", ");
            format!("expected a variable that is known here ({all}), found `${{{name}}}`")
        })
    }
}

impl Template {
    /// Takes `text` apart; `$${` stands for `${`.
    pub(super) fn parse(text: &str, coding: Coding, names: &Names) -> Result<Self, String> {
        let mut template = Self::default();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            if let Some(before) = rest[..at].strip_suffix('$') {
                template.text(before, coding);
                template.text("${", coding);
                rest = &rest[at + 2..];
                continue;
            }
            template.text(&rest[..at], coding);
            let none = || {
                let open = &rest[at..];
                format!(
                    "expected a closing brace after the variable `{open}`, found none; in a text \
                     the $ is doubled"
                )
            };
            let (name, behind) = rest[at + 2..].split_once('}').ok_or_else(none)?;
            template.0.push(Piece::Slot(names.slot(name)?, coding));
            rest = behind;
        }
        template.text(rest, coding);
        Ok(template)
    }

    pub(super) fn text(&mut self, text: &str, coding: Coding) {
        if text.is_empty() {
            return;
        }
        let mut bytes = Vec::new();
        match coding {
            // The text of a step is JSON already.
            Coding::Json => bytes.extend_from_slice(text.as_bytes()),
            _ => put(coding, text.as_bytes(), &mut bytes),
        }
        self.append(Self(vec![Piece::Text(bytes)]));
    }

    /// Appends another template; constant texts become one.
    pub(super) fn append(&mut self, other: Self) {
        for piece in other.0 {
            match (self.0.last_mut(), piece) {
                (Some(Piece::Text(last)), Piece::Text(mut more)) => last.append(&mut more),
                (_, piece) => self.0.push(piece),
            }
        }
    }

    pub(super) fn fixed(&self) -> Option<&[u8]> {
        match &self.0[..] {
            [] => Some(b""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    pub(super) fn begins_open(&self) -> bool {
        matches!(self.0.first(), Some(Piece::Slot(..)))
    }

    pub(super) fn put(&self, values: &Values, out: &mut Vec<u8>) {
        for piece in &self.0 {
            let (slot, coding) = match piece {
                Piece::Text(text) => {
                    out.extend_from_slice(text);
                    continue;
                }
                Piece::Slot(slot, coding) => (*slot, *coding),
            };
            let number = match slot {
                Slot::User => values.user,
                Slot::Iteration => values.iteration,
                Slot::Random => values.random,
                Slot::Data(at) => {
                    put(coding, values.row.get(at).map_or(b"", |text| text.as_bytes()), out);
                    continue;
                }
                Slot::Taken(at) => {
                    put(coding, values.taken.get(at).map_or(&[], |bytes| &bytes[..]), out);
                    continue;
                }
            };
            let _ = write!(out, "{number}");
        }
    }
}

fn put(coding: Coding, value: &[u8], out: &mut Vec<u8>) {
    for &byte in value {
        match (coding, byte) {
            (Coding::Field, b'\t') => out.push(byte),
            (Coding::Field, 0..b' ' | 127) => out.push(b' '),
            (Coding::Json, b'"' | b'\\') => out.extend([b'\\', byte]),
            (Coding::Json, 0..b' ') => drop(write!(out, "\\u{byte:04x}")),
            (Coding::Form, b' ') => out.push(b'+'),
            (Coding::Form, b'*' | b'-' | b'.' | b'_') => out.push(byte),
            (Coding::Form, _) if !byte.is_ascii_alphanumeric() => drop(write!(out, "%{byte:02X}")),
            (Coding::Path, b'#') => out.extend(b"%23"),
            (Coding::Path, _) if !byte.is_ascii_graphic() => drop(write!(out, "%{byte:02X}")),
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names { columns: vec!["name".to_owned()], taken: vec!["id".to_owned()] }
    }

    #[test]
    fn a_value_stays_where_it_stands() {
        let row = ["a \"b\"\r\n&é".to_owned()].into();
        let values = Values { user: 1, iteration: 2, random: 3, row, taken: vec![b"7".to_vec()] };
        let check = |text: &str, coding: Coding, want: &str| {
            let template = Template::parse(text, coding, &names()).expect(text);
            let mut out = Vec::new();
            template.put(&values, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), want, "{text}");
        };
        check("/${id}?q=${name}#é", Coding::Path, "/7?q=a%20\"b\"%0D%0A&%C3%A9%23%C3%A9");
        check("{\"n\":\"${name}\"}", Coding::Json, "{\"n\":\"a \\\"b\\\"\\u000d\\u000a&é\"}");
        check("x ${name}", Coding::Form, "x+a+%22b%22%0D%0A%26%C3%A9");
        check("${name}", Coding::Field, "a \"b\"  &é");
        check("${user}-${iteration}-${random}", Coding::Plain, "1-2-3");
        check("a $${name} $x ${id}", Coding::Plain, "a ${name} $x 7");
        check("", Coding::Plain, "");
    }

    #[test]
    fn an_unknown_variable_is_named() {
        let check = |text: &str, want: &str| {
            let why = Template::parse(text, Coding::Plain, &names()).expect_err(text);
            assert!(why.contains(want), "{why}");
        };
        check("/${token}", "(user, iteration, random, name, id), found `${token}`");
        check("/${id", "expected a closing brace after the variable `${id`");
    }
}
