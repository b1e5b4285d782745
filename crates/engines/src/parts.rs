//! What two or more loops need, written once.

pub mod assets;
pub mod deadlines;
pub mod door;
pub mod event_loop;
pub mod pace;
pub mod readiness;
pub mod table;
pub mod transmit;
