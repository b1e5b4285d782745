//! The file of a flow: TOML, read once and compiled into steps.
//!
//! Unknown keys, unknown variables, names that occur twice and values of the wrong form are errors
//! with the line, what was expected and what was found. A step is compiled into templates: method,
//! path, head and body. Fields of the command line come first and replace those of the same name,
//! as in other requests.

use super::data::Data;
use super::reply::{Member, Place, Take, Wanted};
use super::template::{Coding, Names, Template};
use super::{Flow, Flows, Step};
use crate::parse::{Target, Usage};
use crate::script::http::options::is_idempotent;
use crate::script::http::{REQUESTS_MAX, WebRequest};
use crate::work::Think;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;

const WEIGHT_MAX: u32 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    flow: Vec<FlowSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlowSpec {
    name: Spanned<String>,
    #[serde(default = "one")]
    weight: u32,
    data: Option<PathBuf>,
    step: Vec<StepSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepSpec {
    name: Spanned<String>,
    method: Option<String>,
    path: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    json: Option<Value>,
    form: Option<BTreeMap<String, String>>,
    #[serde(default)]
    take: BTreeMap<String, Place>,
    #[serde(default)]
    expect: WantedSpec,
    think: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WantedSpec {
    status: Option<Value>,
    contains: Option<String>,
    json: BTreeMap<String, Value>,
    header: BTreeMap<String, String>,
}

fn one() -> u32 {
    1
}

impl Flows {
    /// Reads the flows in `path` for requests to `target`; `fields` are those of every request.
    ///
    /// # Errors
    /// The file, or one that it names, cannot be read, or is none of its kind.
    pub fn read(path: &Path, target: &Target, fields: &[(String, String)]) -> Result<Self, Usage> {
        let named = |Usage(why)| Usage(format!("{}: {why}", path.display()));
        let text = sys::input::read_text(path, sys::input::SMALL)
            .map_err(|why| named(Usage(format!("cannot read: {why}"))))?;
        Self::parse(&text, path.parent().unwrap_or(Path::new("")), target, fields).map_err(named)
    }

    /// The flows in `text`, whose data are in `folder`.
    ///
    /// # Errors
    /// As [`Flows::read`].
    pub fn parse(
        text: &str,
        folder: &Path,
        target: &Target,
        fields: &[(String, String)],
    ) -> Result<Self, Usage> {
        let file: File = toml::from_str(text)
            .map_err(|why| Usage(format!("expected flows in TOML\n{}", why.to_string().trim())))?;
        let mut compiler = Compiler { text, target, fields, flows: Flows::default() };
        let is_alone = file.flow.len() == 1;
        for spec in file.flow {
            compiler.flow(spec, folder, is_alone)?;
        }
        let flows = compiler.flows;
        match flows.steps.len() {
            1..=REQUESTS_MAX => {
                Ok(Flows { source: text.to_owned(), prefix: target.prefix(), ..flows })
            }
            found => Err(Usage(format!("expected 1 to {REQUESTS_MAX} steps, found {found}"))),
        }
    }
}

struct Compiler<'a> {
    text: &'a str,
    target: &'a Target,
    fields: &'a [(String, String)],
    flows: Flows,
}

impl Compiler<'_> {
    fn at(&self, name: &Spanned<String>, why: &str) -> Usage {
        let line = 1 + self.text[..name.span().start].matches('\n').count();
        Usage(format!("line {line}, `{}`: {why}", name.get_ref()))
    }

    fn flow(&mut self, spec: FlowSpec, folder: &Path, is_alone: bool) -> Result<(), Usage> {
        let FlowSpec { name, weight, data, step } = spec;
        if !(1..=WEIGHT_MAX).contains(&weight) {
            let why = format!("expected a weight from 1 to {WEIGHT_MAX}, found {weight}");
            return Err(self.at(&name, &why));
        }
        let data = match data {
            Some(file) => {
                Data::read(&folder.join(file)).map_err(|Usage(why)| self.at(&name, &why))?
            }
            None => Data::default(),
        };
        let mut names = Names { columns: data.columns.clone(), taken: Vec::new() };
        let start = self.flows.steps.len();
        for spec in step {
            let at = spec.name.clone();
            let mut step = self.step(spec, &mut names).map_err(|why| self.at(&at, &why))?;
            if !is_alone {
                step.name = format!("{}/{}", name.get_ref(), step.name);
            }
            if self.flows.steps.iter().any(|known| known.name == step.name) {
                let why = "expected a name for each step, found this one twice in its flow";
                return Err(self.at(&at, why));
            }
            self.flows.steps.push(step);
        }
        let kinds = start..self.flows.steps.len();
        if kinds.is_empty() {
            return Err(self.at(&name, "expected a step or more, found none"));
        }
        self.flows.takes_max = self.flows.takes_max.max(names.taken.len());
        let weights = self.flows.list.last().map_or(0, |flow| flow.weights) + u64::from(weight);
        self.flows.list.push(Flow { weights, kinds, rows: data.rows });
        Ok(())
    }

    fn step(&self, spec: StepSpec, names: &mut Names) -> Result<Step, String> {
        let (kind, body) = body(&spec, names)?;
        let usual = if body.is_some() { "POST" } else { "GET" };
        let method = spec.method.unwrap_or_else(|| usual.to_owned());
        // A variable may be all of a path, such as a taken Location.
        let is_open = spec.path.starts_with("${");
        let shown = if is_open { format!("/{}", spec.path) } else { spec.path.clone() };
        let own: Vec<(String, String)> = spec.headers.into_iter().collect();
        let request = WebRequest {
            method: Some(method.clone()),
            path: shown,
            headers: [self.fields, &own[..]].concat(),
            ..WebRequest::default()
        };
        request.check().map_err(|Usage(why)| why)?;
        let is_sized = body.is_some() || ["POST", "PUT", "PATCH"].contains(&&*method);
        let body = body.unwrap_or_default();
        let length = body.fixed().filter(|_| is_sized).map(<[u8]>::len);
        let head = self.head(&own, kind, length, names)?;
        let path = Template::parse(&spec.path, Coding::Path, names)?;
        let wanted = wanted(spec.expect, names)?;
        let takes = spec.take.into_iter().map(|(name, place)| take(name, place, names));
        let takes: Vec<Take> = takes.collect::<Result<_, _>>()?;
        let think = spec.think.map(|text| text.parse::<Think>()).transpose();
        let reads_json = !wanted.json.is_empty()
            || takes.iter().any(|take| matches!(take.place, Place::Json(_)));
        let reads_body = wanted.reads_body() || takes.iter().any(|take| take.place.reads_body());
        let reads_head = !wanted.fields.is_empty()
            || takes.iter().any(|take| matches!(take.place, Place::Header(_)));
        Ok(Step {
            name: spec.name.into_inner(),
            is_head: method == "HEAD",
            is_idempotent: is_idempotent(&method),
            method: format!("{method} ").into_bytes(),
            path,
            head,
            sizes_body: body.fixed().is_none(),
            body,
            has_cookies: is_given(self.fields, "cookie") || is_given(&own, "cookie"),
            reads_json,
            reads_body,
            reads_head,
            wanted,
            takes,
            think: think.map_err(|Usage(why)| why)?,
        })
    }

    /// The rest of the request line, and the fields of a step. A body of variable length is
    /// announced with each request.
    fn head(
        &self,
        own: &[(String, String)],
        kind: Option<&str>,
        length: Option<usize>,
        names: &Names,
    ) -> Result<Template, String> {
        let is_set = |name: &str| is_given(self.fields, name) || is_given(own, name);
        let host = Some(self.target.authority.as_str()).filter(|_| !is_set("host"));
        let kind = kind.filter(|_| !is_set("content-type"));
        let length = length.map(|length| length.to_string());
        let made = [("Host", host), ("Content-Type", kind), ("Content-Length", length.as_deref())];
        let own = own.iter().filter(|field| !is_given(self.fields, &field.0));
        let own = self.fields.iter().chain(own).map(|(name, value)| (&**name, Some(&**value)));
        let mut head = Template::default();
        head.text(" HTTP/1.1\r\n", Coding::Plain);
        for (name, value) in made.into_iter().chain(own) {
            let Some(value) = value else { continue };
            head.text(&format!("{name}: "), Coding::Plain);
            head.append(Template::parse(value, Coding::Field, names)?);
            head.text("\r\n", Coding::Plain);
        }
        Ok(head)
    }
}

