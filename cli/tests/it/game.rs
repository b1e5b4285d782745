//! The world on the engines that can carry bytes from one session to another.

use ::game::packet::{Ask, Bye, Moved, NoWay, Place, Role, Tell, VERSION};

use crate::arms::{Arm, EPOLL, POLL, PREFORK, SELECT, THREADS_EPOLL, URING};
use crate::harness::{Client, Folder, Plan, Server};

fn serve(arm: &Arm, more: &[&str]) -> Server {
    Plan::new(arm, "game").workers(1).with(&["--tick", "5ms"]).with(more).start()
}

/// A client that has joined.
struct Guest {
    client: Client,
    id: u64,
    size: Place,
    at: Place,
    /// All packets since the welcome.
    heard: Vec<Tell>,
}

impl Guest {
    #[track_caller]
    fn join(server: &Server, role: Role, name: &str) -> Guest {
        let mut guest =
            Guest { client: server.client(), id: 0, size: (0, 0), at: (0, 0), heard: Vec::new() };
        guest.ask(&Ask::Join { version: VERSION, role, name: name.to_owned() });
        let Tell::Welcome { id, size, at, .. } = guest.next() else {
            panic!("expected a welcome, found {:?}", guest.heard);
        };
        (guest.id, guest.size, guest.at) = (id, size, at);
        guest
    }

    fn ask(&mut self, ask: &Ask) {
        let mut bytes = Vec::new();
        ask.put(&mut bytes);
        self.client.send(bytes);
    }

    #[track_caller]
    fn next(&mut self) -> Tell {
        let length = self.client.exact(2);
        let body = self.client.exact(u16::from_le_bytes([length[0], length[1]]).into());
        let tell = Tell::read(&body).expect("a packet");
        if let Tell::Moves { moved, .. } = &tell {
            let own = moved.iter().find(|moved| moved.id == self.id);
            self.at = own.map_or(self.at, |own| own.at);
        }
        self.heard.push(tell.clone());
        tell
    }

    /// The next packet that `is` one.
    #[track_caller]
    fn until(&mut self, is: impl Fn(&Tell) -> bool) -> Tell {
        loop {
            let tell = self.next();
            if is(&tell) {
                return tell;
            }
        }
    }

    /// Asks for a path, walks to its end, and returns its straight and diagonal steps, and whether
    /// it leads to the place.
    #[track_caller]
    fn go(&mut self, place: Place) -> ((u32, u32), bool) {
        self.ask(&Ask::Go(place));
        let path = self.until(|tell| matches!(tell, Tell::Path { .. }));
        let Tell::Path { is_exact, steps, turns, .. } = path else { unreachable!() };
        while Some(&self.at) != turns.last() {
            self.next();
        }
        (steps, is_exact)
    }
}

fn a_walk(arm: &Arm) {
    arm.run(|arm| {
        let server = serve(arm, &[]);
        // A spectator receives the player's walk.
        let mut watcher = Guest::join(&server, Role::Spectator, "watcher");
        let mut ada = Guest::join(&server, Role::Player, "Ada");
        assert_eq!(ada.size, (80, 40));
        for place in [(0, 0), (79, 39)] {
            let (_, is_exact) = ada.go(place);
            assert!(is_exact && ada.at == place, "{:?}", ada.at);
        }
        ada.ask(&Ask::Who);
        ada.until(|tell| matches!(tell, Tell::Enter { role: Role::Spectator, .. }));
        let id = ada.id;
        drop(ada);
        watcher.until(|tell| *tell == Tell::Leave(id));
        let joined = |tell: &Tell| {
            matches!(tell, Tell::Enter { role: Role::Player, name, .. } if name == "Ada")
        };
        assert!(watcher.heard.iter().any(joined), "{:?}", watcher.heard);
        let moved = Moved { id, at: (79, 39) };
        let arrived =
            |tell: &Tell| matches!(tell, Tell::Moves { moved: all, .. } if all.contains(&moved));
        assert!(watcher.heard.iter().any(arrived), "{:?}", watcher.heard);
        drop(watcher);
        server.stop();
    });
}

#[test]
fn a_walk_is_seen_under_each_way_to_wait() {
    [&EPOLL, &SELECT, &POLL, &URING].into_iter().for_each(a_walk);
}

#[test]
fn engines_that_cannot_carry_bytes_are_refused_aloud() {
    for arm in [&PREFORK, &THREADS_EPOLL] {
        Plan::new(arm, "game").fail().exits(2).says("carry bytes from one session");
    }
}

#[test]
fn maps_are_read_or_refused() {
    let (folder, small) =
        Folder::with("small.map", "type octile\nheight 2\nwidth 3\nmap\n.@.\n...\n");
    let small = small.to_str().expect("a temporary path is text");
    let server = serve(&EPOLL, &["--map", small]);
    let mut guest = Guest::join(&server, Role::Player, "Ada");
    guest.ask(&Ask::Rows { first: 0, count: 2 });
    for (row, bits) in [(0, 0b101), (1, 0b111)] {
        let found = guest.until(|tell| matches!(tell, Tell::Row { .. }));
        assert_eq!(found, Tell::Row { row, bits: vec![bits] });
    }
    guest.go((0, 0));
    assert_eq!(guest.go((2, 0)), ((0, 2), true));
    let (_, is_exact) = guest.go((1, 0));
    assert!(!is_exact, "a wall is replaced by the nearest place");
    guest.ask(&Ask::Go((9, 9)));
    guest.until(|tell| *tell == Tell::NoWay(NoWay::Outside));
    drop(guest);
    server.stop();
    let blocked = folder.file("blocked.map", "type octile\nheight 1\nwidth 1\nmap\n@\n");
    for (map, words) in
        [(blocked.to_str().expect("text"), "a free cell"), ("absent", "cannot read")]
    {
        Plan::new(&EPOLL, "game").with(&["--map", map]).fail().exits(1).says(words);
    }
}

/// A server that stops tells its clients.
#[test]
fn a_drain_says_goodbye() {
    let server = serve(&EPOLL, &[]);
    let mut guest = Guest::join(&server, Role::Player, "Ada");
    server.stop();
    guest.until(|tell| *tell == Tell::Bye(Bye::Drain));
    assert_eq!(guest.client.rest(), b"");
}
