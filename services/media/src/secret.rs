//! Numbers that cannot be guessed: session names, first sequence numbers, nonces. Each is derived
//! from one secret and from its purpose, so nothing has to be stored.

use stats::rng::mixed;
use wire::rtsp::md5_hex;

/// Derives numbers that are unpredictable without the secret.
#[derive(Clone, Debug)]
pub struct Secret {
    secret: String,
}

impl Secret {
    pub fn new(secret: [u8; 16]) -> Secret {
        Secret { secret: secret.iter().map(|byte| format!("{byte:02x}")).collect() }
    }

    /// 32 hexadecimal digits, the same for the same `what`.
    pub fn word(&self, what: &str) -> String {
        md5_hex(&[&self.secret, ":", what])
    }

    /// 64 bits, the same for the same `what`.
    pub fn number(&self, what: &str) -> u64 {
        u64::from_str_radix(&self.word(what)[..16], 16).unwrap_or(0)
    }
}

/// The `count`th number of a series: well spread, but predictable from `series`. That suffices to
/// keep reports from falling into step (SplitMix64, Steele, Lea and Flood 2014).
pub fn spread(series: u32, count: u32) -> u64 {
    mixed((u64::from(series) << 32 | u64::from(count)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
