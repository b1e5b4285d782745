//! The place of a shared state: one mapping with a page of description, then the state itself.
//!
//! The description names the type of the state, so that a process that receives the mapping (an
//! upgrade) can check it and refuse unreadable states by name.
//!
//! The surprising thing: a region exists before its state does. It is placed zeroed,
//! founded once by `&mut`, and shared from then on; forking in between leaves the child
//! with a region that it may not use.

use std::borrow::Borrow;
use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use seam::{BadSeed, Share};
use sys::map::Mapping;

/// The kind of memory for a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Private to this process: for threads.
    Private,
    /// Anonymous shared memory: for processes forked later, and for a successor by descriptor.
    Shared,
}

/// The description in front of the state. All of it but `stage` is written once, before
/// any other process can see it.
#[repr(C)]
struct Header {
    magic: [u8; 8],
    /// A hash of everything that two programs must agree on, see [`layout`].
    layout: u64,
    size: u64,
    align: u64,
    /// Of the state's bytes, in an image.
    checksum: AtomicU64,
    stage: AtomicU32,
    name_len: u32,
    name: [u8; NAME_MAX],
}

const MAGIC: [u8; 8] = *b"rhregion";
/// The length from which huge pages pay: fewer than four cost more memory than they save misses.
const HUGE: usize = 8 << 20;
const NAME_MAX: usize = 512;
/// The state begins here, on a separate page.
const START: usize = 4096;
const _: () = assert!(size_of::<Header>() <= START);

const PLACED: u32 = 0;
const FOUNDING: u32 = 1;
const FOUNDED: u32 = 2;

/// A state of type `S` in a separate mapping. It dereferences to `&S` once it is founded. Each
/// dereference costs a test, so take the reference once.
#[derive(Debug)]
pub struct Region<S: Share> {
    mapping: Mapping,
    /// Whether this process founded the state, or found it founded.
    founded: bool,
    state: PhantomData<S>,
}

impl<S: Share> Region<S> {
    /// A zeroed region. The kernel provides pages on first touch.
    ///
    /// # Errors
    /// Those of [`Mapping::private`] and [`Mapping::shared`].
    pub fn place(placement: Placement) -> io::Result<Self> {
        const {
            assert!(!std::mem::needs_drop::<S>(), "a state in a mapping is never dropped");
            assert!(align_of::<S>() <= START, "a state begins on a page, and no coarser");
        }
        let mapping = match placement {
            Placement::Private => Mapping::private(Self::LEN)?,
            Placement::Shared => Mapping::shared(Self::LEN, c"roundhouse-state")?,
        };
        // Random reads of a large state miss the TLB for each page of 4 KiB.
        if Self::LEN >= HUGE {
            mapping.wish_huge_pages();
        }
        let header = describe::<S>();
        // SAFETY: the mapping is writable for at least a page, which holds a header, is aligned to
        // a page, and is not known anywhere else yet.
        unsafe { mapping.as_ptr().cast::<Header>().write(header) };
        Ok(Self { mapping, founded: false, state: PhantomData })
    }

    /// A private region that is filled from `seed`, for tests and fuzzers.
    ///
    /// # Panics
    /// If there is no memory, or the state objects to the seed.
    #[must_use]
    pub fn alone(seed: &[u8]) -> Self {
        let mut region = Self::place(Placement::Private).expect("memory");
        region.init(seed).expect("a seed that the state accepts");
        region
    }

    const LEN: usize = START + size_of::<S>();

    /// Fills the zeroed state from `seed`. After an error the region is useless: place another.
    ///
    /// # Errors
    /// The objections of [`Share::init`] to the seed.
    ///
    /// # Panics
    /// If founding was tried before, here or in another process that has this mapping.
    pub fn init(&mut self, seed: &[u8]) -> Result<(), BadSeed> {
        let stage = &self.header().stage;
        let first = stage.compare_exchange(PLACED, FOUNDING, Ordering::Acquire, Ordering::Relaxed);
        assert!(first.is_ok(), "expected a region that was never founded; place another");
        // SAFETY: the bytes are zeroed, which is a valid S (Share), aligned and long enough. Access
        // is exclusive: PLACED became FOUNDING once in all processes, here, and no process gives
        // out a reference before FOUNDED.
        let state = unsafe { &mut *self.state_ptr() };
        state.init(seed)?;
        self.header().stage.store(FOUNDED, Ordering::Release);
        self.founded = true;
        Ok(())
    }

