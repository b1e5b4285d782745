//! The flags about workers: how many, who decides it, how long they stay. Apache's names for them
//! are accepted as they are, in this spelling.

use engines::spare::Policy;
use engines::{Shape, Staff};

/// How many workers there are, and for how long.
#[derive(clap::Args)]
pub struct StaffArgs {
    /// How many workers, at the most where they come and go (MaxRequestWorkers)
    #[arg(long, value_name = "N", aliases = ["MaxRequestWorkers", "MaxClients"])]
    workers: Option<usize>,
    /// Threads in each process of a hybrid [default: 25] (ThreadsPerChild)
    #[arg(long, value_name = "N", alias = "ThreadsPerChild")]
    threads: Option<usize>,
    /// Who decides how many processes there are: static, apache (its once-a-second rule), damped
    /// (ours) [default: prefork static, hybrid damped]
    #[arg(long, value_name = "POLICY")]
    policy: Option<Policy>,
    /// Processes at the start (StartServers)
    #[arg(long, value_name = "N", alias = "StartServers")]
    start: Option<usize>,
    /// Idle workers at the least (MinSpareThreads, MinSpareServers)
    #[arg(long, value_name = "N", aliases = ["MinSpareThreads", "MinSpareServers"])]
    spare_min: Option<usize>,
    /// Idle workers at the most (MaxSpareThreads, MaxSpareServers)
    #[arg(long, value_name = "N", aliases = ["MaxSpareThreads", "MaxSpareServers"])]
    spare_max: Option<usize>,
    /// Replace a process after so many connections, less up to a tenth (MaxConnectionsPerChild)
    #[arg(long, value_name = "N", aliases = ["MaxConnectionsPerChild", "MaxRequestsPerChild"])]
    max_connections_per_child: Option<u32>,
}

impl StaffArgs {
    /// Puts what was said into `shape`.
    pub fn apply(&self, shape: &mut Shape) {
        shape.workers = self.workers.unwrap_or(shape.workers);
        shape.knobs.staff = Staff {
            policy: self.policy,
            threads: self.threads,
            start: self.start,
            spare_min: self.spare_min,
            spare_max: self.spare_max,
            // Apache's word for never is 0.
            lifetime: self.max_connections_per_child.filter(|most| *most > 0),
        };
    }

    /// What was corrected, in words: nothing is corrected in silence.
    pub fn corrections(&self, shape: &Shape) -> Option<String> {
        let (said, in_force) = (self.spare_max?, shape.staffing()?.terms.spare_max);
        (said != in_force).then(|| {
            format!(
                "--spare-max {said} is taken as {in_force}: the least spare and one process more, \
                 or each new process would be one too many"
            )
        })
    }
}