fn is_given(list: &[(String, String)], name: &str) -> bool {
    list.iter().any(|field| field.0.eq_ignore_ascii_case(name))
}

fn body(
    spec: &StepSpec,
    names: &Names,
) -> Result<(Option<&'static str>, Option<Template>), String> {
    let StepSpec { body, json, form, .. } = spec;
    Ok(match (body, json, form) {
        (None, None, None) => (None, None),
        (Some(text), None, None) => (None, Some(Template::parse(text, Coding::Plain, names)?)),
        (None, Some(value), None) => {
            let text = value.to_string();
            if text.contains("$__toml_private") {
                return Err("expected a date in quotes in `json`, found one without".to_owned());
            }
            (Some("application/json"), Some(Template::parse(&text, Coding::Json, names)?))
        }
        (None, None, Some(fields)) => {
            let mut all = Template::default();
            for (at, (name, value)) in fields.iter().enumerate() {
                all.text(if at > 0 { "&" } else { "" }, Coding::Plain);
                all.text(name, Coding::Form);
                all.text("=", Coding::Plain);
                all.append(Template::parse(value, Coding::Form, names)?);
            }
            (Some("application/x-www-form-urlencoded"), Some(all))
        }
        _ => return Err("expected one of `body`, `json` and `form`, found several".to_owned()),
    })
}

