//! A market with one desk in front of it: what every test here talks to.

use memory::{Placement, Region};
use seam::{Buffers, Conn, Cx, Effects, Instant, Peer, SessionId, WorkerId};
use services::stock::{Book, Market, Options, Stock};
use std::borrow::Borrow;
use std::ops::Deref;

/// The sample book of the course's assignment, in the order of its file.
pub const SAMPLE: &str = "1 7 1000\n5 3 3700\n3 10 1200\n4 8 5000\n2 6 20000\n";

/// A market in memory of its own, as the simulator wants to borrow it.
pub struct Founded(Region<Market>);

impl Deref for Founded {
    type Target = Market;

    fn deref(&self) -> &Market {
        &self.0
    }
}

impl Borrow<Market> for Founded {
    fn borrow(&self) -> &Market {
        self
    }
}

pub fn founded(text: &str) -> Founded {
    founded_on(text.as_bytes())
}

pub fn founded_as(book: Book, text: &str) -> Founded {
    founded_on(&Market::seed(book, text.as_bytes()))
}

fn founded_on(seed: &[u8]) -> Founded {
    let mut market = Region::<Market>::place(Placement::Private).expect("memory");
    market.init(seed).expect("a good book");
    Founded(market)
}

pub struct Desk {
    pub market: Founded,
    pub stock: Stock,
}

/// What came of a conversation.
pub struct Heard {
    pub bytes: Vec<u8>,
    /// Whether the server closed before the peer had ended.
    pub closed: bool,
    pub notes: Vec<String>,
}

impl Heard {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl Desk {
    pub fn new(book: &str, options: Options) -> Desk {
        Desk { market: founded(book), stock: Stock::new(options) }
    }

    /// A market that finds its stocks by `book`.
    pub fn with(book: Book, text: &str, options: Options) -> Desk {
        Desk { market: founded_as(book, text), stock: Stock::new(options) }
    }

    /// One conversation: the pieces as they arrive, then the peer's end.
    pub fn hear<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Heard {
        let effects = Effects::new(false, true);
        let me = SessionId::new(0, 0, 1);
        let cx = Cx::new(Instant::ZERO, me, WorkerId::new(0, 1), &*self.market, &effects);
        let mut buffers = Buffers::new(1);
        let mut conn = Conn::open(&self.stock, &cx, Peer::Local, &mut buffers);
        let mut bytes = Vec::new();
        for piece in pieces {
            conn.feed(&self.stock, &cx, piece);
            self.drain(&cx, &mut conn, &mut bytes);
        }
        let closed = conn.wants().close;
        conn.eof(&self.stock, &cx);
        self.drain(&cx, &mut conn, &mut bytes);
        assert!(conn.wants().close, "the end of the peer ends the conversation");
        conn.close(&self.stock, &cx);
        Heard { bytes, closed, notes: effects.take_notes() }
    }

    fn drain(&self, cx: &Cx<'_, Market>, conn: &mut Conn<Stock>, bytes: &mut Vec<u8>) {
        while let Some(part) = conn.out().take() {
            bytes.extend_from_slice(part.in_memory().expect("the market sends no files"));
            conn.landed(&self.stock, cx, part.len());
        }
    }

    /// One conversation in one piece, as text.
    pub fn say(&self, requests: &str) -> String {
        self.hear([requests.as_bytes()]).text()
    }

    /// The book as the saver would write it.
    pub fn file(&self) -> String {
        let mut file = Vec::new();
        self.market.render_file(WorkerId::new(1, 1), &mut file);
        String::from_utf8(file).expect("digits")
    }
}
