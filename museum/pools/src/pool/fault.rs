//! The faults of objects in pools, by name.

use std::panic::Location;

/// A misuse of a pool, or a write outside an object, as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum Fault {
    /// The object was returned before, and its slot has not been used since.
    #[display("expected a living object in slot {index}, found it given back; it has two owners")]
    DoubleFree { index: u32 },
    /// The handle's object is gone, and its slot has had others since.
    #[display(
        "expected the present object of slot {index}, found a handle of an earlier one; drop \
         handles with their objects"
    )]
    Stale { index: u32 },
    /// The handle was made by another pool.
    #[display(
        "expected a handle of this pool, found slot {index} of another; give it back where it \
         came from"
    )]
    WrongPool { index: u32 },
    /// No pool made this handle, or this pool never had such a slot.
    #[display("expected a slot of this pool, found number {index}, which it never had")]
    Unknown { index: u32 },
    /// The address is in no slot of this pool.
    #[display("expected an address of this pool, found {address:#x}, which is not its")]
    Foreign { address: usize },
    /// The address is in a slot, but not that of an object.
    #[display("expected the beginning of an object, found byte {offset} of slot {index}")]
    Inside { index: u32, offset: isize },
    /// Something wrote before the object.
    #[display(
        "expected canaries around slot {index}, found damage {distance} bytes in front of it; \
         something writes below its object"
    )]
    Underrun { index: u32, distance: usize },
    /// Something wrote past the end of the object.
    #[display(
        "expected canaries around slot {index}, found damage {distance} bytes behind it; \
         something writes beyond its object"
    )]
    Overrun { index: u32, distance: usize },
    /// Something wrote into the slot after its object was returned.
    #[display(
        "expected poison in slot {index}, found byte {offset} written after its object was given \
         back"
    )]
    WriteAfterFree { index: u32, offset: usize },
    /// The object was still there when the pool ended.
    #[display("expected no object at the pool's end, found one in slot {index}")]
    Leak { index: u32 },
}

impl std::error::Error for Fault {}

/// A fault with the line that put the object there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{fault}{}", put_by.map_or(String::new(), |line| format!(" (put there by {line})")))]
pub struct Report {
    /// The fault.
    pub fault: Fault,
    /// The line that put the slot's last object there; `None` if that object was not watched.
    pub put_by: Option<&'static Location<'static>>,
}