    /// The state of a shared region that another process placed and founded, by its descriptor.
    /// Both processes see the same bytes from now on.
    ///
    /// The type is recognised by name, size, alignment and the version of this crate. Programs made
    /// by different compilers agree on the order of fields only in `repr(C)` types.
    ///
    /// # Errors
    /// [`Refused`] describes the contents found instead.
    pub fn adopt(fd: OwnedFd) -> Result<Self, Refused> {
        let mut bytes = [0; size_of::<Header>()];
        let file = std::fs::File::from(fd);
        file.read_exact_at(&mut bytes, 0).map_err(Refused::Unreadable)?;
        // SAFETY: a header is made of integers and bytes, for which every pattern is a value.
        let found = unsafe { bytes.as_ptr().cast::<Header>().read_unaligned() };
        check::<S>(&found)?;
        let mapping = Mapping::adopt(file.into(), Self::LEN).map_err(Refused::Unreadable)?;
        let region = Self { mapping, founded: true, state: PhantomData };
        // The founder's writes must be visible: read the stage again in the shared memory.
        let stage = region.header().stage.load(Ordering::Acquire);
        if stage == FOUNDED { Ok(region) } else { Err(Refused::NotFounded) }
    }

    /// The region as bytes for a file, from which [`Region::restore`] fills another one. The
    /// exclusive reference says that no worker is left.
    pub fn image(&mut self) -> &[u8] {
        let len = Self::LEN;
        // SAFETY: the mapping has LEN bytes that the kernel has initialised, and nobody writes them
        // while `self` is borrowed, except for the checksum, which is stored before this slice is
        // made for the second time.
        let bytes = || unsafe { std::slice::from_raw_parts(self.mapping.as_ptr(), len) };
        let checksum = stats::fnv1a(bytes()[START..].iter().copied());
        self.header().checksum.store(checksum, Ordering::Relaxed);
        bytes()
    }

    /// Fills the zeroed region from an image of another one, in place of [`Region::init`].
    ///
    /// # Errors
    /// [`Refused`] describes the contents found instead; the region is as before.
    ///
    /// # Panics
    /// As [`Region::init`].
    pub fn restore(&mut self, image: &[u8]) -> Result<(), Refused> {
        let found = image.get(..size_of::<Header>()).ok_or(Refused::NoRegion)?;
        // SAFETY: a header is made of integers and bytes, for which every pattern is a value.
        let found = unsafe { found.as_ptr().cast::<Header>().read_unaligned() };
        check::<S>(&found)?;
        let state = &image[START.min(image.len())..];
        let checksum = stats::fnv1a(state.iter().copied());
        if state.len() != size_of::<S>() || checksum != found.checksum.into_inner() {
            return Err(Refused::Damaged);
        }
        let stage = &self.header().stage;
        let first = stage.compare_exchange(PLACED, FOUNDING, Ordering::Acquire, Ordering::Relaxed);
        assert!(first.is_ok(), "expected a region that was never founded; place another");
        // SAFETY: access is exclusive, as in `init`. The bytes were a valid S when the image was
        // made: its name, size and layout are those of S, and its checksum holds.
        unsafe {
            self.state_ptr().cast::<u8>().copy_from_nonoverlapping(state.as_ptr(), state.len())
        };
        self.header().stage.store(FOUNDED, Ordering::Release);
        self.founded = true;
        Ok(())
    }

    /// The descriptor of a shared region, for a process that calls [`Region::adopt`].
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.mapping.fd()
    }

    fn header(&self) -> &Header {
        // SAFETY: every region begins with a header, whose only changing part is atomic.
        unsafe { &*self.mapping.as_ptr().cast::<Header>() }
    }

    fn state_ptr(&self) -> *mut S {
        // SAFETY: the mapping has START + size_of::<S>() bytes, see LEN.
        unsafe { self.mapping.as_ptr().add(START).cast() }
    }
}

impl<S: Share> Deref for Region<S> {
    type Target = S;

