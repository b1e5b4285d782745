//! The parts of a market, and which choices exclude each other.

use std::path::PathBuf;
use std::time::Duration;

use cluster::StoreAddress;
use engines::{Refused, Shape};
use stock::{Durability, Index, Options, Reads};

use crate::order_log::folder_of;

/// The market of shares, and what keeps its orders. By default it has ten built-in stocks and keeps
/// nothing.
#[derive(Clone, Debug, Default)]
pub struct MarketOptions {
    /// The service; [`Durability`] other than `None` needs `data`.
    pub service: Options,
    /// The index that finds a stock by its id.
    pub index: Index,
    /// The file of stocks, in which orders are saved.
    pub data: Option<PathBuf>,
    /// Save this often, as well as after the last disconnect and at the end; 0: only then.
    pub save_every: Option<Duration>,
    /// Full segments of the log that stay when older ones are compacted; by default 64, 4 with
    /// `replicate`.
    pub log_keep: Option<usize>,
    /// The store of the market, if several nodes serve it; the service is durable then.
    pub replicate: Option<StoreAddress>,
    /// Where `show` reads a market of several nodes.
    pub read: Option<Reads>,
}

impl MarketOptions {
    /// The events that an answered order survives.
    pub fn durability(&self) -> Durability {
        if self.replicate.is_some() { Durability::Sync } else { self.service.durability }
    }

    /// The interval between saves.
    pub(crate) fn every(&self) -> Option<Duration> {
        self.save_every.filter(|every| !every.is_zero())
    }

    /// Refuses a lock that worker processes cannot have.
    pub(crate) fn check_lock(&self, shape: &Shape) -> Result<(), Refused> {
        let reason = self.service.lock.refused_between_processes();
        match reason.filter(|_| shape.container.is_processes()) {
            Some(reason) => Err(Refused(reason.to_owned())),
            None => Ok(()),
        }
    }

    /// Refuses a log where there can be none.
    pub(crate) fn check_log(&self, is_handed_over: bool) -> Result<(), Refused> {
        let durability = self.service.durability;
        let has_log = self.data.as_deref().is_some_and(|data| folder_of(data).is_dir());
        let why = match &self.replicate {
            None if self.read.is_some() => {
                "--read chooses where `show` reads a market of several nodes: say --replicate too"
            }
            None if durability == Durability::None && has_log => {
                "the book has a log, FILE.log, whose orders would be lost: say --durability os or \
                 sync, or remove that folder"
            }
            None if durability == Durability::None => return Ok(()),
            None if self.data.is_none() => {
                "--durability needs --data FILE, next to which the log lies"
            }
            None if is_handed_over => {
                "a market with a log is not handed over: stop the server, then start it; the \
                 predecessor goes on serving"
            }
            Some(_) if has_log => {
                "the book has a log, FILE.log: begin the market of several nodes with a book that \
                 has none"
            }
            Some(_) if durability == Durability::Os => {
                "--replicate keeps orders in the store that it names: leave out --durability"
            }
            Some(_) if is_handed_over => {
                "a node is not handed over: stop it, then start it; the other nodes go on serving"
            }
            None | Some(_) => return Ok(()),
        };
        Err(Refused(why.to_owned()))
    }

    /// The orders that a crash would lose, and the option that prevents it.
    pub(crate) fn risk(&self) -> String {
        if let Some(address) = &self.replicate {
            return format!("orders are answered when most machines of {address} have them");
        }
        match (self.durability(), self.every()) {
            (Durability::Sync, _) => {
                "durability sync: orders are answered when they are on the disk".into()
            }
            (Durability::Os, _) => {
                "durability os: a killed server loses no answered order, a power cut may".into()
            }
            (Durability::None, _) if self.data.is_none() => {
                "the built-in stocks are served and not saved: --data FILE keeps orders".into()
            }
            (Durability::None, None) => {
                "the file is saved when no client is connected, and at the end; a crash loses the \
                 orders since: --save-every 1s bounds that"
                    .into()
            }
            (Durability::None, Some(every)) => {
                format!("a crash loses at most the orders of the last {every:?}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: MarketOptions, is_handed_over: bool, why: &str) {
        let refused = options.check_log(is_handed_over);
        let text = refused.err().map_or(String::new(), |Refused(why)| why);
        assert!(text.contains(why) && text.is_empty() == why.is_empty(), "{text}");
    }

    fn durable(durability: Durability) -> MarketOptions {
        let service = Options { durability, ..Options::default() };
        MarketOptions { service, data: Some("no/such/book".into()), ..MarketOptions::default() }
    }

    #[test]
    fn a_log_is_refused_where_there_can_be_none() {
        check(MarketOptions::default(), true, "");
        check(durable(Durability::Os), false, "");
        check(durable(Durability::Sync), true, "is not handed over");
        check(MarketOptions { data: None, ..durable(Durability::Sync) }, false, "needs --data");
        let read = Some(Reads::Local);
        check(MarketOptions { read, ..MarketOptions::default() }, false, "say --replicate too");
        let replicate: Option<StoreAddress> = "etcd://a:1/m".parse().ok();
        let nodes =
            |durability| MarketOptions { replicate: replicate.clone(), ..durable(durability) };
        check(MarketOptions { read, ..nodes(Durability::None) }, false, "");
        check(nodes(Durability::Os), false, "leave out --durability");
        check(nodes(Durability::None), true, "a node is not handed over");
    }
}
