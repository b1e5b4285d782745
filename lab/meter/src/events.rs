//! Counts of a process tree by the kernel's performance events (perf_event_open(2)): calls of the C
//! library's allocator, by probes of its functions, and misses of the last cache.
//!
//! Both need rights that a container seldom gives (`CAP_PERFMON`, or root), and misses need
//! counters that a virtual machine seldom has. Calls of the allocator are those of the C library
//! that this program is linked with; a server that brings another allocator makes none. So a sum of
//! 0 is no count.
//!
//! Threads that start later are not followed: a probe that a thread inherits makes its start fail,
//! because the kernel then looks for the probe's path in the memory of the other program. A tree
//! whose threads changed has no count.

use crate::TreeCost;
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter};
use std::ffi::CString;
use std::fs;
use std::io;

/// The counters of all threads of a tree.
pub struct TreeEvents {
    threads: Vec<u32>,
    allocations: Vec<Counter>,
    misses: Vec<Counter>,
}

/// The sums of a tree's counters; `None` where nothing can be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Calls that allocate memory or change its size.
    pub allocations: Option<u64>,
    /// Misses of the last cache in user space.
    pub cache_misses: Option<u64>,
}

impl TreeEvents {
    /// Counters that count from now on; those that the kernel refuses are left out.
    pub fn open(tree: &TreeCost) -> TreeEvents {
        TreeEvents {
            threads: threads(tree).collect(),
            allocations: allocations(tree).unwrap_or_default(),
            misses: of_tree(tree, || Builder::new(Hardware::CACHE_MISSES)).unwrap_or_default(),
        }
    }

    /// Whether calls of the allocator can be counted.
    pub fn has_allocations(&self) -> bool {
        !self.allocations.is_empty()
    }

    /// The counts since [`TreeEvents::open`], of the tree as it is `now`.
    pub fn read(&mut self, now: &TreeCost) -> EventCounts {
        if !threads(now).eq(self.threads.iter().copied()) {
            return EventCounts::default();
        }
        EventCounts { allocations: sum(&mut self.allocations), cache_misses: sum(&mut self.misses) }
    }
}

fn threads(tree: &TreeCost) -> impl Iterator<Item = u32> + '_ {
    tree.threads().map(|(_, thread, _)| thread)
}

fn sum(counters: &mut [Counter]) -> Option<u64> {
    let all: io::Result<u64> = counters.iter_mut().map(Counter::read).sum();
    all.ok().filter(|count| *count > 0)
}

/// Counters of the allocator's functions, if all processes of the tree have its file.
fn allocations(tree: &TreeCost) -> io::Result<Vec<Counter>> {
    let calls = allocator().ok_or(io::ErrorKind::NotFound)?;
    let has_it = |pid| regions(pid).iter().any(|it| it.start.file == calls[0].file);
    let is_shared = tree.pids().all(has_it);
    let kind = fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
    let kind = kind.trim().parse().map_err(io::Error::other)?;
    let mut counters = Vec::new();
    for call in calls.iter().filter(|_| is_shared) {
        let path = CString::new(call.path.as_bytes())?;
        counters.extend(of_tree(tree, || {
            // The kernel takes a probe as the address of a path and a place in that file.
            let mut probe = Builder::new(Software::DUMMY);
            let attributes = probe.attrs_mut();
            (attributes.type_, attributes.config) = (kind, 0);
            attributes.kprobe_func = path.as_ptr().addr() as u64;
            attributes.probe_offset = call.offset;
            probe
        })?);
    }
    Ok(counters)
}

/// A counter for each thread. One that has ended needs none.
fn of_tree<'a>(tree: &TreeCost, event: impl Fn() -> Builder<'a>) -> io::Result<Vec<Counter>> {
    let mut counters = Vec::new();
    for thread in threads(tree) {
        let number = i32::try_from(thread).unwrap_or_default();
        match event().observe_pid(number).enabled(true).build() {
            Ok(counter) => counters.push(counter),
            Err(_) if fs::metadata(format!("/proc/{thread}")).is_err() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(counters)
}

/// A place in a file: a function of a program or library.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    path: String,
    /// Device and inode, as /proc/PID/maps has them.
    file: String,
    offset: u64,
}

/// A line of /proc/PID/maps (proc_pid_maps(5)).
struct Region {
    from: u64,
    to: u64,
    start: Place,
}

impl Region {
    fn parse(line: &str) -> Option<Region> {
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let offset = hex(words.nth(1)?)?;
        let file = format!("{} {}", words.next()?, words.next()?);
        let path = words.next().filter(|path| path.starts_with('/'))?.to_string();
        Some(Region { from: hex(from)?, to: hex(to)?, start: Place { path, file, offset } })
    }
}

/// The regions of a process that are parts of files; none if it may not be read.
fn regions(pid: u32) -> Vec<Region> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    text.lines().filter_map(Region::parse).collect()
}

/// The functions of the allocator that this program calls, in their file.
fn allocator() -> Option<Vec<Place>> {
    let regions = regions(std::process::id());
    let place = |address: usize| {
        let address = address as u64;
        let region = regions.iter().find(|it| (it.from..it.to).contains(&address))?;
        Some(Place { offset: address - region.from + region.start.offset, ..region.start.clone() })
    };
    sys::process::allocator_calls().into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_parts_of_files() {
        let line = "7f01-7f05 r-xp 00002000 fd:00 173521    /usr/lib/libc.so.6";
        let region = Region::parse(line).expect("a region");
        let start = Place {
            path: "/usr/lib/libc.so.6".to_string(),
            file: "fd:00 173521".to_string(),
            offset: 0x2000,
        };
        assert_eq!((region.from, region.to, region.start), (0x7f01, 0x7f05, start));
        for line in ["", "7f01-7f05 rw-p 00000000 00:00 0", "7f01-7f05 r-xp 0 0:0 0 [vdso]"] {
            assert!(Region::parse(line).is_none(), "{line}");
        }
        assert_eq!(allocator().expect("this program has one").len(), 4);
    }

    #[test]
    fn allocations_of_this_program_are_counted_where_the_kernel_lets_it() {
        let tree = TreeCost::read(std::process::id()).expect("this process");
        let mut events = TreeEvents::open(&tree);
        let boxes: Vec<Box<u32>> =
            (0..1_000).map(|at| std::hint::black_box(Box::new(at))).collect();
        let started = std::thread::Builder::new().spawn(|| ()).expect("no probe hinders a start");
        started.join().expect("it ends");
        let count = sum(&mut events.allocations);
        assert_eq!(boxes.len(), 1_000);
        // Other tests allocate, too, and their threads come and go.
        assert!(count.is_none_or(|count| count > 1_000), "{count:?}");
        assert_eq!(count.is_some(), events.has_allocations());
        events.threads.push(0);
        assert_eq!(events.read(&tree), EventCounts::default(), "the threads changed");
    }
}
