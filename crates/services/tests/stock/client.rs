//! A market with one client, used by every test here.

use memory::Region;
use seam::{Buffers, Conn, Cx, Effects, Instant, Peer, SessionId, WorkerId};
use services::stock::{Index, Market, Options, Order, Stock};

/// The sample book of the course's assignment, in the order of its file.
pub const SAMPLE: &str = "1 7 1000\n5 3 3700\n3 10 1200\n4 8 5000\n2 6 20000\n";

pub fn market_of(text: &str) -> Region<Market> {
    market_from(text.as_bytes())
}

pub fn market_with(index: Index, text: &str) -> Region<Market> {
    market_from(&Market::seed(index, text.as_bytes()))
}

fn market_from(seed: &[u8]) -> Region<Market> {
    Region::<Market>::alone(seed)
}

pub struct Client {
    pub market: Region<Market>,
    pub stock: Stock,
}

/// The result of a conversation.
pub struct Conversation {
    pub bytes: Vec<u8>,
    /// Whether the server closed before the peer had ended.
    pub closed: bool,
    pub notes: Vec<String>,
}

impl Conversation {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl Client {
    pub fn new(book: &str, options: Options) -> Client {
        Client { market: market_of(book), stock: Stock::new(options) }
    }

    /// A market with this index.
    pub fn with(index: Index, text: &str, options: Options) -> Client {
        Client { market: market_with(index, text), stock: Stock::new(options) }
    }

    /// One conversation: the pieces as they arrive, then the end of the client's input.
    pub fn send<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Conversation {
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
        Conversation { bytes, closed, notes: effects.take_notes() }
    }

    fn drain(&self, cx: &Cx<'_, Market>, conn: &mut Conn<Stock>, bytes: &mut Vec<u8>) {
        while let Some(part) = conn.out().take() {
            bytes.extend_from_slice(part.in_memory().expect("the market sends no files"));
            conn.landed(&self.stock, cx, part.len());
        }
    }

    /// One conversation in one piece, as text.
    pub fn say(&self, requests: &str) -> String {
        self.send([requests.as_bytes()]).text()
    }

    /// The book in the order of the file.
    pub fn file(&self) -> String {
        let mut file = Vec::new();
        self.market.render_by_row(Order::File, &mut file);
        String::from_utf8(file).expect("digits")
    }
}
