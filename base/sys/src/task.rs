//! Futures that borrow, for runtimes that take only futures that own what they use (`'static`).
//!
//! A [`Task`] is a handle that owns nothing of the caller's: the future itself belongs to a
//! [`scope`], which drops it at its end at the latest. A runtime may keep or forget a handle for
//! ever; after the scope there is nothing left to poll. The tasks of a scope stay on one thread
//! ([`Local`]) or move between threads ([`Moving`]).

use std::marker::PhantomData;
use std::mem::transmute;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

/// The work of a task that stays on one thread.
pub type Local = dyn Future<Output = ()>;
/// The work of a task that moves between threads.
pub type Moving = dyn Future<Output = ()> + Send;

type Borrowing<'env> = Pin<Box<dyn Future<Output = ()> + 'env>>;
type BorrowingMoving<'env> = Pin<Box<dyn Future<Output = ()> + Send + 'env>>;

/// The place of a future, empty after its end.
struct Place<W: ?Sized>(Mutex<Option<Pin<Box<W>>>>);

/// The tasks that end with the call of [`scope`].
pub struct Scope<'env, W: ?Sized> {
    places: Mutex<Vec<Weak<Place<W>>>>,
    /// Invariant: a task may borrow for all of `'env`, and no shorter.
    env: PhantomData<&'env mut &'env ()>,
}

/// A task, for a runtime to poll.
pub struct Task<W: ?Sized>(Arc<Place<W>>);

/// Calls `lead`, which may make tasks that borrow from outside of this call; drops those that are
/// left when it ends.
pub fn scope<'env, W: ?Sized, T>(lead: impl FnOnce(&Scope<'env, W>) -> T) -> T {
    lead(&Scope { places: Mutex::default(), env: PhantomData })
}

impl<'env> Scope<'env, Local> {
    /// A task that does `work`.
    pub fn task(&self, work: impl Future<Output = ()> + 'env) -> Task<Local> {
        let work: Borrowing<'env> = Box::pin(work);
        // SAFETY: only the lifetime changes. The future is polled and dropped in its place alone,
        // and the scope empties the place before `scope` returns, within `'env`. A caller has no
        // more than a reference to the scope, so it cannot forget it.
        self.place(unsafe { transmute::<Borrowing<'env>, Pin<Box<Local>>>(work) })
    }
}

impl<'env> Scope<'env, Moving> {
    /// A task that does `work`.
    pub fn task(&self, work: impl Future<Output = ()> + Send + 'env) -> Task<Moving> {
        let work: BorrowingMoving<'env> = Box::pin(work);
        // SAFETY: as above; where another thread polls the future, the scope waits for that.
        self.place(unsafe { transmute::<BorrowingMoving<'env>, Pin<Box<Moving>>>(work) })
    }
}

impl<W: ?Sized> Scope<'_, W> {
    fn place(&self, work: Pin<Box<W>>) -> Task<W> {
        let place = Arc::new(Place(Mutex::new(Some(work))));
        let mut places = lock(&self.places);
        if places.len() == places.capacity() {
            places.retain(|place| place.strong_count() > 0);
        }
        places.push(Arc::downgrade(&place));
        Task(place)
    }
}

impl<W: ?Sized> Drop for Scope<'_, W> {
    fn drop(&mut self) {
        for place in lock(&self.places).iter().filter_map(Weak::upgrade) {
            // Waits for a poll on another thread. A poll on this one has ended: the scope ends
            // outside of its tasks.
            let work = lock(&place.0).take();
            drop(work);
        }
    }
}

impl<W: Future<Output = ()> + ?Sized> Future for Task<W> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut work = lock(&self.0.0);
        let Some(future) = work.as_mut() else { return Poll::Ready(()) };
        let polled = future.as_mut().poll(cx);
        if polled.is_ready() {
            *work = None;
        }
        polled
    }
}

/// A panic of a future leaves its place whole.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Waker;

    fn poll<W: Future<Output = ()> + ?Sized>(task: &mut Task<W>) -> bool {
        Pin::new(task).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_task_borrows_and_ends_with_its_scope() {
        let (turns, dropped) = (Cell::new(0), Cell::new(false));
        struct Mark<'a>(&'a Cell<bool>);
        impl Drop for Mark<'_> {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let mut kept = scope(|tasks: &Scope<'_, Local>| {
            let mut short = tasks.task(async { turns.set(turns.get() + 1) });
            assert!(poll(&mut short) && poll(&mut short));
            let mark = Mark(&dropped);
            let mut long = tasks.task(async {
                let _mark = mark;
                turns.set(turns.get() + 10);
                std::future::pending::<()>().await;
            });
            assert!(!poll(&mut long) && !dropped.get());
            long
        });
        assert!(dropped.get() && poll(&mut kept));
        assert_eq!(turns.get(), 11);
    }

    #[test]
    fn a_scope_waits_for_the_thread_that_polls_its_task() {
        let (begun, ended) = (AtomicU32::new(0), AtomicU32::new(0));
        let thread = scope(|tasks: &Scope<'_, Moving>| {
            let mut task = tasks.task(async {
                begun.store(1, Ordering::Release);
                (0..1000).for_each(|_| std::thread::yield_now());
                ended.store(1, Ordering::Release);
                std::future::pending::<()>().await;
            });
            let thread = std::thread::spawn(move || while !poll(&mut task) {});
            while begun.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            thread
        });
        assert_eq!(ended.load(Ordering::Acquire), 1);
        thread.join().expect("nothing is left to poll");
    }
}
