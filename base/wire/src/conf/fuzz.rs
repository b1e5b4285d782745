//! Random bytes, and settings that must read back as they were written.

use super::Settings;
use crate::text::{Encoding, encode};
use stats::Rng;

/// One round: settings read back in every encoding, and noise is decoded or refused.
pub(crate) fn fuzz(rng: &mut Rng, at: &str) {
    written(rng, at);
    noise(rng, at);
}

fn written(rng: &mut Rng, at: &str) {
    let mut text = String::new();
    let mut expected = Vec::new();
    for number in 0..rng.below(6) {
        text += rng.pick::<&str>(&["", "\n", "// x = 1\r\n", "/* y = 2\n * / */ ", " \t"]);
        let name = format!("{}{number}", rng.pick(&["port", "\u{ae38}", "a-b.c_", "X"]));
        let word = *rng.pick(&["6000", "-1", "a=b", "/tmp/x", "\u{bc29}", "1/2", "c:\\d"]);
        let quoted = *rng.pick(&["", "a b", "// c", "/*", "C:\\new", "\u{bc29} \u{d328}", "x: y"]);
        let blank = rng.pick::<&str>(&["", " ", "\t ", " /**/ "]);
        // An unquoted word ends at a blank, and so does a path after a comment.
        let (value, spelt) = if rng.once_in(2) {
            (quoted, format!("\"{quoted}\""))
        } else {
            (word, format!(" {word}"))
        };
        text += &format!("{name}{blank}={blank}{spelt}");
        text += rng.pick::<&str>(&["\n", "\r\n", " // z\n", " /* z */\n", "\t\n"]);
        expected.push((name, value.to_owned()));
    }
    let files = [
        (Encoding::Utf8, false),
        (Encoding::Utf8, true),
        #[cfg(feature = "encodings")]
        (Encoding::Utf16Le, true),
        #[cfg(feature = "encodings")]
        (Encoding::Utf16Be, true),
        #[cfg(feature = "encodings")]
        (Encoding::Cp949, false),
    ];
    for (encoding, marked) in files {
        let read = Settings::parse(&encode(&text, encoding, marked));
        let read = read.unwrap_or_else(|bad| panic!("{at}: {bad} in {text:?}"));
        let found: Vec<_> = read.iter().map(|one| (one.name.clone(), one.value.clone())).collect();
        assert_eq!(found, expected, "{at}: {text:?}");
    }
}

fn noise(rng: &mut Rng, at: &str) {
    const OFTEN: &[&str] =
        &["a", "b = 1", "=", "\"", "//", "/*", "*/", "/", "\n", ",", "\t", "\u{ae38}", "\r"];
    let mut noise = Vec::new();
    for _ in 0..rng.below(30) {
        match rng.below(12) {
            0 => noise.push(rng.roll() as u8),
            _ => noise.extend_from_slice(rng.pick(OFTEN).as_bytes()),
        }
    }
    let lines = noise.iter().filter(|byte| **byte == b'\n').count() + 1;
    match Settings::parse(&noise) {
        Ok(settings) => {
            for setting in settings.iter() {
                assert!(setting.line <= lines && !setting.name.is_empty(), "{at}");
                assert!(!setting.value.contains(['"', '\n']), "{at}: {:?}", setting.value);
            }
        }
        Err(bad) => assert!(bad.line <= lines && bad.column >= 1, "{at}: {bad}"),
    }
}
