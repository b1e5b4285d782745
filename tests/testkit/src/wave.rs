//! Sound files made on the spot.

/// Samples a second of [`wave`].
pub const WAVE_RATE: u32 = 8000;

/// The encoding of a sample's byte (RFC 2361).
#[derive(Clone, Copy, Debug)]
pub enum Law {
    /// Eight bits, 128 being silence.
    Pcm = 1,
    /// μ-law, 0xff being silence.
    Mu = 7,
}

/// A RIFF WAVE file of one channel with a byte for each sample.
pub fn wave(law: Law, samples: &[u8]) -> Vec<u8> {
    let len = samples.len() as u32;
    let mut file = b"RIFF".to_vec();
    file.extend((36 + len).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0");
    file.extend([law as u8, 0, 1, 0]);
    // Samples and bytes a second, bytes of a sample, its bits.
    file.extend(WAVE_RATE.to_le_bytes());
    file.extend(WAVE_RATE.to_le_bytes());
    file.extend([1, 0, 8, 0]);
    file.extend(b"data");
    file.extend(len.to_le_bytes());
    file.extend_from_slice(samples);
    file
}
