//! How figures go from one host to another: one encoding for each value, and a reader that believes nothing.
//!
//! Numbers are in base 128, low digits first, in the fewest bytes; texts and lists say their length before. The reader
//! takes bytes that another host made: it refuses numbers that could overflow a sum, and lists longer than their bytes.

mod error;
mod reader;

pub use error::CarriedError;
pub(crate) use reader::Reader;

/// The largest count that is taken, and the longest time in nanoseconds, 13 days: so the sum of all kinds of errors over
/// all workers fits into 64 bits.
pub(crate) const COUNT_MAX: u64 = 1 << 50;
/// The longest text that is taken, bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 16;

/// A value that goes from one host to another.
pub(crate) trait Carried: Sized {
    /// Writes it behind what is there.
    fn put(&self, to: &mut Vec<u8>);

    /// Reads it.
    ///
    /// # Errors
    /// [`CarriedError`], where the bytes are none that [`Carried::put`] writes.
    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError>;
}

/// Writes a number in base 128.
pub(crate) fn put_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Implements [`Carried`] for a structure by its fields, in their order.
macro_rules! carried {
    ($name:ident { $($field:ident),+ $(,)? }) => {
        impl $crate::carried::Carried for $name {
            fn put(&self, to: &mut Vec<u8>) {
                $($crate::carried::Carried::put(&self.$field, to);)+
            }

            fn take(
                from: &mut $crate::carried::Reader<'_>,
            ) -> Result<Self, $crate::carried::CarriedError> {
                Ok(Self { $($field: $crate::carried::Carried::take(from)?),+ })
            }
        }
    };
}
pub(crate) use carried;

impl Carried for u64 {
    fn put(&self, to: &mut Vec<u8>) {
        // What is larger counts as the most: no run comes near.
        put_number(to, (*self).min(COUNT_MAX));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        from.number(COUNT_MAX)
    }
}

impl Carried for u32 {
    fn put(&self, to: &mut Vec<u8>) {
        put_number(to, u64::from(*self));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        Ok(from.number(u64::from(u32::MAX))? as u32)
    }
}

impl Carried for u16 {
    fn put(&self, to: &mut Vec<u8>) {
        put_number(to, u64::from(*self));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        Ok(from.number(u64::from(u16::MAX))? as u16)
    }
}

impl Carried for i64 {
    fn put(&self, to: &mut Vec<u8>) {
        let bounded = (*self).clamp(-(COUNT_MAX as i64 / 2), COUNT_MAX as i64 / 2 - 1);
        put_number(to, (bounded << 1 ^ bounded >> 63) as u64);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        let number = from.number(COUNT_MAX)? as i64;
        Ok(number >> 1 ^ -(number & 1))
    }
}

impl Carried for u128 {
    fn put(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.to_le_bytes());
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        Ok(Self::from_le_bytes(from.array()?))
    }
}

impl Carried for bool {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        Ok(from.number(1)? == 1)
    }
}

impl Carried for f64 {
    fn put(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.to_bits().to_le_bytes());
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        let number = Self::from_bits(u64::from_le_bytes(from.array()?));
        // Shares and times: never below nothing.
        if number.is_finite() && number.is_sign_positive() { Ok(number) } else { Err(CarriedError::Number) }
    }
}

impl Carried for String {
    fn put(&self, to: &mut Vec<u8>) {
        let end = (0..=self.len().min(TEXT_BYTES_MAX)).rev().find(|end| self.is_char_boundary(*end)).unwrap_or(0);
        put_number(to, end as u64);
        to.extend_from_slice(&self.as_bytes()[..end]);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        let length = from.number(TEXT_BYTES_MAX as u64)? as usize;
        Ok(std::str::from_utf8(from.bytes(length)?).map_err(|_| CarriedError::Text)?.to_owned())
    }
}

impl<T: Carried> Carried for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        Ok(if bool::take(from)? { Some(T::take(from)?) } else { None })
    }
}

impl<T: Carried> Carried for Box<T> {
    fn put(&self, to: &mut Vec<u8>) {
        (**self).put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        Ok(Self::new(T::take(from)?))
    }
}

impl<T: Carried> Carried for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        put_number(to, self.len() as u64);
        self.iter().for_each(|value| value.put(to));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        // Each takes a byte at least, so a list is never longer than what is left; its room grows with what was read.
        let count = from.number(from.left() as u64)?;
        let mut values = Self::new();
        for _ in 0..count {
            values.push(T::take(from)?);
        }
        Ok(values)
    }
}

impl<T: Carried + Copy + Default, const N: usize> Carried for [T; N] {
    fn put(&self, to: &mut Vec<u8>) {
        self.iter().for_each(|value| value.put(to));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        let mut values = [T::default(); N];
        for value in &mut values {
            *value = T::take(from)?;
        }
        Ok(values)
    }
}

impl<A: Carried, B: Carried> Carried for (A, B) {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn again<T: Carried>(value: &T) -> T {
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        let mut reader = Reader::new(&bytes);
        let value = T::take(&mut reader).expect("what was written");
        reader.end().expect("nothing behind it");
        value
    }

    #[test]
    fn what_is_none_is_refused() {
        for bytes in [&[0x80][..], &[0x80, 0x00], &[0xff; 11], &[]] {
            assert!(u64::take(&mut Reader::new(bytes)).is_err(), "{bytes:?}");
        }
        assert!(bool::take(&mut Reader::new(&[2])).is_err());
        assert!(String::take(&mut Reader::new(&[2, b'a'])).is_err());
        assert!(String::take(&mut Reader::new(&[1, 0xff])).is_err());
        assert!(Vec::<u64>::take(&mut Reader::new(&[200, 1, 1])).is_err());
        assert!(f64::take(&mut Reader::new(&f64::NAN.to_le_bytes())).is_err());
        assert_eq!(again(&u64::MAX), COUNT_MAX);
        assert_eq!(again(&"ü".repeat(TEXT_BYTES_MAX)).len(), TEXT_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn values_come_as_they_went(
            numbers in prop::collection::vec(0..=COUNT_MAX, 0..20),
            signed in -1_000_000_000_000_i64..1_000_000_000_000,
            text in ".{0,40}",
            share in 0.0..1e9f64,
            pair in any::<(u32, u16)>(),
        ) {
            prop_assert_eq!(&again(&numbers), &numbers);
            prop_assert_eq!(again(&signed), signed);
            prop_assert_eq!(again(&text), text);
            prop_assert_eq!(again(&share), share);
            prop_assert_eq!(again(&Some(pair)), Some(pair));
        }
    }
}
