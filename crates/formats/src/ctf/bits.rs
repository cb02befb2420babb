//! Numbers of any length at any bit: Common Trace Format 1.8.3, section 4.1.

use super::types::Order;

/// The number of up to 64 bits that begins at a bit; none beyond the end.
///
/// Little-endian numbers begin with the lowest bit of their first byte, big-endian ones with its highest.
pub(crate) fn unsigned(bytes: &[u8], at: u64, size: u32, order: Order) -> Option<u64> {
    let (first, last) = ((at / 8) as usize, ((at + u64::from(size)).div_ceil(8)) as usize);
    let within = bytes.get(first..last)?;
    if at.is_multiple_of(8) && size.is_multiple_of(8) {
        return Some(match (order, within) {
            (Order::Little, [a, b, c, d]) => u64::from(u32::from_le_bytes([*a, *b, *c, *d])),
            (Order::Little, [a, b, c, d, e, f, g, h]) => u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
            (Order::Little, _) => within.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
            (Order::Big, _) => within.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        });
    }
    // Up to nine bytes hold it.
    let skipped = (at % 8) as u32;
    let mask = if size == 64 { u64::MAX } else { (1 << size) - 1 };
    let number = match order {
        Order::Little => within.iter().rev().fold(0u128, |sum, byte| sum << 8 | u128::from(*byte)) >> skipped,
        Order::Big => {
            let unused = within.len() as u32 * 8 - skipped - size;
            within.iter().fold(0u128, |sum, byte| sum << 8 | u128::from(*byte)) >> unused
        }
    };
    Some(number as u64 & mask)
}

/// A number of so many bits as one with a sign.
pub(crate) fn signed(number: u64, size: u32) -> i64 {
    let unused = 64 - size.clamp(1, 64);
    (number << unused).cast_signed() >> unused
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writes a number bit by bit, as the specification says it.
    fn write(bytes: &mut [u8], at: u64, size: u32, number: u64, order: Order) {
        for index in 0..u64::from(size) {
            let bit = match order {
                Order::Little => number >> index & 1,
                Order::Big => number >> (u64::from(size) - 1 - index) & 1,
            };
            let place = at + index;
            let shift = if order == Order::Little { place % 8 } else { 7 - place % 8 };
            bytes[(place / 8) as usize] |= (bit as u8) << shift;
        }
    }

    proptest! {
        #[test]
        fn numbers_come_back_from_any_bit(at in 0u64..40, size in 1u32..=64, number: u64, is_big: bool) {
            let order = if is_big { Order::Big } else { Order::Little };
            let number = if size == 64 { number } else { number & ((1 << size) - 1) };
            let mut bytes = [0; 16];
            write(&mut bytes, at, size, number, order);
            prop_assert_eq!(unsigned(&bytes, at, size, order), Some(number));
            prop_assert_eq!(unsigned(&bytes, 128 - u64::from(size) + 1, size, order), None);
            prop_assert_eq!(signed(number, size) as u64 & (u64::MAX >> (64 - size)), number);
        }
    }
}
