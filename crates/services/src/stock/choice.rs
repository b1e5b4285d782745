//! The options of the stock service: the index, the order of `show`, and the lock.

use std::str::FromStr;

/// The order in which `show` lists the stocks. Clients never depend on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}", self.name())]
pub enum Order {
    /// The order of the file, which is the tree level by level.
    #[default]
    File,
    /// By ascending id.
    Sorted,
    /// The tree from the root, each node before its children: the index's own tree, if it has one
    /// ([`Index::Bst`], [`Index::RedBlack`]), otherwise the tree that the file fills level by
    /// level.
    PreOrder,
}

/// The data structure that finds a stock by its id. All give the same replies, except in
/// [`Order::PreOrder`]; they differ in the cost of an order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, derive_more::Display)]
#[repr(u32)]
#[display("{}", self.name())]
pub enum Index {
    /// One probe into a hash table.
    #[default]
    Hash,
    /// The course's complete tree, which is not ordered by id and is scanned level by level: n
    /// steps.
    LevelOrder,
    /// A binary search tree, filled in the order of the file: about 2 ln n steps if that is random,
    /// n if it is ascending.
    Bst,
    /// A balanced tree: at most 2 log2 n steps.
    RedBlack,
    /// The sorted array with binary search: log2 n steps.
    Sorted,
}

/// How concurrent orders and `show` are synchronised.
///
/// With every lock, an order changes one row by one atomic operation, so none can lose or invent
/// stock. The locks differ in what `show` guarantees and in what an order waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}", self.name())]
pub enum Lock {
    /// Orders never wait for each other; `show` stops them for as long as it copies the rows and is
    /// an atomic snapshot.
    #[default]
    Snapshot,
    /// The course's readers-writers lock, one for each row. `show` locks one row at a time, so it
    /// is no snapshot: it may see only some of several concurrent orders.
    PerStock,
    /// One lock around each order and each whole `show`, which is therefore a snapshot.
    Global,
}

/// The events that an answered order survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}", self.name())]
pub enum Durability {
    /// Nothing: orders are in memory, and saved with the book.
    #[default]
    None,
    /// The end of all processes of the server, at any instant.
    Os,
    /// A power cut: an order is answered only after its batch is on the disk.
    Sync,
}

/// An unknown value of an option.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display("{} expects {}, found `{}`", self.flag, self.expected, self.found)]
pub struct BadChoice {
    flag: &'static str,
    expected: &'static str,
    found: String,
}

impl Order {
    /// Every order, the default first.
    pub const ALL: [Order; 3] = [Order::File, Order::Sorted, Order::PreOrder];

    /// Its name in flags.
    pub fn name(self) -> &'static str {
        match self {
            Order::File => "file",
            Order::Sorted => "sorted",
            Order::PreOrder => "pre-order",
        }
    }
}

impl Index {
    /// Every kind, the default first.
    pub const ALL: [Index; 5] =
        [Index::Hash, Index::LevelOrder, Index::Bst, Index::RedBlack, Index::Sorted];

    /// Its name in flags.
    pub fn name(self) -> &'static str {
        match self {
            Index::Hash => "hash",
            Index::LevelOrder => "level-order",
            Index::Bst => "bst",
            Index::RedBlack => "red-black",
            Index::Sorted => "sorted",
        }
    }
}

impl Lock {
    /// Every kind, the default first.
    pub const ALL: [Lock; 3] = [Lock::Snapshot, Lock::PerStock, Lock::Global];

    /// Its name in flags.
    pub fn name(self) -> &'static str {
        match self {
            Lock::Snapshot => "snapshot",
            Lock::PerStock => "per-stock",
            Lock::Global => "global",
        }
    }

    /// A note for the operator at start.
    pub fn note(self) -> Option<&'static str> {
        match self {
            Lock::Snapshot | Lock::Global => None,
            Lock::PerStock => Some(
                "per-stock: `show` locks one stock after the other, so it promises no snapshot of \
                 the whole book",
            ),
        }
    }

    /// Why the lock cannot be used if workers are processes; `None` if it can.
    pub fn refused_between_processes(self) -> Option<&'static str> {
        match self {
            Lock::Snapshot | Lock::Global => None,
            Lock::PerStock => Some(
                "--lock per-stock counts its readers without their names, so a worker process that \
                 is killed while reading would block a stock for good; use an engine with threads, \
                 or --lock snapshot or global",
            ),
        }
    }
}

impl Durability {
    /// Every kind, the default first.
    pub const ALL: [Durability; 3] = [Durability::None, Durability::Os, Durability::Sync];

    /// Its name in flags.
    pub fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::Os => "os",
            Durability::Sync => "sync",
        }
    }
}

impl FromStr for Durability {
    type Err = BadChoice;

    fn from_str(name: &str) -> Result<Durability, BadChoice> {
        Durability::ALL.into_iter().find(|it| it.name() == name).ok_or_else(|| BadChoice {
            flag: "--durability",
            expected: "none, os or sync",
            found: name.to_owned(),
        })
    }
}

impl FromStr for Order {
    type Err = BadChoice;

    fn from_str(name: &str) -> Result<Order, BadChoice> {
        Order::ALL.into_iter().find(|order| order.name() == name).ok_or_else(|| BadChoice {
            flag: "--order",
            expected: "file, sorted or pre-order",
            found: name.to_owned(),
        })
    }
}

impl FromStr for Index {
    type Err = BadChoice;

    fn from_str(name: &str) -> Result<Index, BadChoice> {
        Index::ALL.into_iter().find(|book| book.name() == name).ok_or_else(|| BadChoice {
            flag: "--index",
            expected: "hash, level-order, bst, red-black or sorted",
            found: name.to_owned(),
        })
    }
}

impl FromStr for Lock {
    type Err = BadChoice;

    fn from_str(name: &str) -> Result<Lock, BadChoice> {
        Lock::ALL.into_iter().find(|lock| lock.name() == name).ok_or_else(|| BadChoice {
            flag: "--lock",
            expected: "snapshot, per-stock or global",
            found: name.to_owned(),
        })
    }
}

impl std::error::Error for BadChoice {}

#[cfg(test)]
mod tests {
    use super::{Durability, Index, Lock, Order};

    #[test]
    fn names_are_read_back() {
        for order in Order::ALL {
            assert_eq!(order.name().parse(), Ok(order));
        }
        for book in Index::ALL {
            assert_eq!(book.name().parse(), Ok(book));
        }
        for lock in Lock::ALL {
            assert_eq!(lock.name().parse(), Ok(lock));
        }
        for durability in Durability::ALL {
            assert_eq!(durability.name().parse(), Ok(durability));
        }
        let message = "preorder".parse::<Order>().expect_err("refused").to_string();
        assert_eq!(message, "--order expects file, sorted or pre-order, found `preorder`");
        assert!("".parse::<Lock>().is_err());
    }
}
