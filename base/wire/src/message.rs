//! The message buffer of a game server: fields are put in and taken out one after another.
//!
//! Numbers are little-endian and have no tags, so both sides must agree on their order; text and
//! other bytes have their length next to them, or fill the rest. A message is any `Vec<u8>`, so
//! fields go straight into the buffer that is sent. Taking beyond the end gives
//! `None`.

/// A number that a message can carry.
pub trait Field: Copy {
    /// Appends it.
    fn put_to(self, message: &mut Vec<u8>);

    /// Takes it off the front; `None`, and nothing is taken, if there is less.
    fn take_from(rest: &mut &[u8]) -> Option<Self>;
}

/// Puts fields at the end of a message.
pub trait PutField {
    /// Appends a field.
    fn put(&mut self, field: impl Field) -> &mut Self;
}

impl PutField for Vec<u8> {
    #[inline]
    fn put(&mut self, field: impl Field) -> &mut Vec<u8> {
        field.put_to(self);
        self
    }
}

/// The fields of a message that are still to be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next number.
    #[inline]
    pub fn take<F: Field>(&mut self) -> Option<F> {
        F::take_from(&mut self.0)
    }

    /// The next `len` bytes.
    #[inline]
    pub fn take_bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        self.0.split_off(..len)
    }

    /// All that is left.
    #[inline]
    pub fn take_rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }

    /// Whether everything is taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

macro_rules! fields {
    ($($number:ty),+) => {$(
        impl Field for $number {
            #[inline]
            fn put_to(self, message: &mut Vec<u8>) {
                message.extend_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn take_from(rest: &mut &[u8]) -> Option<$number> {
                let (found, others) = rest.split_first_chunk()?;
                *rest = others;
                Some(<$number>::from_le_bytes(*found))
            }
        }
    )+};
}

fields!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_comes_out() {
        let mut message = Vec::new();
        message.put(8_u16).put(u64::MAX >> 1).put(-1_i32).put(1.5_f64).put(7_u8);
        message.extend_from_slice(b"text");
        assert_eq!(message[..4], [8, 0, 0xff, 0xff], "little-endian");
        assert_eq!(Fields(&message[..1]).take::<u16>(), None);
        let mut fields = Fields(&message);
        assert_eq!((fields.take(), fields.take()), (Some(8_u16), Some(u64::MAX >> 1)));
        assert_eq!((fields.take(), fields.take()), (Some(-1_i32), Some(1.5_f64)));
        assert_eq!((fields.take(), fields.take_bytes(9)), (Some(7_u8), None));
        assert_eq!((fields.take_bytes(1), fields.take_rest()), (Some(&b"t"[..]), &b"ext"[..]));
        assert!(fields.is_empty() && fields.take::<u8>().is_none());
    }
}
