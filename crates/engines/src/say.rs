//! A server's messages on stderr: whole lines, each in one write, because several processes may
//! write at the same time.

/// Prints a line as `eprintln!` does, in one write and in the chosen language.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        let mut line = $crate::tr(&format!($($words)*)).into_owned();
        line.push('\n');
        // Nothing can be done about a closed stderr.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }};
}

pub(crate) use say;
