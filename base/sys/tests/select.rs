//! The descriptors that select(2) cannot hold. A separate process, because it uses all low
//! descriptors.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use sys::ready::Interest;
use sys::select::SelectSet;

const LATE: Option<Duration> = Some(Duration::from_secs(10));

#[test]
fn what_does_not_fit_is_refused_and_the_last_that_fits_is_served() {
    let _ = sys::limits::raise_open_files(4096);
    let (mut near, far) = UnixStream::pair().unwrap();
    let mut copies: Vec<OwnedFd> = Vec::new();
    while copies.last().is_none_or(|copy| SelectSet::fits(copy.as_fd())) {
        copies.push(far.as_fd().try_clone_to_owned().unwrap());
    }
    let mut set = SelectSet::new();
    let too_high = copies.pop().unwrap();
    let refused = set.add(too_high.as_fd(), Interest::READ, 1).unwrap_err();
    assert!(refused.to_string().contains("below 1024, found"), "{refused}");
    let highest = copies.iter().max_by_key(|copy| copy.as_raw_fd()).unwrap();
    set.add(highest.as_fd(), Interest::READ, 2).unwrap();
    near.write_all(b"x").unwrap();
    let mut ready = Vec::new();
    set.wait(LATE, &mut ready).unwrap();
    assert_eq!(ready.len(), 1);
    assert_eq!(ready[0].key, 2);
}
