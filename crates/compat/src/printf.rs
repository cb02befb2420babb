//! Numbers as C's `printf` writes them.

/// `%g`: six significant digits, no zeros at the end, with an exponent where that is shorter.
pub(crate) fn general(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    if !number.is_finite() {
        return if number.is_nan() {
            "nan"
        } else if number > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .to_owned();
    }
    // Rounded to six digits first: that decides the exponent (999999.5 is 1e+06).
    let scientific = format!("{number:.5e}");
    // The format is ours: digits, an `e`, an exponent of a double.
    let (digits, exponent) = scientific.split_once('e').expect("scientific notation has an e");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return without_zeros(&format!("{number:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(digits), exponent.abs())
}

/// A number without the zeros behind its point that say nothing.
fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ffi::{CStr, c_char};

    /// What the C library makes of it.
    fn by_c(number: f64) -> String {
        let mut buffer: [c_char; 64] = [0; 64];
        // SAFETY: the buffer's size is given, the format ends with a zero and takes one double.
        unsafe { libc::snprintf(buffer.as_mut_ptr(), buffer.len(), c"%g".as_ptr(), number) };
        // SAFETY: snprintf ends what it writes with a zero within the buffer.
        unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_str().expect("ASCII").to_owned()
    }

    #[test]
    fn numbers_look_as_c_prints_them() {
        for number in
            [0.0, 6.0, 855.0, 5.00351, 25668.0, 807.813, 1e6, 999_999.5, 999_999.4, 1.5e-5, 0.0001, 123_456_789.0]
        {
            assert_eq!(general(number), by_c(number), "{number}");
        }
    }

    proptest! {
        #[test]
        fn every_number_does(bits: u64, small in 0.0f64..1e7, whole in 0u32..20_000_000) {
            for number in [f64::from_bits(bits), small, f64::from(whole)] {
                if number.is_finite() && number != 0.0 {
                    prop_assert_eq!(general(number), by_c(number));
                }
            }
        }
    }
}
