//! `NAME=COMMAND`: a command line as one argument, split the way a shell does.

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

/// Splits as a POSIX shell would, without variables, globs and pipes: the command runs exactly as
/// written.
///
/// # Errors
/// A quote that is not closed, or a `\` at the end.
pub fn split(text: &str) -> Result<Vec<String>, String> {
    shlex::split(text).ok_or_else(|| {
        format!("expected closed quotes, and a character after each `\\`, found `{text}`")
    })
}

/// The words as one line, which a POSIX shell splits into the same words.
///
/// # Errors
/// A word with a NUL.
pub fn joined<T: AsRef<str>>(words: impl IntoIterator<Item = T>) -> anyhow::Result<String> {
    let words: Vec<T> = words.into_iter().collect();
    Ok(shlex::try_join(words.iter().map(AsRef::as_ref))?)
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
        for open in ["a='b", "a=\"b", "a=b\\"] {
            check(open, "expected closed quotes");
        }
    }
}