    /// # Panics
    /// If this process has not founded the region.
    fn deref(&self) -> &S {
        assert!(self.founded, "expected a founded region; found it first, fork afterwards");
        // SAFETY: the bytes are a valid S while the mapping lives, and since FOUNDED they change
        // only by the atomics and locks that Share demands.
        unsafe { &*self.state_ptr() }
    }
}

impl<S: Share> Borrow<S> for Region<S> {
    fn borrow(&self) -> &S {
        self
    }
}

/// The reason that a region of another process is not adopted.
#[derive(Debug, derive_more::Display)]
pub enum Refused {
    /// The descriptor cannot be read, or is not shared memory of sealed size.
    #[display("{_0}")]
    Unreadable(io::Error),
    /// The contents were not made by [`Region::place`].
    #[display(
        "expected a shared state, found other bytes; pass the descriptor that the running server \
         gave"
    )]
    NoRegion,
    /// A state of another type, size, alignment or version.
    #[display(
        "expected the state {expected}, found {found}; stop the running server and start this one"
    )]
    OtherLayout {
        /// The state of this program.
        expected: String,
        /// The state found there.
        found: String,
    },
    /// The state was never founded, or its founder failed.
    #[display(
        "expected a state in use, found one that was never filled; stop the running server and \
         start this one"
    )]
    NotFounded,
    /// An image whose bytes have changed, or whose end is missing.
    #[display("expected a whole image of a state, found one whose checksum does not fit it")]
    Damaged,
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable(error) => Some(error),
            Self::NoRegion | Self::OtherLayout { .. } | Self::NotFounded | Self::Damaged => None,
        }
    }
}

fn describe<S>() -> Header {
    let full = std::any::type_name::<S>().as_bytes();
    let len = full.len().min(NAME_MAX);
    let mut name = [0; NAME_MAX];
    name[..len].copy_from_slice(&full[..len]);
    Header {
        magic: MAGIC,
        layout: layout::<S>(),
        size: size_of::<S>() as u64,
        align: align_of::<S>() as u64,
        checksum: AtomicU64::new(0),
        stage: AtomicU32::new(PLACED),
        name_len: len as u32,
        name,
    }
}

/// Checks that a header describes a filled state of type `S`.
fn check<S>(found: &Header) -> Result<(), Refused> {
    let expected = describe::<S>();
    if found.magic != MAGIC {
        return Err(Refused::NoRegion);
    }
    if found.layout != expected.layout {
        return Err(Refused::OtherLayout { expected: title(&expected), found: title(found) });
    }
    if found.stage.load(Ordering::Relaxed) != FOUNDED {
        return Err(Refused::NotFounded);
    }
    Ok(())
}

/// The hash of everything that two programs must agree on.
fn layout<S>() -> u64 {
    let fields = [
        std::any::type_name::<S>(),
        &size_of::<S>().to_string(),
        &align_of::<S>().to_string(),
        env!("CARGO_PKG_VERSION"),
    ];
    stats::fnv1a(fields.iter().flat_map(|field| field.bytes().chain([0])))
}

