use super::*;
use memory::Region;
use seam::{BadSeed, Dead, Share};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

const ME: WorkerId = WorkerId::new(0, 1);

thread_local! {
    /// The stores before the worker is killed.
    static FUSE: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// Counts a store; the worker is killed before it when the fuse has burnt down.
pub(super) fn burn() {
    FUSE.with(|fuse| {
        assert!(fuse.get() > 0, "killed");
        fuse.set(fuse.get() - 1);
    });
}

#[repr(transparent)]
struct Alone(OrderBook);

// SAFETY: as `Exchange`, of which it is a part.
unsafe impl Share for Alone {
    fn init(&mut self, _seed: &[u8]) -> Result<(), BadSeed> {
        self.0.found(7, 1000);
        Ok(())
    }

    fn heal(&self, _dead: Dead) {}
}

fn book() -> Region<Alone> {
    FUSE.set(u32::MAX);
    Region::<Alone>::alone(b"")
}

/// Facts that clients can see: the sums, each order by its number, and both sides' levels.
type Seen = (Summary, Vec<Option<State>>, [Vec<(u32, u64)>; 2]);

fn seen(book: &OrderBook) -> Seen {
    let depth = [Side::Buy, Side::Sell].map(|side| book.depth(side).collect());
    (book.summary(), (0..40).map(|number| book.state(number)).collect(), depth)
}

/// Orders of both sides at five prices, of which some are cancelled.
fn filled() -> Region<Alone> {
    let it = book();
    for at in 0..24 {
        let (side, price) = if at % 2 == 0 { (Side::Buy, 990) } else { (Side::Sell, 1010) };
        it.0.place(side, 5 + at, price + at % 5).expect("room");
    }
    for number in [3, 8, 11] {
        it.0.cancel(number).expect("open");
    }
    it
}

/// An operation is carried out wholly or not at all, before whichever store its worker is killed.
fn check(what: &str, act: fn(&OrderBook)) {
    let (before, after) = (seen(&filled().0), filled());
    act(&after.0);
    let mut began = 0;
    for stores in 0.. {
        let it = filled();
        std::mem::forget(it.0.lock(ME));
        FUSE.set(stores);
        let ended = catch_unwind(AssertUnwindSafe(|| act(&it.0)));
        FUSE.set(u32::MAX);
        it.0.heal(ME);
        let found = seen(&it.0);
        let is_whole = found == seen(&after.0);
        assert!(is_whole || found == before, "{what}, killed before store {stores}: {found:?}");
        began += u32::from(is_whole);
        if ended.is_ok() {
            assert!(is_whole && stores > 3 && began > 1, "{what}: {stores} stores, {began} whole");
            break;
        }
        // The book goes on: all that is open meets one order.
        let open = it.0.summary().open[Side::Sell as usize];
        let sold = it.0.place(Side::Buy, open as u32, 2000).expect("room");
        assert_eq!((sold.open, it.0.summary().best[1]), (0, 0), "{what}, store {stores}");
    }
}

#[test]
fn a_killed_worker_leaves_a_whole_book() {
    check("an order that waits", |it| assert!(it.place(Side::Buy, 9, 1001).is_ok()));
    check("one that meets many", |it| assert!(it.place(Side::Buy, 60, 1012).is_ok()));
    check("one that is more than there is", |it| assert!(it.place(Side::Sell, 900, 1).is_ok()));
    check("one in the middle is cancelled", |it| assert!(it.cancel(13) > Some(0)));
    check("one alone is cancelled", |it| assert!(it.cancel(24) > Some(0)));
}

#[test]
fn prices_have_a_band_and_books_an_end() {
    let it = &book().0;
    let most = BAND as u32;
    assert_eq!(it.place(Side::Buy, 1, most + 1), Err(NotPlaced::Beyond(1, most, most + 1)));
    for number in 1..=ORDERS_MAX as u64 {
        let price = 1 + (number * 7919 % u64::from(most)) as u32;
        assert_eq!(it.place(Side::Sell, 2, price).expect("room").number, number);
    }
    assert_eq!(it.place(Side::Buy, 1, 5), Err(NotPlaced::Full));
    assert_eq!(it.cancel(100), Some(2));
    // Its place belongs to the next number that falls there.
    let next = it.place(Side::Sell, 3, most).expect("room").number;
    assert_eq!((next, it.state(100)), (ORDERS_MAX as u64 + 100, None));
    let prices: Vec<u32> = it.depth(Side::Sell).map(|(price, _)| price).collect();
    assert!(prices.is_sorted() && prices.len() > BAND / 2, "{}", prices.len());
    it.heal(ME);
}
