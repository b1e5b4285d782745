//! What two or more loops need, written once.

pub mod assets;
pub mod deadlines;
pub mod door;
pub mod floor;
pub mod readiness;
pub mod table;
