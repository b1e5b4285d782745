//! Files that can be played: their plans, and their bytes in memory or on disk.
//!
//! A file of ordinary length is read once and shared by all clients, so that a packet costs no
//! system call and no copy. A long file is read in windows. Audio samples that are sent in the
//! other byte order are swapped when they are read, not when they are sent.

use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seam::Source;
use wire::containers::{self, Payload, Program, Unplayable};

use super::options::Options;
use web::{LookupError, Meta, Platform, Resource};

/// The number of bytes of a long file that are read at once.
const WINDOW: usize = 256 * 1024;

/// A file that can be played.
#[derive(Debug)]
pub struct Title<F> {
    /// Its path beneath the root.
    pub path: String,
    /// The version of the file; it changes when the file does.
    pub stamp: u64,
    pub program: Program,
    len: u64,
    store: Store<F>,
}

#[derive(Debug)]
enum Store<F> {
    Memory(Arc<[u8]>),
    /// A file that is read when needed.
    File(Mutex<F>),
}

/// Why a file is not played.
#[derive(Debug, Clone)]
pub enum Trouble {
    /// The file cannot be opened.
    LookupError(LookupError),
    /// The file is not playable, for this reason.
    Unplayable(String),
}

pub type Loaded<F> = Result<Arc<Title<F>>, Trouble>;

/// Identifies the version of a file.
pub fn stamp(meta: Meta) -> u64 {
    meta.modified_ns.wrapping_mul(31).wrapping_add(meta.len) ^ meta.version
}

/// Locks a mutex. A poisoned one is usable, because each change is one store.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<F: Send + 'static> Title<F> {
    /// Opens `path` and reads it; may block.
    pub fn load<B: Platform<File = F>>(
        platform: &B,
        options: &Options,
        path: &str,
    ) -> Result<Title<F>, Trouble> {
        let (file, meta) = match platform.find(path.as_bytes()) {
            Ok(Resource::File(file, meta)) => (file, meta),
            Ok(Resource::Folder) => return Err(Trouble::LookupError(LookupError::Absent)),
            Err(missing) => return Err(Trouble::LookupError(missing)),
        };
        let unplayable = |unplayable: Unplayable| Trouble::Unplayable(unplayable.to_string());
        let mut reader = Reader { platform, file: &file, len: meta.len, at: 0 };
        let (program, store) = if meta.len <= options.file_max && !options.from_files {
            let mut bytes = Vec::with_capacity(meta.len as usize);
            reader.read_to_end(&mut bytes).map_err(|error| unplayable(error.into()))?;
            let program = containers::open(&mut Cursor::new(&bytes)).map_err(unplayable)?;
            swap(&program, 0, &mut bytes);
            (program, Store::Memory(bytes.into()))
        } else {
            let program = containers::open(&mut reader).map_err(unplayable)?;
            (program, Store::File(Mutex::new(file)))
        };
        Ok(Title { path: path.to_owned(), stamp: stamp(meta), program, len: meta.len, store })
    }

    /// The number of bytes that the title keeps in memory, without its plan.
    fn weight(&self) -> u64 {
        match &self.store {
            Store::Memory(bytes) => bytes.len() as u64,
            Store::File(_) => 0,
        }
    }
}

/// Swaps the bytes of samples in `bytes`, which begin at `from` in the file.
fn swap(program: &Program, from: u64, bytes: &mut [u8]) {
    // A file with swapped samples has exactly one track.
    let [track] = &program.tracks[..] else { return };
    let last = track.plan.len() - 1;
    let ends = (track.plan.packet(0).payload, track.plan.packet(last).payload);
    let (Payload::Swapped(first), Payload::Swapped(last)) = ends else { return };
    let (start, end) = (first.start.max(from), last.end.min(from + bytes.len() as u64));
    if start < end {
        // Samples have two bytes, and windows begin at a payload.
        let samples = &mut bytes[(start - from) as usize..(end - from) as usize];
        samples.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
    }
}

/// A part of a long file; empty at first.
#[derive(Clone, Debug, Default)]
pub struct Window {
    from: u64,
    bytes: Option<Arc<[u8]>>,
}

pub type Bytes = (Arc<[u8]>, Range<usize>);

