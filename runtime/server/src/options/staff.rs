//! The flags about workers: how many there are, what decides it, how long they live. Apache's names
//! are accepted too, in this spelling.

use std::path::PathBuf;

use engines::spare::Policy;
use engines::{Accept, Container, Refused, Shape, Staff, Wait};

use crate::apache;

/// How many workers there are, and for how long.
#[derive(clap::Args)]
#[command(next_help_heading = "Workers")]
pub struct StaffArgs {
    /// Number of workers; where they come and go, the most at one time (MaxRequestWorkers)
    /// [default: the engine's]
    #[arg(long, value_name = "N", aliases = ["MaxRequestWorkers", "MaxClients"])]
    workers: Option<usize>,
    /// Threads in each process of a hybrid [default: 25], or of a port [default: two a core]
    /// (ThreadsPerChild)
    #[arg(long, value_name = "N", alias = "ThreadsPerChild")]
    threads: Option<usize>,
    /// Threads of a port that run at one time, without those that work on a job [default: half]
    #[arg(long, value_name = "R")]
    running: Option<usize>,
    /// Policy for the number of processes: static, apache (its once-a-second rule), damped
    /// (ours) [default: prefork static, hybrid damped]
    #[arg(long, value_name = "POLICY")]
    policy: Option<Policy>,
    /// Processes at startup (StartServers)
    #[arg(long, value_name = "N", alias = "StartServers")]
    start: Option<usize>,
    /// Fewest idle workers (MinSpareThreads, MinSpareServers)
    #[arg(long, value_name = "N", aliases = ["MinSpareThreads", "MinSpareServers"])]
    spare_min: Option<usize>,
    /// Most idle workers (MaxSpareThreads, MaxSpareServers)
    #[arg(long, value_name = "N", aliases = ["MaxSpareThreads", "MaxSpareServers"])]
    spare_max: Option<usize>,
    /// Replace a process after this many connections, less up to a tenth (MaxConnectionsPerChild)
    #[arg(long, value_name = "N", aliases = ["MaxConnectionsPerChild", "MaxRequestsPerChild"])]
    max_connections_per_child: Option<u32>,
    /// Take the directives about processes and threads from an Apache configuration; flags win
    #[arg(long, value_name = "FILE")]
    apache_conf: Option<PathBuf>,
}

impl StaffArgs {
    /// Applies the flags to `shape`, which has the defaults of the other flags.
    ///
    /// # Errors
    /// The configuration has a mistake.
    pub fn apply(&self, shape: &mut Shape) -> Result<(), Refused> {
        let conf = match &self.apache_conf {
            Some(file) => apache::read(file, shape)?,
            None => apache::Directives::default(),
        };
        conf.notes.iter().for_each(|words| language::info!("{words}"));
        shape.workers = self.workers.or(conf.workers).unwrap_or(shape.workers);
        let policy = match (self.policy, &self.apache_conf, shape.container) {
            // Apache's processes come and go.
            (None, Some(_), Container::Processes) => Some(Policy::Damped),
            (policy, ..) => policy,
        };
        let is_static = policy == Some(Policy::Static);
        let moving = |value: Option<usize>| value.filter(|_| !is_static);
        if is_static && conf.start.or(conf.spare_min).or(conf.spare_max).is_some() {
            language::info!(
                "--policy static: start and spare workers of the configuration are left out"
            );
        }
        shape.knobs.staff = Staff {
            policy,
            threads: self.threads.or(conf.threads),
            start: self.start.or(moving(conf.start)),
            spare_min: self.spare_min.or(moving(conf.spare_min)),
            spare_max: self.spare_max.or(moving(conf.spare_max)),
            // Apache writes 0 for never.
            lifetime: self.max_connections_per_child.or(conf.lifetime).filter(|most| *most > 0),
        };
        let knobs = &mut shape.knobs;
        knobs.backlog = conf.backlog.unwrap_or(knobs.backlog);
        knobs.sessions_max = conf.max_connections.or(knobs.sessions_max);
        if conf.is_locked {
            shape.accept = Accept::Lock;
        }
        Ok(())
    }

    /// Makes a port's threads its workers.
    ///
    /// # Errors
    /// --threads and --workers differ.
    pub fn man_port(&self, shape: &mut Shape) -> Result<(), Refused> {
        shape.knobs.running = self.running;
        if shape.wait != Wait::Port {
            return Ok(());
        }
        match (shape.knobs.staff.threads.take(), self.workers) {
            (Some(threads), Some(workers)) if threads != workers => Err(Refused(format!(
                "a port's workers are its threads, found --threads {threads} and --workers \
                 {workers}: leave one of them out"
            ))),
            (Some(threads), _) => {
                shape.workers = threads;
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    /// The correction of --spare-max, if there is one, for the user.
    pub fn corrections(&self, shape: &Shape) -> Option<String> {
        let (wanted, in_force) = (self.spare_max?, shape.staffing()?.terms.spare_max);
        (wanted != in_force).then(|| {
            format!(
                "--spare-max {wanted} is taken as {in_force}: the least spare and one process \
                 more, or each new process would be one too many"
            )
        })
    }
}
