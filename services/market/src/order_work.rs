//! `--work`: computation that an order costs besides the market.

use std::str::FromStr;
use std::time::Duration;

use stock::work::compute;
use sys::clock::thread_cpu_ns;

/// The most for one order: a worker serves nobody else meanwhile.
const TIME_MAX: Duration = Duration::from_secs(1);
const STEPS_MAX: u64 = 1_000_000_000;
/// The steps of one measurement, about 0.1 ms, and the number of measurements.
const SAMPLE: u64 = 100_000;
const SAMPLES: usize = 30;

/// Steps, or a time of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum OrderWork {
    /// Steps of [`compute`].
    Steps(u64),
    /// The steps that take this long here.
    #[display("{_0:?}")]
    Time(Duration),
}

impl Default for OrderWork {
    fn default() -> OrderWork {
        OrderWork::Steps(0)
    }
}

impl FromStr for OrderWork {
    type Err = String;

    fn from_str(text: &str) -> Result<OrderWork, String> {
        let steps = text.parse().ok().filter(|steps| *steps <= STEPS_MAX).map(OrderWork::Steps);
        let time = || wire::conf::span(text).ok().filter(|_| text.parse::<f64>().is_err());
        steps.or_else(|| time().filter(|it| *it <= TIME_MAX).map(OrderWork::Time)).ok_or_else(|| {
            format!(
                "expected a time to 1s such as 20us, or a number of steps to {STEPS_MAX}, found \
                 `{text}`"
            )
        })
    }
}

impl OrderWork {
    /// The steps of an order; says them, and what they cost here. The quickest measurement counts,
    /// because others are disturbed.
    pub fn steps(self) -> u64 {
        if self == OrderWork::default() {
            return 0;
        }
        let once = || {
            let before = thread_cpu_ns();
            compute(SAMPLE);
            (thread_cpu_ns() - before).max(1)
        };
        let quickest = (0..SAMPLES).map(|_| once()).min().unwrap_or(1);
        let steps = match self {
            OrderWork::Steps(steps) => steps,
            OrderWork::Time(time) => (time.as_nanos() as u64 * SAMPLE / quickest).max(1),
        };
        let time = Duration::from_nanos(steps * quickest / SAMPLE);
        language::info!("each order computes {steps} steps, here about {time:?} of CPU time");
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_steps() {
        assert_eq!("20us".parse(), Ok(OrderWork::Time(Duration::from_micros(20))));
        assert_eq!("5000".parse(), Ok(OrderWork::Steps(5000)));
        for bad in ["", "2s", "1.5", "-1", "many", "1000000001"] {
            assert!(bad.parse::<OrderWork>().is_err(), "{bad}");
        }
        assert_eq!((OrderWork::Steps(0).steps(), OrderWork::Steps(7).steps()), (0, 7));
        assert!(OrderWork::Time(Duration::from_millis(1)).steps() > 10_000);
    }
}
