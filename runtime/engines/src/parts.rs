//! Code that two or more loops share.

pub mod admission;
pub mod assets;
pub mod connection;
pub mod deadlines;
pub mod event_loop;
pub mod lock;
pub mod pace;
pub mod readiness;
pub mod ring;
pub mod silence;
pub mod table;
pub mod tick;
pub mod transmit;
pub mod transport;
pub mod turn_length;
