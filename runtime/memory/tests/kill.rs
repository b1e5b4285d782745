//! Real processes, killed at any instant. The usual harness has threads and may not fork, so this
//! test is its own program: `main` runs each test in turn, in the only thread.
//!
//! The seed of the random tests is printed; `KILL_SEED=N` replays the choices, though not the
//! kernel's scheduling.

#[cfg(loom)]
fn main() {}

#[cfg(not(loom))]
fn main() {
    real::main();
}

#[cfg(not(loom))]
mod real {
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
    use std::time::Duration;

    use memory::shared::ByteMap;
    use memory::{Board, Gate, Lock, Placement, Region, SlotState};
    use seam::{Dead, Share, WorkerId};
    use stats::Rng;
    use sys::clock::now_ns;
    use sys::poll::{PollFd, poll};
    use sys::process::{self, Exit, Fork, Pid};
    use sys::signal::Signal;

    const WORKERS: usize = 6;
    const PATIENCE: Duration = Duration::from_secs(30);

    /// A structure of 64 leaves guarded by a gate, and a counter guarded by a lock.
    #[repr(C)]
    struct World {
        gate: Gate,
        lock: Lock,
        leaves: [AtomicU64; 64],
        /// Changed by two steps under the lock; a killed owner may omit the second.
        counter: AtomicU64,
        /// Closers' views that found the leaves at rest.
        views: AtomicU64,
        /// Closers' views that did not.
        unrest: AtomicU64,
    }

    // SAFETY: atomics, a gate and a lock, for all of which zero is a value.
    unsafe impl Share for World {}

    impl World {
        fn heal(&self, dead: WorkerId) {
            self.gate.heal(dead);
            self.lock.force_release(dead);
        }
    }

    fn world() -> Region<World> {
        let mut world = Region::<World>::place(Placement::Shared).unwrap();
        world.init(&[]).unwrap();
        world
    }

    fn child(life: impl FnOnce()) -> Pid {
        match process::fork().unwrap() {
            Fork::Child => {
                // No child survives the test, however it ends.
                process::set_parent_death_signal(Signal::KILL).unwrap();
                life();
                process::exit_now(0)
            }
            Fork::Parent(pid) => pid,
        }
    }

    fn kill(pid: Pid) {
        process::kill(pid, Signal::KILL).unwrap();
        assert_eq!(process::wait(pid).unwrap(), Exit::Signal(Signal::KILL));
    }

    /// Waits, for a limited time, for a child that must end by itself.
    fn finish(pid: Pid) {
        let watch = process::pidfd_open(pid).unwrap();
        let mut list = [PollFd::new(watch.as_fd(), true, false)];
        let ended = poll(&mut list, Some(PATIENCE)).unwrap() == 1;
        if !ended {
            kill(pid);
        }
        assert!(ended, "a living worker was blocked by a dead one");
        assert_eq!(process::wait(pid).unwrap(), Exit::Code(0));
    }

