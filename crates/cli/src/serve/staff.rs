//! The flags about workers: how many, who decides it, how long they stay. Apache's names for them
//! are accepted as they are, in this spelling.

use std::path::PathBuf;

use engines::spare::Policy;
use engines::{Accept, Container, Refused, Shape, Staff, Wait};

use super::apache;

/// How many workers there are, and for how long.
#[derive(clap::Args)]
pub struct StaffArgs {
    /// How many workers, at the most where they come and go (MaxRequestWorkers)
    #[arg(long, value_name = "N", aliases = ["MaxRequestWorkers", "MaxClients"])]
    workers: Option<usize>,
    /// Threads in each process of a hybrid [default: 25] (ThreadsPerChild), or of a port [default:
    /// two a core]
    #[arg(long, value_name = "N", alias = "ThreadsPerChild")]
    threads: Option<usize>,
    /// How many threads of a port run at one time; those that work on a job do not count [default:
    /// half of them]
    #[arg(long, value_name = "R")]
    running: Option<usize>,
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
    /// Take the directives about processes and threads from an Apache configuration; flags win
    #[arg(long, value_name = "FILE")]
    apache_conf: Option<PathBuf>,
}

impl StaffArgs {
    /// Puts what was said into `shape`, which has the defaults of the other flags.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn apply(&self, shape: &mut Shape) -> Result<(), Refused> {
        let conf = match &self.apache_conf {
            Some(file) => apache::read(file, shape)?,
            None => apache::Directives::default(),
        };
        conf.said.iter().for_each(|words| eprintln!("{words}"));
        shape.workers = self.workers.or(conf.workers).unwrap_or(shape.workers);
        let policy = match (self.policy, &self.apache_conf, shape.container) {
            // Such a file speaks of processes that come and go.
            (None, Some(_), Container::Processes) => Some(Policy::Damped),
            (policy, ..) => policy,
        };
        let is_static = policy == Some(Policy::Static);
        let moving = |value: Option<usize>| value.filter(|_| !is_static);
        if is_static && conf.start.or(conf.spare_min).or(conf.spare_max).is_some() {
            eprintln!("--policy static: start and spare workers of the configuration are left out");
        }
        shape.knobs.staff = Staff {
            policy,
            threads: self.threads.or(conf.threads),
            start: self.start.or(moving(conf.start)),
            spare_min: self.spare_min.or(moving(conf.spare_min)),
            spare_max: self.spare_max.or(moving(conf.spare_max)),
            // Apache's word for never is 0.
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

    /// A port's threads are its workers.
    ///
    /// # Errors
    /// Two numbers for the same thing.
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