impl<F: Send + 'static> Title<F> {
    /// The bytes of a payload, if they are in memory.
    #[inline]
    pub fn bytes(&self, payload: &Payload, window: &Window) -> Option<Bytes> {
        let (range, (memory, from)) = match (payload, &self.store) {
            (Payload::Made(range), _) => return Some((self.program.made.clone(), range.clone())),
            (Payload::File(range) | Payload::Swapped(range), Store::Memory(bytes)) => {
                (range, (bytes, 0))
            }
            (Payload::File(range) | Payload::Swapped(range), Store::File(_)) => {
                (range, (window.bytes.as_ref()?, window.from))
            }
        };
        let start = usize::try_from(range.start.checked_sub(from)?).ok()?;
        let end = start + payload.len();
        (end <= memory.len()).then(|| (memory.clone(), start..end))
    }

    /// The file range of a payload, for senders that send from files; `None` where the file's bytes
    /// differ from those sent.
    pub fn piece<B: Platform<File = F>>(
        &self,
        platform: &B,
        payload: &Payload,
    ) -> Option<(Source, Range<u64>)> {
        let (Payload::File(range), Store::File(file)) = (payload, &self.store) else { return None };
        Some((platform.source(&locked(file))?, range.clone()))
    }

    /// The window of a long file that begins with `payload`; may block.
    ///
    /// # Errors
    /// Those of reading; also if the file has become shorter.
    pub fn window<B: Platform<File = F>>(
        &self,
        platform: &B,
        payload: &Payload,
    ) -> io::Result<Window> {
        let (Payload::File(range) | Payload::Swapped(range)) = payload else {
            return Ok(Window::default());
        };
        let Store::File(file) = &self.store else { return Ok(Window::default()) };
        let from = range.start;
        let wanted = WINDOW.min(self.len.saturating_sub(from) as usize);
        let mut bytes = Vec::with_capacity(wanted);
        while bytes.len() < wanted {
            let at = from + bytes.len() as u64;
            let left = wanted - bytes.len();
            if platform.read(&locked(file), at, left, &mut bytes)? == 0 {
                break;
            }
        }
        if bytes.len() < payload.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        swap(&self.program, from, &mut bytes);
        Ok(Window { from, bytes: Some(bytes.into()) })
    }
}

/// A file of the platform as the standard library's reader.
struct Reader<'a, B: Platform> {
    platform: &'a B,
    file: &'a B::File,
    len: u64,
    at: u64,
}

impl<B: Platform> Read for Reader<'_, B> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut bytes = Vec::with_capacity(into.len());
        let read = self.platform.read(self.file, self.at, into.len(), &mut bytes)?;
        let read = read.min(into.len());
        into[..read].copy_from_slice(&bytes[..read]);
        self.at += read as u64;
        Ok(read)
    }
}

impl<B: Platform> Seek for Reader<'_, B> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// The titles in memory.
#[derive(Debug)]
pub struct Library<F> {
    shelf: Mutex<Shelf<F>>,
    /// Each lock is held while a path that maps to it is read.
    turns: [Mutex<()>; TURNS],
}

/// The maximum number of files that are read at the same time.
const TURNS: usize = 16;

#[derive(Debug)]
struct Shelf<F> {
    titles: Vec<(Arc<Title<F>>, u64)>,
    /// Counts requests, to find the title that was requested longest ago.
    asked: u64,
}

/// The maximum total of all files in memory, in bytes; files that play are never dropped.
const MEMORY_MAX: u64 = 512 << 20;
/// The maximum number of titles that are kept, however small.
const TITLES_MAX: usize = 4096;

impl<F: Send + 'static> Library<F> {
    pub fn new() -> Library<F> {
        let shelf = Mutex::new(Shelf { titles: Vec::new(), asked: 0 });
        Library { shelf, turns: [const { Mutex::new(()) }; TURNS] }
    }

    /// The current title at `path`, read if it is not in memory. Concurrent requests share one
    /// read. May block.
    pub fn get<B: Platform<File = F>>(
        &self,
        platform: &B,
        options: &Options,
        path: &str,
    ) -> Loaded<F> {
        let place =
            path.bytes().fold(0, |sum: usize, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let _turn = locked(&self.turns[place % TURNS]);
        let known = match platform.find(path.as_bytes()) {
            Ok(Resource::File(_, meta)) => Some(stamp(meta)),
            _ => None,
        };
        if let Some(title) = known.and_then(|stamp| self.find(path, stamp)) {
            return Ok(title);
        }
        let title = Arc::new(Title::load(platform, options, path)?);
        self.keep(title.clone());
        Ok(title)
    }

    /// The current title of this file, if it is in memory.
    pub fn find(&self, path: &str, stamp: u64) -> Option<Arc<Title<F>>> {
        let mut shelf = locked(&self.shelf);
        shelf.asked += 1;
        let asked = shelf.asked;
        let is_it = |title: &Title<F>| title.stamp == stamp && title.path == path;
        let (title, last) = shelf.titles.iter_mut().find(|(title, _)| is_it(title))?;
        *last = asked;
        Some(title.clone())
    }

    /// Keeps `title`, and drops unused titles beyond the limit.
    fn keep(&self, title: Arc<Title<F>>) {
        let mut shelf = locked(&self.shelf);
        let asked = shelf.asked;
        let is_it = |kept: &Title<F>| kept.stamp == title.stamp && kept.path == title.path;
        shelf.titles.retain(|(kept, _)| !is_it(kept));
        shelf.titles.push((title, asked));
        loop {
            let weight: u64 = shelf.titles.iter().map(|(title, _)| title.weight()).sum();
            if weight <= MEMORY_MAX && shelf.titles.len() <= TITLES_MAX {
                return;
            }
            let idle = (0..shelf.titles.len() - 1)
                .filter(|at| Arc::strong_count(&shelf.titles[*at].0) == 1)
                .min_by_key(|at| shelf.titles[*at].1);
            let Some(idle) = idle else { return };
            shelf.titles.swap_remove(idle);
        }
    }
}
