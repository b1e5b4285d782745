//! A player's connection to the world: packets out, packets in, and where the player stands.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ::game::packet::{Ask, Place, Role, TELL_MAX, Tell, VERSION, front};
use anyhow::{Context, Result, bail};
use load::Target;
use load::tls::Stream;

/// How long connecting and sending may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A player, as far as packets describe it.
pub struct Player {
    stream: Stream,
    /// Received bytes that are no whole packet yet.
    held: Vec<u8>,
    id: u64,
    /// Columns and rows of the map.
    pub size: Place,
    at: Place,
    /// The end of its path.
    goal: Option<Place>,
}

impl Player {
    /// Connects and asks to join under this name.
    pub fn join(server: &Target, name: &str) -> Result<Player> {
        let socket = TcpStream::connect_timeout(&server.address, PATIENCE)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let mut stream = Stream::new(socket, server).context("cannot reach the world")?;
        stream.agree()?;
        let (held, size, at) = (Vec::new(), (0, 0), (0, 0));
        let mut player = Player { stream, held, id: 0, size, at, goal: None };
        player.ask(&Ask::Join { version: VERSION, role: Role::Player, name: name.to_owned() })?;
        Ok(player)
    }

    /// Sends a packet.
    pub fn ask(&mut self, ask: &Ask) -> Result<()> {
        let mut bytes = Vec::new();
        ask.put(&mut bytes);
        self.stream.write_all(&bytes).context("the server takes nothing any more")
    }

    /// Whether it has joined and stands at the end of its path.
    pub fn has_arrived(&self) -> bool {
        self.id != 0 && self.goal.is_none_or(|goal| goal == self.at)
    }

    /// Receives for at most `patience`, and follows the packets.
    pub fn follow(&mut self, patience: Duration) -> Result<()> {
        let mut bytes = [0; 16 * 1024];
        self.stream.socket.set_read_timeout(Some(patience))?;
        match self.stream.read(&mut bytes) {
            Ok(0) => bail!("the world has closed the connection"),
            Ok(count) => self.held.extend_from_slice(&bytes[..count]),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                _ => return Err(error).context("the connection failed"),
            },
        }
        while let Some((body, used)) = front(&self.held, TELL_MAX)? {
            let tell = Tell::read(body)?;
            self.held.drain(..used);
            match tell {
                Tell::Welcome { id, size, at, .. } => {
                    (self.id, self.size, self.at) = (id, size, at);
                }
                Tell::Moves { moved, .. } => {
                    let own = moved.iter().find(|moved| moved.id == self.id);
                    self.at = own.map_or(self.at, |own| own.at);
                }
                Tell::Path { turns, .. } => self.goal = turns.last().copied(),
                Tell::Bye(why) => bail!("the world has sent the player away: {why:?}"),
                _ => {}
            }
        }
        Ok(())
    }
}
