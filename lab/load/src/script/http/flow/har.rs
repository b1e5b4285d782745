//! A browser's recording as the file of a flow.
//!
//! Each request becomes a step with its method, body and the fields that a server may act on.
//! Cookies are left to the jar, because those of a recording have expired. Fields of the browser
//! itself (`Sec-*`) and those that make a reply depend on a cache are left out.

use crate::script::http::WebRequest;
use std::collections::BTreeMap;
use toml::Value;

/// Fields that are left out; also those that begin with `sec-` and `if-`.
const LEFT_OUT: [&str; 7] = [
    "cache-control",
    "cookie",
    "dnt",
    "pragma",
    "priority",
    "upgrade-insecure-requests",
    "user-agent",
];

/// The file of a flow with a step for each of the requests.
pub fn flow_of(requests: &[WebRequest]) -> String {
    let mut text =
        "# Made from a recording. Values that change from user to user need a variable: \
                    take it from\n# an earlier reply, or from `data`.\n\n[[flow]]\nname = \
                    \"recorded\"\n"
            .to_owned();
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for request in requests {
        let method = request.method.as_deref().unwrap_or("GET");
        let path = request.path.split('?').next().unwrap_or_default();
        let mut name = format!("{method} {path}");
        let count = names.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            name += &format!(" ({count})");
        }
        let mut line = |key: &str, value: String| text += &format!("{key} = {value}\n");
        line("\n[[flow.step]]\nname", quoted(&name));
        line("method", quoted(method));
        line("path", literal(&request.path));
        let is_kept = |field: &&(String, String)| {
            let name = field.0.to_ascii_lowercase();
            let is_own = ["sec-", "if-"].iter().any(|start| name.starts_with(start));
            !is_own && !LEFT_OUT.contains(&name.as_str())
        };
        // One value of each name, as a table has.
        let fields: BTreeMap<String, String> = request
            .headers
            .iter()
            .filter(is_kept)
            .map(|(name, value)| (name.to_ascii_lowercase(), literal(value)))
            .collect();
        if !fields.is_empty() {
            let field = |(name, value): (&String, &String)| format!("{} = {value}", quoted(name));
            let fields: Vec<String> = fields.iter().map(field).collect();
            line("headers", format!("{{ {} }}", fields.join(", ")));
        }
        let body = request.body.as_deref().filter(|body| !body.is_empty());
        if let Some(body) = body {
            line("body", literal(&String::from_utf8_lossy(body)));
        }
        if request.recorded >= 400 {
            line("expect", format!("{{ status = {} }}", request.recorded));
        }
    }
    text
}

fn literal(text: &str) -> String {
    quoted(&text.replace("${", "$${"))
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}
