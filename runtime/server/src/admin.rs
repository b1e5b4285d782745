//! The administration of a server: where it listens, and what it answers.

mod handler;
#[cfg(feature = "metrics")]
mod metrics;
mod place;
#[cfg(feature = "metrics")]
mod processes;

pub use handler::Front;
#[cfg(feature = "metrics")]
pub use metrics::{Exposition, Labels};
pub use place::{Place, folder, open};

/// The answer to `/status.json`: a sample, and the service it is of.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct ServerStatus {
    /// Which service is served.
    pub service: String,
    /// The version of this program.
    pub version: String,
    /// Seconds since 1970 at which the sample was taken.
    pub wall_seconds: f64,
    /// The server.
    #[serde(flatten)]
    pub sample: engines::status::Sample,
}
