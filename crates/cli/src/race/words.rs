//! `NAME=COMMAND`: a command line as one argument, taken apart the way a shell would.

use std::str::FromStr;

/// A named command, as `--arm redis='redis-server --port {port} --save ""'` gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Before the first `=`.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Both as they were written.
    pub text: String,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Named, String> {
        let (name, command) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| format!("expected NAME=COMMAND, found `{text}`"))?;
        let text = command.to_string();
        let command = split(command)?;
        if command.is_empty() {
            return Err(format!("expected a command after `{name}=`, found nothing"));
        }
        Ok(Named { name: name.to_string(), command, text })
    }
}

/// Splits at blanks; single quotes keep everything, double quotes and bare words know `\`. No
/// variables, no globs, no pipes: what is run is exactly what is written.
///
/// # Errors
/// A quote that is not closed.
pub fn split(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut open) = (Vec::new(), String::new(), false);
    let mut rest = text.chars();
    let unclosed = |quote: char| format!("expected a closing {quote} in `{text}`");
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => {
                if open {
                    words.push(std::mem::take(&mut word));
                }
                open = false;
                continue;
            }
            '\'' => loop {
                match rest.next().ok_or_else(|| unclosed('\''))? {
                    '\'' => break,
                    c => word.push(c),
                }
            },
            '"' => loop {
                match rest.next().ok_or_else(|| unclosed('"'))? {
                    '"' => break,
                    '\\' => word.push(rest.next().ok_or_else(|| unclosed('"'))?),
                    c => word.push(c),
                }
            },
            '\\' => word.push(rest.next().ok_or("expected a character after the last `\\`")?),
            c => word.push(c),
        }
        open = true;
    }
    if open {
        words.push(word);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_apart_as_in_a_shell() {
        fn check(text: &str, want: &[&str]) {
            let found = text.parse::<Named>().map(|it| [vec![it.name], it.command].concat());
            assert_eq!(found, Ok(want.iter().map(ToString::to_string).collect()), "{text}");
        }
        check("a=b", &["a", "b"]);
        check("r=redis --save \"\" x", &["r", "redis", "--save", "", "x"]);
        check("a=sh -c 'x \"y\" z'", &["a", "sh", "-c", "x \"y\" z"]);
        check("a=b\\ c \"d \\\" e\"f", &["a", "b c", "d \" ef"]);
        check("a=b --x=y", &["a", "b", "--x=y"]);
    }

    #[test]
    fn bad_commands_say_why() {
        fn check(text: &str, want: &str) {
            let found = text.parse::<Named>().expect_err("it is wrong");
            assert!(found.contains(want), "{text}: {found}");
        }
        check("abc", "expected NAME=COMMAND");
        check("=abc", "expected NAME=COMMAND");
        check("a= ", "expected a command after `a=`");
        check("a='b", "a closing '");
        check("a=\"b", "a closing \"");
        check("a=b\\", "after the last");
    }
}
