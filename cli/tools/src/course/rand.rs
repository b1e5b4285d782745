//! `srand(3)` and `rand(3)` as the GNU C library computes them.
//!
//! The course's clients draw their orders from `rand` after `srand(getpid())` and print their
//! process id, so the printed ids determine every order that was sent. Where the generator is
//! known, that is a perfect oracle on any C library. It is the "TYPE_3" of random(3), an additive
//! generator of degree 31 and separation 3 (Knuth, TAOCP volume 2, section 3.2.2), seeded by Park
//! and Miller's 16807 (CACM 31:10, 1988). A test compares it with the library itself.

/// The number of words of state.
const DEGREE: usize = 31;
/// The distance between the two words that are added.
const SEPARATION: usize = 3;
/// The number of values discarded after seeding.
const WARMUP: usize = 10 * DEGREE;

/// A generator.
pub struct Rand {
    words: [u32; DEGREE],
    /// The index of the next word; the word added to it is [`SEPARATION`] behind.
    front: usize,
}

impl Rand {
    /// The generator after `srand(seed)`.
    pub fn seeded(seed: u32) -> Rand {
        // The library's word is signed, and a state of zero would stay zero.
        let mut word = i64::from(seed.max(1).cast_signed());
        let mut words = [0; DEGREE];
        words[0] = word as u32;
        for slot in &mut words[1..] {
            // Schrage: 16807 * word modulo 2^31 - 1 without a product beyond 32 bits.
            word = 16807 * (word % 127_773) - 2836 * (word / 127_773);
            if word < 0 {
                word += 0x7fff_ffff;
            }
            *slot = word as u32;
        }
        let mut rand = Rand { words, front: SEPARATION };
        for _ in 0..WARMUP {
            rand.draw();
        }
        rand
    }

    /// The next number, 0 to 2^31 - 1.
    pub fn draw(&mut self) -> u32 {
        let rear = (self.front + DEGREE - SEPARATION) % DEGREE;
        let sum = self.words[self.front].wrapping_add(self.words[rear]);
        self.words[self.front] = sum;
        self.front = (self.front + 1) % DEGREE;
        sum >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::Rand;

    #[test]
    fn the_first_numbers_of_an_unseeded_program() {
        // rand() without srand(3) is srand(1).
        let mut rand = Rand::seeded(1);
        let found: Vec<u32> = (0..5).map(|_| rand.draw()).collect();
        assert_eq!(
            found,
            [1_804_289_383, 846_930_886, 1_681_692_777, 1_714_636_915, 1_957_747_793]
        );
    }

    #[test]
    fn zero_stands_for_one() {
        let (mut zero, mut one) = (Rand::seeded(0), Rand::seeded(1));
        assert!((0..100).all(|_| zero.draw() == one.draw()));
    }
}
