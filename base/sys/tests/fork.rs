//! Forks that succeed. The usual test program has threads, so this test is a separate program:
//! `main` runs each fact in turn, in the only thread.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use sys::eventfd::EventFd;
use sys::futex::{self, Scope};
use sys::map::Mapping;
use sys::netlink;
use sys::poll::{PollFd, poll};
use sys::process::{self, Exit, Fork, Pid};
use sys::signal::{self, Signal, SignalFd};

/// Runs `life` in a child, which exits with its result.
fn child(life: impl FnOnce() -> i32) -> Pid {
    match process::fork().unwrap() {
        Fork::Child => process::exit_now(life()),
        Fork::Parent(pid) => pid,
    }
}

fn sleep_for_ever() -> i32 {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn word(mapping: &Mapping) -> &AtomicU32 {
    // SAFETY: the start of a mapping is aligned, and is reached by atomics only.
    unsafe { AtomicU32::from_ptr(mapping.as_ptr().cast()) }
}

fn exit_codes_come_back() {
    for code in [0, 1, 255] {
        assert_eq!(process::wait(child(|| code)).unwrap(), Exit::Code(code));
    }
}

fn a_killed_child_is_seen_by_its_pidfd() {
    let pid = child(sleep_for_ever);
    let watch = process::pidfd_open(pid).unwrap();
    let mut list = [PollFd::new(watch.as_fd(), true, false)];
    assert_eq!(poll(&mut list, Some(Duration::ZERO)).unwrap(), 0);
    assert_eq!(process::reap(pid).unwrap(), None);
    process::kill(pid, Signal::KILL).unwrap();
    assert_eq!(poll(&mut list, Some(Duration::from_secs(10))).unwrap(), 1);
    assert_eq!(process::reap(pid).unwrap(), Some(Exit::Signal(Signal::KILL)));
    assert!(process::reap(pid).is_err(), "a child is collected once");
    assert!(process::pidfd_open(pid).is_err());
}

fn an_ended_child_stays_until_it_is_reaped() {
    assert_eq!(process::ended(), None, "there is no child");
    let living = child(sleep_for_ever);
    assert_eq!(process::ended(), None);
    let ended = child(|| 4);
    let watch = process::pidfd_open(ended).unwrap();
    poll(&mut [PollFd::new(watch.as_fd(), true, false)], Some(Duration::from_secs(10))).unwrap();
    assert_eq!((process::ended(), process::ended()), (Some(ended), Some(ended)));
    assert_eq!(process::reap(ended).unwrap(), Some(Exit::Code(4)));
    assert_eq!(process::ended(), None);
    process::kill(living, Signal::KILL).unwrap();
    assert_eq!(process::wait(living).unwrap(), Exit::Signal(Signal::KILL));
}

fn a_trimmed_heap_keeps_what_is_in_use() {
    let kept = vec![7_u8; 10_000];
    drop(vec![1_u8; 100_000]);
    process::trim_heap();
    assert_eq!(process::wait(child(|| i32::from(kept[9_999]))).unwrap(), Exit::Code(7));
}

fn a_stopped_child_has_not_ended() {
    let pid = child(sleep_for_ever);
    process::kill(pid, Signal::STOP).unwrap();
    assert_eq!(process::reap(pid).unwrap(), None);
    process::kill(pid, Signal::KILL).unwrap();
    assert_eq!(process::wait(pid).unwrap(), Exit::Signal(Signal::KILL));
}

fn shared_memory_wakes_across_processes() {
    let mapping = Mapping::shared(4096, c"test").unwrap();
    let own = Mapping::private(4096).unwrap();
    let pid = child(|| {
        while word(&mapping).load(SeqCst) == 0 {
            futex::wait(word(&mapping), 0, None, Scope::Shared);
        }
        word(&own).store(9, SeqCst);
        word(&mapping).fetch_add(1, SeqCst);
        0
    });
    word(&mapping).store(1, SeqCst);
    futex::wake(word(&mapping), u32::MAX, Scope::Shared);
    assert_eq!(process::wait(pid).unwrap(), Exit::Code(0));
    assert_eq!((word(&mapping).load(SeqCst), word(&own).load(SeqCst)), (2, 0));
}

fn the_end_of_a_child_is_a_signal_to_read() {
    let former = signal::block(&[Signal::CHLD]).unwrap();
    let signals = SignalFd::new(&[Signal::CHLD]).unwrap();
    let pid = child(|| 3);
    poll(&mut [PollFd::new(signals.as_fd(), true, false)], Some(Duration::from_secs(10))).unwrap();
    assert_eq!(signals.read().unwrap(), Some(Signal::CHLD));
    assert_eq!(process::wait(pid).unwrap(), Exit::Code(3));
    signal::restore(&former).unwrap();
}

fn a_child_ends_with_its_parent() {
    let (ready, done) = (EventFd::new().unwrap(), Mapping::shared(4096, c"test").unwrap());
    let middle = child(|| {
        let parent = process::this();
        let grandchild = child(|| {
            process::set_parent_death_signal(Signal::KILL).unwrap();
            assert_eq!(process::parent(), Some(parent));
            ready.ring();
            sleep_for_ever()
        });
        word(&done).store(grandchild.number().cast_unsigned(), SeqCst);
        poll(&mut [PollFd::new(ready.as_fd(), true, false)], None).unwrap();
        0
    });
    assert_eq!(process::wait(middle).unwrap(), Exit::Code(0));
    let grandchild = Pid::of(word(&done).load(SeqCst).cast_signed()).unwrap();
    if let Ok(watch) = process::pidfd_open(grandchild) {
        let mut list = [PollFd::new(watch.as_fd(), true, false)];
        assert_eq!(poll(&mut list, Some(Duration::from_secs(10))).unwrap(), 1);
    }
}

/// SIGSTOP and SIGCONT interrupt waits although no handler is installed.
fn interrupted_waits_go_on() {
    let bell = EventFd::new().unwrap();
    let pid = child(|| {
        poll(&mut [PollFd::new(bell.as_fd(), true, false)], None).unwrap();
        i32::try_from(bell.clear()).unwrap()
    });
    for _ in 0..20 {
        process::kill(pid, Signal::STOP).unwrap();
        process::kill(pid, Signal::CONT).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(process::reap(pid).unwrap(), None, "an interruption ended the wait");
    bell.ring();
    assert_eq!(process::wait(pid).unwrap(), Exit::Code(1));
}

/// Finds neither other devices nor a server outside.
fn an_isolated_process_reaches_only_itself() {
    use std::net::{TcpListener, TcpStream};
    let outside = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = outside.local_addr().unwrap();
    let life = move || match netlink::isolate() {
        Ok(()) => {
            let inside = TcpListener::bind("127.0.0.1:0").unwrap();
            assert!(TcpStream::connect(inside.local_addr().unwrap()).is_ok());
            assert!(TcpStream::connect(address).is_err());
            netlink::devices().unwrap().len() as i32
        }
        // A container may forbid it.
        Err(error) => i32::from(error.kind() == std::io::ErrorKind::PermissionDenied),
    };
    assert_eq!(process::wait(child(life)).unwrap(), Exit::Code(1));
}

fn check<F: Fn()>(fact: F) {
    fact();
    println!("{} ... ok", std::any::type_name::<F>());
}

fn main() {
    check(exit_codes_come_back);
    check(a_killed_child_is_seen_by_its_pidfd);
    check(an_ended_child_stays_until_it_is_reaped);
    check(a_trimmed_heap_keeps_what_is_in_use);
    check(a_stopped_child_has_not_ended);
    check(shared_memory_wakes_across_processes);
    check(the_end_of_a_child_is_a_signal_to_read);
    check(a_child_ends_with_its_parent);
    check(interrupted_waits_go_on);
    check(an_isolated_process_reaches_only_itself);
}
