//! Connections to another server, which the helper threads of slow functions share.

use std::error::Error;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time to wait for a connection that others use.
const PATIENCE: Duration = Duration::from_secs(10);

/// Up to `most` connections of type `C` to another server, for functions of
/// [`Routes::offload`](crate::Routes::offload) and [`Frames::offload`](crate::Frames::offload).
///
/// A pool is a `static`: each worker process has one, and connects when it first needs to. So no
/// connection is shared across a fork, and a service with a pool runs on every engine. A connection
/// whose work has failed is closed, because its state is unknown.
///
/// ```
/// use std::io::{self, BufRead, BufReader, Write};
/// use std::net::TcpStream;
///
/// use roundhouse::prelude::*;
///
/// /// A server of lines.
/// static OTHER: Pool<BufReader<TcpStream>, io::Error> =
///     Pool::new(8, || TcpStream::connect("127.0.0.1:9").map(BufReader::new));
///
/// fn ask(call: &Call<'_>, _: &()) -> Result<String, HttpError> {
///     let word = call.param::<String>("word")?;
///     Ok(OTHER.with(|other| {
///         let mut answer = String::new();
///         writeln!(other.get_mut(), "{word}")?;
///         other.read_line(&mut answer)?;
///         Ok(answer)
///     })?) // Any error is 500, and a line in the log.
/// }
///
/// let service = routes().offload("GET", "/ask/{word}", ask).service();
/// ```
pub struct Pool<C, E> {
    most: usize,
    connect: fn() -> Result<C, E>,
    is_usable: fn(&mut C) -> bool,
    connections: Mutex<Connections<C>>,
    returned: Condvar,
}

struct Connections<C> {
    idle: Vec<C>,
    /// Idle ones and those in use.
    count: usize,
}

impl<C, E> Pool<C, E> {
    /// A pool without connections yet; `connect` makes one.
    pub const fn new(most: usize, connect: fn() -> Result<C, E>) -> Pool<C, E> {
        let connections = Mutex::new(Connections { idle: Vec::new(), count: 0 });
        Pool { most, connect, is_usable: |_| true, connections, returned: Condvar::new() }
    }

    /// Asks `is_usable` before an idle connection is used again, and closes it if not: the other
    /// server may have ended it meanwhile.
    #[must_use]
    pub const fn checked_by(self, is_usable: fn(&mut C) -> bool) -> Pool<C, E> {
        // A destructor does not run at compile time, so the parts cannot be moved one by one.
        let mut pool = self;
        pool.is_usable = is_usable;
        pool
    }

    /// Works with a connection, after waiting for one that others use, for up to ten seconds.
    ///
    /// # Errors
    /// No connection came free, the other server was not reached, or the work failed.
    pub fn with<R>(&self, work: impl FnOnce(&mut C) -> Result<R, E>) -> Result<R, PoolError<E>> {
        let mut taken = Taken { connection: self.take()?, pool: self };
        let connection = match &mut taken.connection {
            Some(connection) => connection,
            none => none.insert((self.connect)().map_err(PoolError::Failed)?),
        };
        let done = work(connection);
        if done.is_err() {
            taken.connection = None;
        }
        done.map_err(PoolError::Failed)
    }

    /// An idle connection, or the right to make one.
    fn take(&self) -> Result<Option<C>, PoolError<E>> {
        let all_used =
            |found: &mut Connections<C>| found.idle.is_empty() && found.count >= self.most;
        loop {
            let found = self.returned.wait_timeout_while(self.lock(), PATIENCE, all_used);
            let (mut found, waited) = found.unwrap_or_else(PoisonError::into_inner);
            if waited.timed_out() {
                return Err(PoolError::Busy(self.most));
            }
            let Some(connection) = found.idle.pop() else {
                found.count += 1;
                return Ok(None);
            };
            drop(found);
            let mut taken = Taken { connection: Some(connection), pool: self };
            match taken.connection.take_if(|connection| (self.is_usable)(connection)) {
                Some(connection) => {
                    std::mem::forget(taken);
                    return Ok(Some(connection));
                }
                None => taken.connection = None,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connections<C>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place of the pool in use; it is returned however the work ends, by a panic too.
struct Taken<'a, C, E> {
    pool: &'a Pool<C, E>,
    connection: Option<C>,
}

impl<C, E> Drop for Taken<'_, C, E> {
    fn drop(&mut self) {
        let connection = self.connection.take().filter(|_| !std::thread::panicking());
        let mut connections = self.pool.lock();
        match connection {
            Some(connection) => connections.idle.push(connection),
            None => connections.count -= 1,
        }
        drop(connections);
        self.pool.returned.notify_one();
    }
}

/// The reason that work with a connection of a [`Pool`] was not done.
#[derive(Debug, derive_more::Display)]
pub enum PoolError<E> {
    /// All this many connections were in use.
    #[display("expected one of {_0} connections within {PATIENCE:?}: allow more in `Pool::new`")]
    Busy(usize),
    /// The other server was not reached, or the work failed.
    Failed(E),
}

impl<E: Error> Error for PoolError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            PoolError::Busy(_) => None,
            PoolError::Failed(error) => error.source(),
        }
    }
}
