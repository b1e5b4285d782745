//! The received waveform is that of the file, sample by sample if the codec is lossless, from the
//! beginning and from the middle.

use std::path::Path;

use crate::stage::{Server, films, run};

/// The 16-bit samples that ffmpeg decodes from `input`.
fn decoded(before: &[&str], input: &str, how: &[&str]) -> Vec<i16> {
    let front = ["-v", "error"];
    let args = [&front, before, &["-i", input, "-map", "0:a"], how, &["-f", "s16le", "-"]];
    numbers(&run("ffmpeg", &args.concat()).bytes)
}

fn numbers(bytes: &[u8]) -> Vec<i16> {
    bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
}

/// The samples of a WAVE file.
pub fn samples(folder: &Path, film: &str) -> Vec<u8> {
    let file = std::fs::read(folder.join(film)).expect("our own film");
    let head = file.windows(4).position(|it| it == b"data").expect("samples") + 8;
    file[head..].to_vec()
}

/// The similarity of two sounds, at most 1, if the second begins up to `within` samples earlier or
/// later.
fn likeness(want: &[i16], got: &[i16], within: usize) -> f64 {
    // Either sound may lack its ends.
    let middle = &want[within..want.len() - 2 * within];
    let energy = |of: &[i16]| of.iter().map(|it| f64::from(*it).powi(2)).sum::<f64>();
    let at = |shift: usize| {
        let other = got.get(shift..shift + middle.len())?;
        let both = middle.iter().zip(other).map(|(a, b)| f64::from(*a) * f64::from(*b));
        Some(both.sum::<f64>() / (energy(middle) * energy(other)).sqrt().max(1.0))
    };
    (0..2 * within).filter_map(at).fold(-1.0, f64::max)
}

/// Samples arrive bit-exact, from the beginning and from the middle.
fn exact(folder: &Path, server: &Server, film: &str, transport: &str) {
    let path = folder.join(film);
    let url = format!("{}/{film}", server.url);
    let want = decoded(&[], path.to_str().expect("text"), &[]);
    let got = decoded(&["-rtsp_transport", transport], &url, &[]);
    assert!(want == got, "{film} over {transport}: {} of {} samples", got.len(), want.len());
    let got = decoded(&["-ss", "1.5", "-rtsp_transport", transport], &url, &[]);
    // Packets that were on their way before the seek may come first.
    let half = &want[want.len() / 2..];
    let is_half = got.ends_with(half) && got.len() < want.len();
    assert!(is_half, "{film} over {transport}: {} of {} samples", got.len(), half.len());
}

#[test]
fn what_is_heard_is_what_was_recorded() {
    let Some(folder) = films() else { return };
    let server = Server::start(folder, &[]);
    let disc = numbers(&samples(folder, "disc.wav"));
    assert!(disc == decoded(&[], folder.join("disc.wav").to_str().expect("text"), &[]));
    let alike = |film: &str, transport: &str| {
        let url = format!("{}/{film}", server.url);
        let how = ["-ar", "8000", "-ac", "1"];
        let got = decoded(&["-rtsp_transport", transport], &url, &how);
        let want = decoded(&[], folder.join(film).to_str().expect("text"), &how);
        // The beginning of the sound may differ by a fraction of a sample at this rate.
        let way = likeness(&want, &got, 400);
        assert!(way > 0.93, "{film} over {transport}: {way}");
    };
    std::thread::scope(|scope| {
        let (server, alike) = (&server, &alike);
        scope.spawn(move || alike("talk.ogg", "udp"));
        scope.spawn(move || alike("film.ts", "udp"));
        for (film, transport) in [
            ("disc.wav", "udp"),
            ("studio.wav", "tcp"),
            ("mono.wav", "udp"),
            ("tone.wav", "udp"),
            ("alaw.wav", "tcp"),
        ] {
            scope.spawn(move || exact(folder, server, film, transport));
        }
    });
}
