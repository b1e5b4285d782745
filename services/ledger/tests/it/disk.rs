//! A disk that forgets what was not synced: sectors are lost, torn, or written out of order, and of
//! the changes of names a prefix survives.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::rc::Rc;

use ledger::{Disk, DiskFile};
use stats::Rng;

const SECTOR: usize = 512;

/// A fault, and its operation, counted from [`SimDisk::expect`].
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    Never,
    Cut(usize),
    /// One operation fails; a failed sync loses pages and marks them clean.
    Error(usize),
}

/// A disk that is not what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    None,
    /// Every third sync of a file does nothing.
    DroppedSync,
    /// No sync of names does anything.
    DroppedNameSync,
}

#[derive(Clone, Default)]
struct Inode {
    durable: Vec<u8>,
    now: Vec<u8>,
    /// Writes since the last sync, each within a sector.
    pending: Vec<(usize, Vec<u8>)>,
}

type Names = BTreeMap<String, usize>;

struct World {
    inodes: Vec<Inode>,
    names: Names,
    /// The durable names, then the state after each later change.
    named: Vec<Names>,
    rng: Rng,
    trouble: Trouble,
    lie: Lie,
    operations: usize,
    syncs: usize,
}

/// A simulated disk; its clones are the same disk.
#[derive(Clone)]
pub struct SimDisk(Rc<RefCell<World>>);

pub struct SimFile(SimDisk, usize);

fn put(bytes: &mut Vec<u8>, at: usize, new: &[u8]) {
    if bytes.len() < at + new.len() {
        bytes.resize(at + new.len(), 0);
    }
    bytes[at..at + new.len()].copy_from_slice(new);
}

impl Inode {
    /// Some of the unsynced writes reach the disk.
    fn lose(&mut self, rng: &mut Rng) {
        for (at, piece) in std::mem::take(&mut self.pending) {
            match rng.below(3) {
                0 => {}
                1 => put(&mut self.durable, at, &piece),
                _ => put(&mut self.durable, at, &piece[..rng.below(piece.len() + 1)]),
            }
        }
    }
}

impl World {
    /// Counts an operation; false if it must fail.
    fn goes_on(&mut self) -> bool {
        self.operations += 1;
        match self.trouble {
            Trouble::Never => true,
            Trouble::Cut(at) => self.operations < at,
            Trouble::Error(at) => self.operations != at,
        }
    }
}

fn refused() -> io::Error {
    io::Error::other("the simulated disk fails")
}

impl SimDisk {
    pub fn new(seed: u64, lie: Lie) -> SimDisk {
        SimDisk(Rc::new(RefCell::new(World {
            inodes: Vec::new(),
            names: Names::new(),
            named: vec![Names::new()],
            rng: Rng::new(seed),
            trouble: Trouble::Never,
            lie,
            operations: 0,
            syncs: 0,
        })))
    }

    /// Counts operations from 0, until `trouble`.
    pub fn expect(&self, trouble: Trouble) {
        let mut world = self.0.borrow_mut();
        (world.trouble, world.operations) = (trouble, 0);
    }

    pub fn operations(&self) -> usize {
        self.0.borrow().operations
    }

    /// The power fails and comes back.
    pub fn power_cut(&self) {
        let World { inodes, names, named, rng, .. } = &mut *self.0.borrow_mut();
        for inode in inodes {
            inode.lose(rng);
            inode.now = inode.durable.clone();
        }
        *names = named[rng.below(named.len())].clone();
        *named = vec![names.clone()];
    }

    /// Flips a bit of a file, on the disk too.
    pub fn flip(&self, name: &str, bit: usize) {
        let mut world = self.0.borrow_mut();
        let inode = world.names[name];
        world.inodes[inode].now[bit / 8] ^= 1 << (bit % 8);
    }

    fn change(&self, change: impl FnOnce(&mut World) -> io::Result<()>) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        if !world.goes_on() {
            return Err(refused());
        }
        change(&mut world)?;
        let names = world.names.clone();
        world.named.push(names);
        Ok(())
    }
}

impl Disk for SimDisk {
    type File = SimFile;

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.borrow().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<SimFile> {
        let found = self.0.borrow().names.get(name).copied().ok_or(ErrorKind::NotFound)?;
        Ok(SimFile(self.clone(), found))
    }

    fn create(&self, name: &str) -> io::Result<SimFile> {
        self.change(|world| {
            world.inodes.push(Inode::default());
            world.names.insert(name.to_owned(), world.inodes.len() - 1);
            Ok(())
        })?;
        self.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(|world| {
            let inode = world.names.remove(from).ok_or(ErrorKind::NotFound)?;
            world.names.insert(to.to_owned(), inode);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(|world| world.names.remove(name).map(drop).ok_or(ErrorKind::NotFound.into()))
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        if !world.goes_on() {
            return Err(refused());
        }
        if world.lie != Lie::DroppedNameSync {
            world.named = vec![world.names.clone()];
        }
        Ok(())
    }
}

impl DiskFile for SimFile {
    fn read(&self) -> io::Result<Vec<u8>> {
        Ok(self.0.0.borrow().inodes[self.1].now.clone())
    }

    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut world = self.0.0.borrow_mut();
        let goes_on = world.goes_on();
        // An error may come after a part.
        let whole = if goes_on { bytes.len() } else { world.rng.below(bytes.len() + 1) };
        let inode = &mut world.inodes[self.1];
        let (mut at, mut rest) = (at as usize, &bytes[..whole]);
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(rest.len().min(SECTOR - at % SECTOR));
            put(&mut inode.now, at, piece);
            inode.pending.push((at, piece.to_vec()));
            (at, rest) = (at + piece.len(), later);
        }
        if goes_on { Ok(()) } else { Err(refused()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut world = self.0.0.borrow_mut();
        let goes_on = world.goes_on();
        world.syncs += 1;
        if world.lie == Lie::DroppedSync && world.syncs.is_multiple_of(3) {
            return Ok(());
        }
        let World { inodes, rng, .. } = &mut *world;
        let inode = &mut inodes[self.1];
        if !goes_on {
            inode.lose(rng);
            return Err(refused());
        }
        // Pages that a failed sync has marked clean stay as they are.
        for (at, piece) in std::mem::take(&mut inode.pending) {
            put(&mut inode.durable, at, &piece);
        }
        Ok(())
    }
}