    fn until(what: &str, condition: impl Fn() -> bool) {
        let end = now_ns() + PATIENCE.as_nanos() as u64;
        while !condition() {
            assert!(now_ns() < end, "waited in vain until {what}");
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn worker(slot: usize) -> WorkerId {
        WorkerId::new(slot, 1)
    }

    fn stay() {
        loop {
            std::thread::sleep(PATIENCE);
        }
    }

    fn a_killed_owner_is_released_and_a_living_one_is_not() {
        let world = world();
        let (owner, other) = (worker(0), worker(1));
        let dying = child(|| {
            std::mem::forget(world.lock.lock(owner));
            stay();
        });
        until("the child holds the lock", || world.lock.is_held_by(owner));
        let waiting = child(|| drop(world.lock.lock(other)));
        assert!(!world.lock.force_release(other), "another worker is not the owner");
        assert!(world.lock.is_held_by(owner));
        kill(dying);
        assert!(world.lock.force_release(owner));
        finish(waiting);
        assert!(!world.lock.is_held());
    }

    fn a_writer_killed_inside_the_gate_blocks_nobody() {
        let world = world();
        let dying = child(|| {
            std::mem::forget(world.gate.enter(worker(0)));
            world.leaves[0].store(1, SeqCst);
            stay();
        });
        until("the child is in", || world.leaves[0].load(SeqCst) == 1);
        let before = world.gate.version();
        let closing = child(|| drop(world.gate.close(worker(1))));
        let passing = child(|| {
            std::thread::sleep(Duration::from_millis(5));
            drop(world.gate.enter(worker(2)));
        });
        kill(dying);
        assert_eq!(process::reap(closing).unwrap(), None, "a closer passed a writer");
        world.heal(worker(0));
        finish(closing);
        finish(passing);
        assert_eq!(world.gate.version(), before + 2, "the dead one's section is counted");
    }

    fn a_closer_that_is_killed_leaves_the_gate_open() {
        let world = world();
        let dying = child(|| {
            std::mem::forget(world.gate.close(worker(0)));
            world.views.store(1, SeqCst);
            stay();
        });
        until("the child has closed", || world.views.load(SeqCst) == 1);
        let waiting = [
            child(|| drop(world.gate.enter(worker(1)))),
            child(|| drop(world.gate.enter(worker(2)))),
            child(|| drop(world.gate.close(worker(3)))),
        ];
        std::thread::sleep(Duration::from_millis(5));
        assert!(waiting.iter().all(|pid| process::reap(*pid).unwrap().is_none()));
        kill(dying);
        world.heal(worker(0));
        waiting.into_iter().for_each(finish);
    }

    /// Writes mostly, reads the whole now and then, takes the lock
    /// sometimes; for ever, or for `rounds`.
    fn live(world: &World, me: WorkerId, seed: u64, rounds: u64) {
        let mut rng = Rng::new(seed);
        for _ in 0..rounds {
            match rng.below(16) {
                0 => view(world, me),
                1 => {
                    let _held = world.lock.lock(me);
                    let before = world.counter.load(Relaxed);
                    world.counter.store(before + 1, Relaxed);
                    if world.counter.load(Relaxed) != before + 1 {
                        world.unrest.fetch_add(1, SeqCst);
                    }
                }
                _ => {
                    let _writing = world.gate.enter(me);
                    for _ in 0..rng.below(8) {
                        world.leaves[rng.below(64)].fetch_add(1, Relaxed);
                    }
                }
            }
        }
    }

    fn view(world: &World, me: WorkerId) {
        let sum = || world.leaves.iter().map(|leaf| leaf.load(Relaxed)).sum::<u64>();
        let _closed = world.gate.close(me);
        let first = sum();
        std::thread::yield_now();
        let at_rest = first == sum();
        (if at_rest { &world.views } else { &world.unrest }).fetch_add(1, SeqCst);
    }

    /// Kills workers that live by `live` with a seed each, `kills` times and all at the end, and
    /// heals what they leave.
    fn storm(kills: usize, rng: &mut Rng, live: impl Fn(WorkerId, u64), heal: impl Fn(WorkerId)) {
        let spawn = |slot: usize, generation: u32, rng: &mut Rng| {
            let (me, seed) = (WorkerId::new(slot, generation), rng.roll());
            (me, child(|| live(me, seed)))
        };
        let mut workers: Vec<_> = (0..WORKERS).map(|slot| spawn(slot, 1, rng)).collect();
        for _ in 0..kills {
            std::thread::sleep(Duration::from_micros(rng.below(3000) as u64));
            let slot = rng.below(WORKERS);
            let (dead, pid) = workers[slot];
            kill(pid);
            heal(dead);
            workers[slot] = spawn(slot, dead.generation() + 1, rng);
        }
        for (dead, pid) in workers {
            kill(pid);
            heal(dead);
        }
    }

    fn a_storm_of_kills_blocks_nobody(seed: u64) {
        let (world, mut rng) = (world(), Rng::new(seed));
        let for_ever = |me, seed| live(&world, me, seed, u64::MAX);
        storm(400, &mut rng, for_ever, |dead| world.heal(dead));
        let mut last = |slot| {
            let (me, seed) = (WorkerId::new(slot, 1000), rng.roll());
            child(|| live(&world, me, seed, 2000))
        };
        let last: Vec<_> = (0..WORKERS).map(&mut last).collect();
        last.into_iter().for_each(finish);
        assert!(!world.lock.is_held());
        assert_eq!(world.unrest.load(SeqCst), 0, "a section was not alone");
        assert!(world.views.load(SeqCst) > 100, "too few views: {:?}", world.views);
    }

    /// Values of a map whose writers are killed are whole, and few blocks are lost.
    fn a_storm_of_kills_leaves_a_map_of_bytes_whole(seed: u64) {
        const KILLS: usize = 200;
        let mut map = Region::<ByteMap<64>>::place(Placement::Shared).unwrap();
        map.init(&[]).unwrap();
        let fill = |key: u64, len: usize| [key as u8].repeat(len);
        let live = |me: WorkerId, seed: u64| {
            me.enter();
            let mut rng = Rng::new(seed);
            loop {
                let key = rng.below(40) as u64;
                match rng.below(4) {
                    0 => drop(map.remove(&key.to_le_bytes())),
                    _ => drop(map.insert(&key.to_le_bytes(), &fill(key, rng.below(2000)))),
                }
            }
        };
        // SAFETY: the process of this worker has been waited for.
        let heal = |dead: WorkerId| map.heal(unsafe { Dead::sworn(dead) });
        storm(KILLS, &mut Rng::new(seed), live, heal);
        worker(0).enter();
        let mut keys = Vec::new();
        map.for_each(|key, value| {
            let key = u64::from_le_bytes(key.try_into().unwrap());
            assert_eq!(value, fill(key, value.len()));
            keys.push(key);
        });
        assert!(keys.iter().all(|key| map.remove(&key.to_le_bytes())));
        // Each entry of 100 bytes takes three blocks of 64 bytes.
        let room = (0..).take_while(|key: &u64| map.insert(&key.to_le_bytes(), &[0; 100]).is_ok());
        let (room, all) = (room.count(), 64 * 1024 / 64 / 3);
        assert!(room + KILLS / 4 >= all, "{room} of {all}");
    }

    fn a_board_is_one_for_all_processes() {
        let mut board = Region::<Board>::place(Placement::Shared).unwrap();
        board.init(&[]).unwrap();
        let workers: Vec<_> = (0..4)
            .map(|slot| {
                let pid = child(|| {
                    let worker_slot = board.sit(worker(slot), process::this());
                    worker_slot.open.add(slot as u64 + 1);
                    worker_slot.set_state(SlotState::Ready);
                    stay();
                });
                (worker(slot), pid)
            })
            .collect();
        let count = |state| board.slots().filter(|slot| slot.state() == state).count();
        until("all are ready", || count(SlotState::Ready) == 4);
        assert_eq!((board.open_total(), board.is_idle()), (1 + 2 + 3 + 4, false));
        for (id, pid) in workers {
            assert_eq!(board.slot(id.slot()).pid(), Some(pid));
            kill(pid);
            board.heal(id);
        }
        assert_eq!((board.open_total(), count(SlotState::Gone)), (0, 4));
        assert!(board.is_idle());
    }

    pub fn main() {
        let seed = std::env::var("KILL_SEED").map_or_else(|_| now_ns(), |it| it.parse().unwrap());
        println!("KILL_SEED={seed}");
        let facts: [(&str, &dyn Fn()); 6] = [
            ("a killed owner is released", &a_killed_owner_is_released_and_a_living_one_is_not),
            (
                "a writer killed inside blocks nobody",
                &a_writer_killed_inside_the_gate_blocks_nobody,
            ),
            ("a killed closer leaves the gate open", &a_closer_that_is_killed_leaves_the_gate_open),
            ("a board is one for all processes", &a_board_is_one_for_all_processes),
            ("a map of bytes stays whole", &|| a_storm_of_kills_leaves_a_map_of_bytes_whole(seed)),
            ("a storm of kills blocks nobody", &|| a_storm_of_kills_blocks_nobody(seed)),
        ];
        for (name, fact) in facts {
            fact();
            println!("{name} ... ok");
        }
    }
}
