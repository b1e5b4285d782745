//! Futures that borrow, for runtimes that take only futures that own what they use (`'static`).
//!
//! A [`Task`] is a handle that owns nothing of the caller's: the future itself belongs to a
//! [`scope`], which drops it at its end at the latest. A runtime may keep or forget a handle for
//! ever; after the scope there is nothing left to poll. All of it stays on one thread.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

type Work<'env> = Pin<Box<dyn Future<Output = ()> + 'env>>;

/// The place of a future, empty after its end.
struct Place(RefCell<Option<Work<'static>>>);

/// The tasks of one thread, which end with the call of [`scope`].
pub struct Scope<'env> {
    places: RefCell<Vec<Weak<Place>>>,
    /// Invariant: a task may borrow for all of `'env`, and no shorter.
    env: PhantomData<&'env mut &'env ()>,
}

/// A task, for a runtime to poll.
pub struct Task(Rc<Place>);

/// Calls `lead`, which may make tasks that borrow from outside of this call; drops those that are
/// left when it ends.
pub fn scope<'env, T>(lead: impl FnOnce(&Scope<'env>) -> T) -> T {
    lead(&Scope { places: RefCell::default(), env: PhantomData })
}

impl<'env> Scope<'env> {
    /// A task that does `work`.
    pub fn task(&self, work: impl Future<Output = ()> + 'env) -> Task {
        let work: Work<'env> = Box::pin(work);
        // SAFETY: only the lifetime changes. The future is polled and dropped in its place alone,
        // and the scope empties the place before `scope` returns, within `'env`. A caller has no
        // more than a reference to the scope, so it cannot forget it.
        let work = unsafe { std::mem::transmute::<Work<'env>, Work<'static>>(work) };
        let place = Rc::new(Place(RefCell::new(Some(work))));
        let mut places = self.places.borrow_mut();
        if places.len() == places.capacity() {
            places.retain(|place| place.strong_count() > 0);
        }
        places.push(Rc::downgrade(&place));
        Task(place)
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        for place in self.places.get_mut().iter().filter_map(Weak::upgrade) {
            match place.0.try_borrow_mut() {
                Ok(mut work) => drop(work.take()),
                // A task cannot end the scope that it is polled in; it must not outlive it either.
                Err(_) => std::process::abort(),
            }
        }
    }
}

impl Future for Task {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut work = self.0.0.borrow_mut();
        let Some(future) = work.as_mut() else { return Poll::Ready(()) };
        let polled = future.as_mut().poll(cx);
        if polled.is_ready() {
            *work = None;
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::task::Waker;

    #[test]
    fn a_task_borrows_and_ends_with_its_scope() {
        let (turns, dropped) = (Cell::new(0), Cell::new(false));
        struct Mark<'a>(&'a Cell<bool>);
        impl Drop for Mark<'_> {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let poll = |task: &mut Task| {
            Pin::new(task).poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        let mut kept = scope(|tasks| {
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
}
