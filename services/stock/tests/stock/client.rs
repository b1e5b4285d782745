//! A market with one client, used by every test here.

use ::stock::{Index, Market, Options, Order, Stock};
use memory::Region;
use seam::{Closed, Conn};
use sim::Talk;

/// The sample book of the course's assignment, in the order of its file.
pub const SAMPLE: &str = "1 7 1000\n5 3 3700\n3 10 1200\n4 8 5000\n2 6 20000\n";

pub fn market_of(text: &str) -> Region<Market> {
    Region::<Market>::alone(text.as_bytes())
}

pub fn market_with(index: Index, text: &str) -> Region<Market> {
    Region::<Market>::alone(&Market::seed(index, text.as_bytes()))
}

pub struct Client {
    pub market: Region<Market>,
    pub stock: Stock,
}

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

    /// One conversation: the pieces as they arrive, then the end of the client's input.
    pub fn send<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Conversation {
        let mut talk = Talk::new(&self.stock, &*self.market);
        let mut bytes = Vec::new();
        for piece in pieces {
            talk.quietly(|conn, stock, cx| conn.feed(stock, cx, piece));
            bytes.extend(talk.drink());
        }
        let closed = talk.closes();
        talk.quietly(Conn::eof);
        bytes.extend(talk.drink());
        assert!(talk.closes(), "the end of the peer ends the conversation");
        Conversation { bytes, closed, notes: talk.leaves(Closed::Service).take_notes() }
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