fn wanted(spec: WantedSpec, names: &Names) -> Result<Wanted, String> {
    let plain = |text: &str| Template::parse(text, Coding::Plain, names);
    let statuses = match spec.status {
        None => Vec::new(),
        Some(Value::Array(list)) => list.iter().map(status).collect::<Result<_, _>>()?,
        Some(one) => vec![status(&one)?],
    };
    let member = |(place, value): (String, Value)| {
        pointer(&place)?;
        let member = match &value {
            Value::String(text) if text.contains("${") => Member::Text(plain(text)?),
            _ => Member::Value(value),
        };
        Ok::<_, String>((place, member))
    };
    let field = |(name, text): (String, String)| Ok::<_, String>((name, plain(&text)?));
    Ok(Wanted {
        statuses,
        contains: spec.contains.as_deref().map(plain).transpose()?,
        json: spec.json.into_iter().map(member).collect::<Result<_, _>>()?,
        fields: spec.header.into_iter().map(field).collect::<Result<_, _>>()?,
    })
}

/// A status, or a class such as `2xx`, as a range.
fn status(value: &Value) -> Result<(u16, u16), String> {
    let bad = || format!("expected a status such as 200 or \"2xx\", or a list, found {value}");
    let range = match value {
        Value::String(class) => {
            let class = class.strip_suffix("xx").and_then(|digit| digit.parse::<u16>().ok());
            class
                .filter(|class| (1..=5).contains(class))
                .map(|class| (class * 100, class * 100 + 99))
        }
        other => other
            .as_u64()
            .filter(|code| (100..600).contains(code))
            .map(|code| (code as u16, code as u16)),
    };
    range.ok_or_else(bad)
}

fn pointer(place: &str) -> Result<(), String> {
    match place.is_empty() || place.starts_with('/') {
        true => Ok(()),
        false => Err(format!("expected a place in JSON such as /items/0/name, found `{place}`")),
    }
}

fn take(name: String, place: Place, names: &mut Names) -> Result<Take, String> {
    let is_name = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    if !is_name {
        return Err(format!("expected a name of letters, digits, `_` and `-`, found `{name}`"));
    }
    if let Place::Json(place) = &place {
        pointer(place)?;
    }
    let slot = names.taken.iter().position(|known| *known == name).unwrap_or(names.taken.len());
    if slot == names.taken.len() {
        names.taken.push(name.clone());
    }
    Ok(Take { name, slot, place })
}
