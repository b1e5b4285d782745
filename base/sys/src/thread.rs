//! Threads that start and end often (pthread_create(3)), and may borrow from the function that
//! starts them.
//!
//! std gives each thread an alternative signal stack: eight more system calls in its life, and the
//! process aborts where that stack cannot be mapped. A thread of this module has none; a stack that
//! overflows meets its guard page, and the kernel ends the process with `SIGSEGV`. glibc keeps the
//! stacks of ended threads for later ones, up to 40 MiB.

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};

/// Threads that end before [`scope`] returns.
pub struct Scope<'scope, 'env: 'scope> {
    running: Arc<Running>,
    // Both lifetimes are invariant, as those of `std::thread::Scope`: neither may shrink between a
    // start and the end of the scope.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// The account of the threads that run. A thread owns a share of it, because its last step touches
/// it after the scope may have ended.
struct Running {
    count: AtomicUsize,
    panicked: AtomicBool,
    /// The thread that waits for the others.
    leader: Thread,
}

/// The argument of a new thread.
struct Start<F> {
    work: F,
    running: Arc<Running>,
}

/// Calls `lead`, which may start threads that borrow from outside of this call; returns when `lead`
/// and all of them have ended.
///
/// # Panics
/// As `lead`; or if `work` of a thread panicked.
pub fn scope<'env, T>(lead: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    let (count, panicked) = (AtomicUsize::new(0), AtomicBool::new(false));
    let running = Arc::new(Running { count, panicked, leader: thread::current() });
    let scope = Scope { running, scope: PhantomData, env: PhantomData };
    let led = catch_unwind(AssertUnwindSafe(|| lead(&scope)));
    while scope.running.count.load(Ordering::Acquire) > 0 {
        thread::park();
    }
    match led {
        Err(panic) => std::panic::resume_unwind(panic),
        Ok(_) if scope.running.panicked.load(Ordering::Relaxed) => {
            panic!("a thread of the scope panicked")
        }
        Ok(led) => led,
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread that does `work`, with a stack of `stack` bytes and the blocked signals of
    /// the caller.
    ///
    /// # Errors
    /// `EAGAIN` where no stack can be mapped, or at the limit of threads; `EINVAL` for a stack
    /// below `PTHREAD_STACK_MIN`. `work` is dropped then.
    pub fn start<F>(&'scope self, stack: usize, work: F) -> io::Result<()>
    where
        F: FnOnce() + Send + 'scope,
    {
        self.running.count.fetch_add(1, Ordering::Relaxed);
        let start = Box::new(Start { work, running: Arc::clone(&self.running) });
        let start = Box::into_raw(start);
        // SAFETY: `start` is of the type that `begin` expects, and is `begin`'s if the thread
        // starts. It may borrow for `'scope`: the scope ends after the count of this thread, which
        // drops its `work` before.
        match unsafe { create(stack, begin::<F>, start.cast()) } {
            0 => Ok(()),
            errno => {
                // SAFETY: no thread has started, so the box is still this function's.
                drop(unsafe { Box::from_raw(start) });
                self.running.count.fetch_sub(1, Ordering::Release);
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }
}

/// Names the calling thread for ps(1), by the first 15 bytes of `name` (`PR_SET_NAME`).
pub fn set_name(name: &str) {
    let mut bytes = [0_u8; 16];
    for (to, from) in bytes[..15].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    // SAFETY: `bytes` is readable and ends with a zero. The call cannot fail then.
    unsafe { libc::prctl(libc::PR_SET_NAME, bytes.as_ptr()) };
}

type Begin = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

/// Starts a detached thread; returns 0 or an errno.
///
/// # Safety
/// `begin` must be allowed to be called with `argument` on another thread.
unsafe fn create(stack: usize, begin: Begin, argument: *mut libc::c_void) -> libc::c_int {
    let mut attributes = MaybeUninit::uninit();
    let mut thread = MaybeUninit::uninit();
    // SAFETY: the first call initialises the attributes, the last one destroys them, and all three
    // pointers are valid; the caller vouches for `begin`.
    unsafe {
        let attributes = attributes.as_mut_ptr();
        let mut errno = libc::pthread_attr_init(attributes);
        if errno != 0 {
            return errno;
        }
        errno = libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED);
        if errno == 0 {
            errno = libc::pthread_attr_setstacksize(attributes, stack);
        }
        if errno == 0 {
            errno = libc::pthread_create(thread.as_mut_ptr(), attributes, begin, argument);
        }
        libc::pthread_attr_destroy(attributes);
        errno
    }
}

extern "C" fn begin<F: FnOnce()>(argument: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `Scope::start` made the box and gave it to this thread alone.
    let Start { work, running } = *unsafe { Box::from_raw(argument.cast::<Start<F>>()) };
    // A panic must not unwind into the C library. Whatever `work` borrows is dropped here.
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        running.panicked.store(true, Ordering::Relaxed);
    }
    if running.count.fetch_sub(1, Ordering::Release) == 1 {
        running.leader.unpark();
    }
    ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::time::Duration;

    const STACK: usize = 128 << 10;

    #[test]
    fn a_scope_ends_after_its_threads() {
        let seen = Mutex::new(Vec::new());
        let led = scope(|threads| {
            for number in 0..100 {
                let seen = &seen;
                let work = move || {
                    thread::sleep(Duration::from_millis(number % 7));
                    seen.lock().unwrap().push(number);
                };
                threads.start(STACK, work).unwrap();
            }
            "led"
        });
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!((led, seen), ("led", (0..100).collect()));
    }

    #[test]
    fn a_panic_ends_its_thread_and_is_told_by_the_scope() {
        let (others, dropped) = (AtomicUsize::new(0), Arc::new(()));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            scope(|threads| {
                let held = Arc::clone(&dropped);
                threads
                    .start(STACK, move || {
                        let _held = held;
                        panic!("as planned")
                    })
                    .unwrap();
                let other = || {
                    others.fetch_add(1, Ordering::Relaxed);
                };
                threads.start(STACK, other).unwrap();
            });
        }));
        let told = *ended.unwrap_err().downcast::<&str>().unwrap();
        assert_eq!(told, "a thread of the scope panicked");
        assert_eq!((others.into_inner(), Arc::strong_count(&dropped)), (1, 1));
    }

    #[test]
    fn a_leader_that_panics_still_waits() {
        let done = AtomicBool::new(false);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            scope(|threads| {
                let work = || {
                    thread::sleep(Duration::from_millis(20));
                    done.store(true, Ordering::Relaxed);
                };
                threads.start(STACK, work).unwrap();
                panic!("as planned")
            })
        }));
        assert!(ended.is_err() && done.into_inner());
    }

    #[test]
    fn a_refused_thread_drops_its_work() {
        let held = Arc::new(());
        scope(|threads| {
            let work = Arc::clone(&held);
            // Nobody has this much address space.
            let refused = threads.start(1 << 50, move || drop(work)).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EAGAIN));
            assert_eq!(threads.start(1, || ()).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        });
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn a_thread_has_no_signal_stack_and_the_name_that_it_takes() {
        scope(|threads| {
            let work = || {
                let mut stack = MaybeUninit::<libc::stack_t>::uninit();
                // SAFETY: the old stack is written to `stack`; no new one is set.
                let flags = unsafe {
                    assert_eq!(libc::sigaltstack(ptr::null(), stack.as_mut_ptr()), 0);
                    stack.assume_init().ss_flags
                };
                assert_eq!(flags, libc::SS_DISABLE);
                set_name("a-name-of-more-than-fifteen-bytes");
                let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
                assert_eq!(name, "a-name-of-more-\n");
            };
            threads.start(STACK, work).unwrap();
        });
    }
}
