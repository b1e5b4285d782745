//! Computation without a purpose, so that a request costs more than the service itself does.

use core::hint::black_box;

/// Computes `steps` dependent multiplications (the generator of Knuth's MMIX): processor time only,
/// no memory and no system call. One step takes about a nanosecond.
#[inline]
pub fn compute(steps: u64) {
    if steps > 0 {
        black_box((0..steps).fold(black_box(1_u64), |state, _| {
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)
        }));
    }
}
