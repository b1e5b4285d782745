//! The report of a stress client.

use crate::drive::{self, StressCounts};
use crate::faults::{FaultKind, Faults};
use crate::run::Plan;
use crate::work::{Think, Work};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// The settings of the stress client, and the counts of the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StressReport {
    /// Packets that each connection may have outstanding.
    pub window: u32,
    /// The least pause between two sends on a connection (ns); `null` where pauses vary.
    pub delay_ns: Option<u64>,
    /// The time between two connections that a thread closed and reopened (ns); `null`: none.
    pub reconnect_ns: Option<u64>,
    /// The counts.
    #[serde(flatten)]
    pub counts: StressCounts,
}

impl StressReport {
    pub(crate) fn of(
        plan: &Plan,
        stress: drive::StressOptions,
        strain: &StressCounts,
        faults: &Faults,
    ) -> StressReport {
        let ns = |time: std::time::Duration| time.as_nanos() as u64;
        let delay_ns = match plan.model.work() {
            Work::Own { think: Think::None, .. } => Some(0),
            Work::Own { think: Think::Fixed(pause), .. } => Some(ns(pause)),
            _ => None,
        };
        let sum = |kinds: &[FaultKind]| kinds.iter().map(|&kind| faults.of(kind)).sum::<u64>();
        let unmade = [FaultKind::Refused, FaultKind::NoPorts, FaultKind::NoDescriptors];
        let unasked = sum(&[FaultKind::UnaskedBytes]).saturating_sub(strain.logins_twice);
        StressReport {
            window: plan.model.depth(),
            delay_ns,
            reconnect_ns: stress.renew.map(ns),
            counts: StressCounts {
                connect_failed: sum(&unmade),
                invalid: sum(&[FaultKind::WrongReply, FaultKind::Overlong]) + unasked,
                ..*strain
            },
        }
    }
}

impl Display for StressReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let StressCounts { connects, renewals, abandoned, connect_failed, logins, .. } =
            self.counts;
        writeln!(
            f,
            "  connections   {connects} made, {connect_failed} not to be made, {renewals} given up \
             by us with {abandoned} packets under way"
        )?;
        let StressCounts { logins_missing, logins_twice, echoes_late, .. } = self.counts;
        let StressCounts { invalid, closed_by_server, .. } = self.counts;
        writeln!(
            f,
            "  stress        window {}: {logins} logins, {logins_missing} missing after 3 s, \
             {logins_twice} twice; {echoes_late} echoes not within 1 s, {invalid} invalid packets, \
             {closed_by_server} connections ended by the server",
            self.window
        )
    }
}