/// The description in words. Its source is untrusted, so its length is checked.
fn title(header: &Header) -> String {
    let name = &header.name[..(header.name_len as usize).min(NAME_MAX)];
    let (size, align, layout) = (header.size, header.align, header.layout);
    let name = String::from_utf8_lossy(name);
    format!("{name} ({size} bytes, aligned to {align}, layout {layout:016x})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[derive(Debug)]
    #[repr(C)]
    struct World {
        frozen: u64,
        leaf: AtomicU64,
        large: [AtomicU64; 1 << 16],
    }

    // SAFETY: integers and atomics; `frozen` changes in `found` only.
    unsafe impl Share for World {
        fn init(&mut self, seed: &[u8]) -> Result<(), BadSeed> {
            assert_eq!((self.frozen, *self.leaf.get_mut()), (0, 0));
            self.frozen = seed.len() as u64;
            if seed.is_empty() {
                Err(BadSeed("expected a seed, found none".into()))
            } else {
                Ok(())
            }
        }
    }

    #[derive(Debug)]
    struct Other(World);

    // SAFETY: as World.
    unsafe impl Share for Other {
        fn init(&mut self, seed: &[u8]) -> Result<(), BadSeed> {
            self.0.init(seed)
        }
    }

    fn founded(placement: Placement) -> Region<World> {
        let mut region = Region::<World>::place(placement).unwrap();
        region.init(b"four").unwrap();
        region
    }

    fn hand_over<S: Share>(region: &Region<World>) -> Result<Region<S>, Refused> {
        Region::adopt(region.fd().unwrap().try_clone_to_owned().unwrap())
    }

    #[test]
    fn an_image_fills_another_region() {
        let mut region = founded(Placement::Shared);
        region.large[7].store(9, Ordering::Relaxed);
        let image = region.image().to_vec();
        let mut next = Region::<World>::place(Placement::Private).unwrap();
        for bad in [vec![], image[..100].to_vec(), [b"x", &image[1..]].concat()] {
            assert!(matches!(next.restore(&bad), Err(Refused::NoRegion)));
        }
        let other = Region::<Other>::place(Placement::Private).unwrap().restore(&image);
        assert!(matches!(other, Err(Refused::OtherLayout { .. })));
        let mut flipped = image.clone();
        *flipped.last_mut().unwrap() ^= 1;
        for bad in [&flipped[..], &image[..image.len() - 1], &image[..2000]] {
            assert!(matches!(next.restore(bad), Err(Refused::Damaged)));
        }
        next.restore(&image).unwrap();
        assert_eq!((next.frozen, next.large[7].load(Ordering::Relaxed)), (4, 9));
    }

    #[test]
    fn a_state_is_founded_once_and_then_shared() {
        for placement in [Placement::Private, Placement::Shared] {
            let region = founded(placement);
            assert_eq!((region.frozen, region.fd().is_some()), (4, placement == Placement::Shared));
            assert!(region.large.iter().all(|it| it.load(Ordering::Relaxed) == 0));
            std::thread::scope(|threads| {
                for _ in 0..4 {
                    threads.spawn(|| region.leaf.fetch_add(1, Ordering::Relaxed));
                }
            });
            assert_eq!(region.leaf.load(Ordering::Relaxed), 4);
        }
    }

    #[test]
    fn a_successor_sees_the_same_state() {
        let region = founded(Placement::Shared);
        region.leaf.store(9, Ordering::Relaxed);
        let successor: Region<World> = hand_over(&region).unwrap();
        assert_eq!((successor.frozen, successor.leaf.load(Ordering::Relaxed)), (4, 9));
        drop(region);
        successor.large[65_535].store(1, Ordering::Relaxed);
        assert!(founded(Placement::Private).fd().is_none());
    }

    #[test]
    fn a_stranger_is_refused_by_name() {
        let region = founded(Placement::Shared);
        let error = hand_over::<Other>(&region).unwrap_err().to_string();
        assert!(error.contains("tests::Other (") && error.contains("tests::World ("), "{error}");
        let error = hand_over::<()>(&region).unwrap_err().to_string();
        assert!(error.contains("the state () (0 bytes"), "{error}");
        let other = Mapping::shared(Region::<World>::LEN, c"test").unwrap();
        let fd = other.fd().unwrap().try_clone_to_owned().unwrap();
        assert!(matches!(Region::<World>::adopt(fd), Err(Refused::NoRegion)));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(matches!(Region::<World>::adopt(file.into()), Err(Refused::Unreadable(_))));
    }

    #[test]
    fn what_was_not_founded_is_not_shown() {
        let mut region = Region::<World>::place(Placement::Shared).unwrap();
        assert!(matches!(hand_over::<World>(&region), Err(Refused::NotFounded)));
        assert_eq!(region.init(b"").unwrap_err().0, "expected a seed, found none");
        assert!(matches!(hand_over::<World>(&region), Err(Refused::NotFounded)));
        let uses: [fn(&mut Region<World>) -> u64; 2] =
            [|it| it.init(b"seed").map_or(0, |()| 1), |it| it.frozen];
        for attempt in uses {
            let attempt = std::panic::AssertUnwindSafe(|| attempt(&mut region));
            assert!(std::panic::catch_unwind(attempt).is_err());
        }
    }

    #[test]
    fn a_state_of_no_bytes_has_a_place_too() {
        let mut region = Region::<()>::place(Placement::Private).unwrap();
        region.init(b"anything").unwrap();
        let () = *region;
    }
}
