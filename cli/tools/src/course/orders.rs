//! The orders of one client of the crowd, drawn exactly as the course's `multiclient` draws them.

use load::Mix;

use super::rand::Rand;

/// The orders that a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Menu {
    /// How often each command is drawn, as weights. One each is the course's `rand() % 3`.
    pub mix: Mix,
    /// Ids are drawn from 1 to this.
    pub stocks: u32,
    /// Amounts are drawn from 1 to this.
    pub shares: u32,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Order {
    /// The whole book.
    #[display("show\n")]
    Show,
    /// Buy `count` of this stock.
    #[display("buy {id} {count}\n")]
    Buy { id: u32, count: u32 },
    /// Sell `count` of this stock.
    #[display("sell {id} {count}\n")]
    Sell { id: u32, count: u32 },
}

/// An endless list of orders.
pub struct Orders {
    rand: Rand,
    menu: Menu,
}

impl Orders {
    /// The orders of the client with this seed, which is its process id by default.
    pub fn new(seed: u32, menu: Menu) -> Orders {
        Orders { rand: Rand::seeded(seed), menu }
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.rand.draw() % bound
    }
}

impl Iterator for Orders {
    type Item = Order;

    /// Draws the command first, then the stock, then the amount; `show` draws nothing more.
    fn next(&mut self) -> Option<Order> {
        let Menu { mix, stocks, shares } = self.menu;
        let command = self.below(mix.total());
        if command < mix.show {
            return Some(Order::Show);
        }
        let (id, count) = (1 + self.below(stocks), 1 + self.below(shares));
        let is_buy = command - mix.show < mix.buy;
        Some(if is_buy { Order::Buy { id, count } } else { Order::Sell { id, count } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(mix: Mix) -> Vec<Order> {
        Orders::new(4711, Menu { mix, stocks: 10, shares: 10 }).take(3000).collect()
    }

    #[test]
    fn the_courses_mix_is_the_remainder_by_three() {
        let mut rand = Rand::seeded(4711);
        let mut draw = |bound| rand.draw() % bound;
        for order in orders(Mix { show: 1, buy: 1, sell: 1 }) {
            let text = match draw(3) {
                0 => "show\n".to_owned(),
                1 => format!("buy {} {}\n", draw(10) + 1, draw(10) + 1),
                _ => format!("sell {} {}\n", draw(10) + 1, draw(10) + 1),
            };
            assert_eq!(order.to_string(), text);
        }
    }

    #[test]
    fn a_mix_of_one_command_is_that_command() {
        let only = |show, buy, sell| orders(Mix { show, buy, sell });
        assert!(only(1, 0, 0).iter().all(|order| *order == Order::Show));
        assert!(only(0, 7, 0).iter().all(|order| matches!(order, Order::Buy { .. })));
        let sales = only(0, 0, 1);
        let fits = |order: &Order| matches!(order, Order::Sell { id: 1..=10, count: 1..=10 });
        assert!(sales.iter().all(fits));
    }
}
