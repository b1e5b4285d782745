//! The administration of a server: where it listens, and what it answers.
//!
//! | file | what |
//! |---|---|
//! | `place.rs` | `--admin`: a socket in the file system, an address, or none |
//! | `handler.rs` | HTTP/1.1 on it: `/status`, `/status.json`, `/metrics`, and the commands |
//! | `metrics.rs` | a sample as Prometheus reads it |
//! | `processes.rs` | the cost of a sample's processes, from `/proc` |
//! | `page.html` | a page that draws `/status.json` once a second |

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
