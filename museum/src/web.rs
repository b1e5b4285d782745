//! The exhibits about web servers, and their common parts: servers, runs, the published study.
//!
//! ```text
//! servers   ours, real Apache (computing calibrated to ours), the course's three in Python
//! cases     server x clients, in blocks, in an order that changes; medians, intervals, ratios
//! study     the figures of "Analysis of Multi-thread Pool Utilization Scheme on Apache", 2005
//! locust    a swarm by the real tool
//! ```

pub mod cases;
mod locust;
mod servers;
mod study;

pub mod adaptive;
pub mod band;
pub mod clients;
pub mod computing;
pub mod directives;
pub mod mixes;
pub mod three;
