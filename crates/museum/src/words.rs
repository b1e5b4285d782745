//! Numbers as people read them.

pub use stats::words::{
    NONE, capital, compared, count, counted, interval, micros, number, or_none, percent, ratio,
    seconds, span,
};
