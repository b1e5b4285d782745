//! What two or more loops need, written once.

pub mod admission;
pub mod assets;
pub mod connection;
pub mod deadlines;
pub mod event_loop;
pub mod pace;
pub mod readiness;
pub mod table;
pub mod transmit;
