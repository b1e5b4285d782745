//! Rings over real sockets: every way to receive and to accept.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use sys::uring::{
    Acceptance, Completion, Load, OWN_LARGE, OWN_SMALL, Receive, Received, Setup, Uring,
};

/// The limit for a completion on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const TOKEN: u64 = 7;

/// A ring, if this machine supports one. Must be made on the test's own thread.
fn ring() -> Option<Uring> {
    match Uring::new(&Setup::default()) {
        Ok(ring) => Some(ring),
        Err(refusal) => {
            println!("skipped: {refusal}");
            None
        }
    }
}

/// The next completion that is not quiet.
#[track_caller]
fn next(ring: &mut Uring, batch: &mut Vec<sys::uring::Raw>) -> Completion {
    let begin = Instant::now();
    loop {
        while !batch.is_empty() {
            let raw = batch.remove(0);
            match ring.completion(&raw) {
                Completion::Quiet => {}
                said => return said,
            }
        }
        assert!(begin.elapsed() < PATIENCE, "expected a completion");
        ring.wait(Some(Duration::from_secs(1)), batch).unwrap();
    }
}

/// All completions of some time.
fn during(time: Duration, ring: &mut Uring) -> Vec<Completion> {
    let (begin, mut batch, mut said) = (Instant::now(), Vec::new(), Vec::new());
    while begin.elapsed() < time {
        ring.wait(Some(Duration::from_millis(50)), &mut batch).unwrap();
        said.extend(batch.drain(..).map(|raw| ring.completion(&raw)));
    }
    said
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

/// Receives to the end; returns the bytes and the longest piece.
#[track_caller]
fn receive_all(ring: &mut Uring, fd: &TcpStream, how: Receive) -> (Vec<u8>, usize) {
    let (mut batch, mut heard, mut longest) = (Vec::new(), Vec::new(), 0);
    let (mut armed, mut known) = (false, false);
    loop {
        if !armed {
            ring.receive(fd.as_fd(), TOKEN, how, known);
        }
        let Completion::Received { token: TOKEN, input, more, waiting } = next(ring, &mut batch)
        else {
            panic!("nothing else was asked for");
        };
        (armed, known) = (more, waiting);
        match input {
            Received::Bytes(filled) => {
                longest = longest.max(ring.bytes(&filled).len());
                heard.extend_from_slice(ring.bytes(&filled));
                ring.give_back(filled);
            }
            Received::NoBuffers => {}
            Received::Eof => return (heard, longest),
            other => panic!("{other:?}"),
        }
    }
}

/// A waiting connection holds a small buffer; one with much input gets a larger one.
#[test]
fn own_buffers_grow_where_input_is_there_already() {
    let Some(mut ring) = ring() else { return };
    let (mut near, far) = pair();
    near.write_all(&[1; 4 * OWN_SMALL]).unwrap();
    near.shutdown(Shutdown::Write).unwrap();
    // All of it has arrived before the first receive.
    let (heard, longest) = receive_all(&mut ring, &far, Receive::Own);
    assert_eq!(heard.len(), 4 * OWN_SMALL);
    assert!((OWN_SMALL + 1..=OWN_LARGE).contains(&longest), "{longest}");
}

#[test]
fn a_receive_that_waits_can_be_cancelled() {
    for how in [Receive::Multishot, Receive::Own] {
        let Some(mut ring) = ring() else { return };
        let (_near, far) = pair();
        let armed = ring.receive(far.as_fd(), TOKEN, how, false);
        ring.cancel(armed);
        let said = next(&mut ring, &mut Vec::new());
        let Completion::Received { input: Received::Cancelled, more: false, .. } = said else {
            panic!("{how:?}: {said:?}");
        };
    }
}

#[test]
fn one_accept_brings_one_connection_or_all() {
    for how in [Acceptance::Once, Acceptance::Multishot] {
        let Some(mut ring) = ring() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut batch = Vec::new();
        for round in 0..3 {
            if how == Acceptance::Once || round == 0 {
                ring.accept(listener.as_fd(), TOKEN, how);
            }
            let _near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let said = next(&mut ring, &mut batch);
            let Completion::Accepted { result: Ok(_fd), more, .. } = said else {
                panic!("{how:?}: {said:?}");
            };
            assert_eq!(more, how == Acceptance::Multishot);
        }
    }
}

#[test]
fn bytes_come_into_provided_buffers() {
    let Some(mut ring) = ring() else { return };
    let (near, far) = pair();
    ring.send(near.as_fd(), TOKEN, Load::One(sys::uring::Chunk::Owned(b"hello".to_vec())));
    let said = next(&mut ring, &mut Vec::new());
    assert!(matches!(said, Completion::Sent { result: Ok(5), .. }), "{said:?}");
    near.shutdown(Shutdown::Write).unwrap();
    assert_eq!(receive_all(&mut ring, &far, Receive::Multishot).0, b"hello");
}

/// Writes until the connection stays full, and returns the number of bytes. The kernel moves bytes
/// to the peer and grows its buffers for a while after the first write that has no room.
fn fill(far: &mut TcpStream) -> usize {
    let (mut written, mut last) = (0, Instant::now());
    while last.elapsed() < Duration::from_millis(300) {
        match far.write(&[0; 1 << 16]) {
            Ok(len) => (written, last) = (written + len, Instant::now()),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    written
}

/// A peer that has ended its output still takes input: the wait for room is quiet until there is
/// some, once and again, and a peer that is gone ends it.
#[test]
fn a_half_closed_peer_takes_output_when_it_reads() {
    for is_half_closed in [false, true] {
        let Some(mut ring) = ring() else { return };
        let (mut near, mut far) = pair();
        far.set_nonblocking(true).unwrap();
        if is_half_closed {
            near.shutdown(Shutdown::Write).unwrap();
        }
        let mut batch = Vec::new();
        for round in 0..3 {
            let mut written = fill(&mut far);
            ring.watch_writable(far.as_fd(), TOKEN);
            let said = during(Duration::from_millis(200), &mut ring);
            let is_quiet = said.iter().all(|said| matches!(said, Completion::Quiet));
            assert!(is_quiet && said.len() <= 4, "round {round}, a full socket: {said:?}");
            let mut scratch = vec![0; 1 << 16];
            while written > 0 {
                written -= near.read(&mut scratch).unwrap();
            }
            let said = next(&mut ring, &mut batch);
            assert!(matches!(said, Completion::Writable { token: TOKEN }), "{round}: {said:?}");
        }
        fill(&mut far);
        ring.watch_writable(far.as_fd(), TOKEN);
        drop(near);
        let said = next(&mut ring, &mut batch);
        assert!(matches!(said, Completion::Writable { token: TOKEN }), "gone: {said:?}");
    }
}

/// A wait for output that is cancelled ends, of a half-closed peer too.
#[test]
fn a_wait_for_output_can_be_cancelled() {
    for is_half_closed in [false, true] {
        let Some(mut ring) = ring() else { return };
        let (near, mut far) = pair();
        far.set_nonblocking(true).unwrap();
        fill(&mut far);
        if is_half_closed {
            near.shutdown(Shutdown::Write).unwrap();
        }
        ring.watch_writable(far.as_fd(), TOKEN);
        let mut batch = Vec::new();
        ring.wait(Some(Duration::from_millis(50)), &mut batch).unwrap();
        ring.cancel_all(far.as_fd());
        let said = next(&mut ring, &mut batch);
        assert!(matches!(said, Completion::Writable { token: TOKEN }), "{said:?}");
    }
}

/// A send to a half-closed peer that does not read waits in the same way, on a socket of either
/// mode: all of it arrives, and it can be cancelled.
#[test]
fn a_send_to_a_half_closed_peer_waits_until_it_reads() {
    const LEN: usize = 16 << 20;
    for (is_nonblocking, is_cancelled) in
        [(false, false), (true, false), (false, true), (true, true)]
    {
        let Some(mut ring) = ring() else { return };
        let (mut near, far) = pair();
        far.set_nonblocking(is_nonblocking).unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        let pieces = [vec![1; LEN / 2], vec![2; LEN / 2]].map(sys::uring::Chunk::Owned);
        ring.send(far.as_fd(), TOKEN, Load::Rope(pieces.into()));
        let said = during(Duration::from_millis(300), &mut ring);
        let has_left = |said: &Completion| matches!(said, Completion::Sent { load: Some(_), .. });
        let mut is_whole = said.iter().any(has_left);
        assert!(!is_whole && said.len() < 40, "{} completions of a full socket", said.len());
        if is_cancelled {
            ring.cancel_all(far.as_fd());
        }
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            (near.read_to_end(&mut bytes).is_ok(), bytes.len())
        });
        let mut batch = Vec::new();
        while !is_whole {
            is_whole = has_left(&next(&mut ring, &mut batch));
        }
        // The ring may hold the socket of a cancelled send until it is entered again.
        far.shutdown(Shutdown::Write).unwrap();
        let (_, len) = reader.join().unwrap();
        assert!(is_cancelled || len == LEN, "{len} bytes, non-blocking: {is_nonblocking}");
    }
}
