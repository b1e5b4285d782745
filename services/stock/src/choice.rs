//! The options of the stock service: the market, the index, the order of `show`, and the lock.

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

/// Where `show` reads a market that several nodes serve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}", self.name())]
pub enum Reads {
    /// In the log: it has every order that was answered before, on any node.
    #[default]
    Strict,
    /// On the node: it may lack the last orders, and says how old it is.
    Local,
}

/// Lists the values of each option, the default first, with their names in flags; reads them.
macro_rules! choices {
    ($($type:ident $flag:literal: $($value:ident = $name:literal),+;)+) => {$(
        impl $type {
            /// Every value, the default first.
            pub const ALL: [$type; [$($name),+].len()] = [$($type::$value),+];

            /// Its name in flags.
            pub fn name(self) -> &'static str {
                match self { $($type::$value => $name),+ }
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(name: &str) -> Result<$type, String> {
                match name {
                    $($name => Ok($type::$value),)+
                    _ => {
                        let names = [$($name),+].join(", ");
                        Err(format!("{} expects one of {names}, found `{name}`", $flag))
                    }
                }
            }
        }
    )+};
}

choices! {
    Order "--order": File = "file", Sorted = "sorted", PreOrder = "pre-order";
    Index "--index": Hash = "hash", LevelOrder = "level-order", Bst = "bst",
        RedBlack = "red-black", Sorted = "sorted";
    Lock "--lock": Snapshot = "snapshot", PerStock = "per-stock", Global = "global";
    Durability "--durability": None = "none", Os = "os", Sync = "sync";
    Reads "--read": Strict = "strict", Local = "local";
}

impl Lock {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        fn check<T: FromStr + Copy + PartialEq>(all: &[T], name: fn(T) -> &'static str) {
            assert!(all.iter().all(|it| name(*it).parse().ok() == Some(*it)));
        }
        check(&Order::ALL, Order::name);
        check(&Index::ALL, Index::name);
        check(&Lock::ALL, Lock::name);
        check(&Durability::ALL, Durability::name);
        check(&Reads::ALL, Reads::name);
        let message = "preorder".parse::<Order>().expect_err("refused");
        assert_eq!(message, "--order expects one of file, sorted, pre-order, found `preorder`");
        assert!("".parse::<Lock>().is_err());
    }
}
