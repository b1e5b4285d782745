//! The reply to a step: the expectations, and the values that are taken from it.
//!
//! The body is parsed as JSON only for a step that names a place in it, and once. An error says
//! what was expected and what was found; the script puts the step's name before it.

use super::jar::Jar;
use super::template::{Template, Values};
use crate::script::shown;
use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A whole reply; `head` and `body` are kept only for steps that read them.
pub(super) struct Received<'a> {
    pub(super) status: u16,
    pub(super) head: &'a [u8],
    pub(super) body: &'a [u8],
    pub(super) jar: &'a Jar,
}

/// The properties of a right reply.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Ranges of statuses; empty: 200 to 399.
    pub(super) statuses: Vec<(u16, u16)>,
    pub(super) contains: Option<Template>,
    /// Values by their place in JSON (RFC 6901).
    pub(super) json: Vec<(String, Member)>,
    /// Texts within fields of the head.
    pub(super) fields: Vec<(String, Template)>,
}

/// An expected value in JSON.
#[derive(Debug)]
pub(super) enum Member {
    Value(Value),
    /// A text, or a number with these digits.
    Text(Template),
}

/// Where a value comes from.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Place {
    Json(String),
    Header(String),
    /// The first group of a match, or all of it.
    #[serde(deserialize_with = "regex")]
    Regex(Regex),
    Cookie(String),
}

/// A value to take, and its place among those of the flow.
#[derive(Debug)]
pub(super) struct Take {
    pub(super) name: String,
    pub(super) slot: usize,
    pub(super) place: Place,
}

impl Wanted {
    pub(super) fn is_status(&self, status: u16) -> bool {
        match &self.statuses[..] {
            [] => (200..400).contains(&status),
            all => all.iter().any(|&(least, most)| (least..=most).contains(&status)),
        }
    }

    fn statuses(&self) -> String {
        let each = |&(least, most): &(u16, u16)| match least == most {
            true => least.to_string(),
            false => format!("{}xx", least / 100),
        };
        match &self.statuses[..] {
            [] => "200 to 399".to_owned(),
            all => all.iter().map(each).collect::<Vec<_>>().join(" or "),
        }
    }

    pub(super) fn reads_body(&self) -> bool {
        self.contains.is_some() || !self.json.is_empty()
    }

    pub(super) fn check_status(&self, status: u16) -> Result<(), String> {
        let bad = || format!("expected status {}, found {status}", self.statuses());
        self.is_status(status).then_some(()).ok_or_else(bad)
    }

    /// Judges all but the status. `text` is room for the expected texts.
    pub(super) fn check(
        &self,
        received: &Received<'_>,
        json: Option<&Value>,
        values: &Values,
        text: &mut Vec<u8>,
    ) -> Result<(), String> {
        for (name, template) in &self.fields {
            let (want, field) = (filled(template, values, text), field(received.head, name));
            if field.is_none_or(|field| memchr::memmem::find(field, want).is_none()) {
                let field = field.map_or("none".to_owned(), shown);
                return Err(format!("expected {} in {name}, found {field}", shown(want)));
            }
        }
        if let Some(template) = &self.contains {
            let want = filled(template, values, text);
            if memchr::memmem::find(received.body, want).is_none() {
                let (want, body) = (shown(want), shown(received.body));
                return Err(format!("expected {want} in the body, found {body}"));
            }
        }
        for (place, member) in &self.json {
            let value = json.and_then(|json| json.pointer(place));
            let (is_right, want) = match member {
                Member::Value(want) => (value == Some(want), want.to_string()),
                Member::Text(template) => {
                    let want = filled(template, values, text);
                    let is_right = value.is_some_and(|value| plain(value).as_bytes() == want);
                    (is_right, shown(want))
                }
            };
            if !is_right {
                return Err(format!("expected {want} at {place}, found {}", said(value)));
            }
        }
        Ok(())
    }
}

fn filled<'a>(template: &Template, values: &Values, text: &'a mut Vec<u8>) -> &'a [u8] {
    text.clear();
    template.put(values, text);
    text
}

impl Place {
    pub(super) fn reads_body(&self) -> bool {
        matches!(self, Self::Json(_) | Self::Regex(_))
    }
}

impl Take {
    pub(super) fn take(
        &self,
        received: &Received<'_>,
        json: Option<&Value>,
        to: &mut Vec<u8>,
    ) -> Result<(), String> {
        to.clear();
        let name = &self.name;
        match &self.place {
            Place::Json(place) => match json.and_then(|json| json.pointer(place)) {
                Some(value) if !value.is_null() => to.extend_from_slice(plain(value).as_bytes()),
                value => {
                    return Err(format!("expected {name} at {place}, found {}", said(value)));
                }
            },
            Place::Header(field) => match self::field(received.head, field) {
                Some(value) => to.extend_from_slice(value),
                None => return Err(format!("expected {name} in the field {field}, found none")),
            },
            Place::Regex(regex) => {
                let groups = regex.captures(received.body);
                let group =
                    groups.as_ref().and_then(|groups| groups.get(1).or_else(|| groups.get(0)));
                let none =
                    || format!("expected {name} by `{regex}`, found {}", shown(received.body));
                to.extend_from_slice(group.ok_or_else(none)?.as_bytes());
            }
            Place::Cookie(cookie) => match received.jar.get(cookie) {
                Some(value) => to.extend_from_slice(value),
                None => return Err(format!("expected {name} in the cookie {cookie}, found none")),
            },
        }
        Ok(())
    }
}

/// A regular expression of bytes.
fn regex<'a, D: Deserializer<'a>>(from: D) -> Result<Regex, D::Error> {
    let text = String::deserialize(from)?;
    RegexBuilder::new(&text).unicode(false).build().map_err(serde::de::Error::custom)
}

pub(super) fn json(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body)
        .map_err(|why| format!("expected JSON, found {} ({why})", shown(body)))
}

pub(super) fn field<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    head.split(|&byte| byte == b'\n').skip(1).find_map(|line| {
        let (key, value) = line.split_at_checked(memchr::memchr(b':', line)?)?;
        key.eq_ignore_ascii_case(name.as_bytes()).then(|| value[1..].trim_ascii())
    })
}

/// A value of JSON as the text that a request has.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn said(value: Option<&Value>) -> String {
    value.map_or("none".to_owned(), |value| shown(value.to_string().as_bytes()))
}
