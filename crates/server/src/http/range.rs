//! Byte ranges (RFC 9110 section 14).

/// What a Range field comes to for content of a given size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ranges {
    /// It is to be ignored: the whole content is sent.
    Whole,
    /// These ranges, each from its first byte to one past its last, in the order asked for; at least one.
    Some(Vec<(u64, u64)>),
    /// None of them has a byte: 416.
    Unsatisfiable,
}

/// Reads a Range field. More than `count_max` ranges, or ranges that together exceed the content, are ignored,
/// so that no client gets more bytes for a request than the content has (section 14.2 permits that).
pub(crate) fn parse(field: &[u8], size: u64, count_max: usize) -> Ranges {
    let Some(list) = field.get(..6).filter(|unit| unit.eq_ignore_ascii_case(b"bytes=")).map(|_| &field[6..]) else {
        return Ranges::Whole;
    };
    let mut ranges = Vec::new();
    let mut asked = 0;
    let mut empty_suffix = false;
    for spec in list.split(|&byte| byte == b',') {
        let spec = spec.trim_ascii();
        if spec.is_empty() {
            continue;
        }
        asked += 1;
        if asked > count_max {
            return Ranges::Whole;
        }
        let Some((first, last)) = bounds(spec) else { return Ranges::Whole };
        match (first, last) {
            (Some(first), Some(last)) if last < first => return Ranges::Whole,
            (Some(first), last) => {
                let end = last.map_or(size, |last| last.saturating_add(1).min(size));
                if first < end {
                    ranges.push((first, end));
                }
            }
            (None, Some(suffix)) if suffix > 0 => {
                if size == 0 {
                    empty_suffix = true;
                } else {
                    ranges.push((size.saturating_sub(suffix), size));
                }
            }
            (None, Some(_)) => {}
            (None, None) => return Ranges::Whole,
        }
    }
    if asked == 0 {
        return Ranges::Whole;
    }
    if ranges.is_empty() {
        // The last n bytes of nothing are all of it, which has no form as a partial response.
        return if empty_suffix { Ranges::Whole } else { Ranges::Unsatisfiable };
    }
    let total = ranges.iter().fold(0_u64, |total, (start, end)| total.saturating_add(end - start));
    if ranges.len() > 1 && total > size { Ranges::Whole } else { Ranges::Some(ranges) }
}

/// The two numbers around the hyphen; none if the form is wrong.
fn bounds(spec: &[u8]) -> Option<(Option<u64>, Option<u64>)> {
    let hyphen = spec.iter().position(|&byte| byte == b'-')?;
    Some((number(&spec[..hyphen])?, number(&spec[hyphen + 1..])?))
}

/// A number, or nothing where nothing is written; a number too large for any file counts as the largest.
fn number(digits: &[u8]) -> Option<Option<u64>> {
    if digits.is_empty() {
        return Some(None);
    }
    let mut number = 0_u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    }
    Some(Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_form() {
        let some = |ranges: &[(u64, u64)]| Ranges::Some(ranges.to_vec());
        for (field, expected) in [
            ("bytes=0-0", some(&[(0, 1)])),
            ("Bytes=5-", some(&[(5, 100)])),
            ("bytes=-5", some(&[(95, 100)])),
            ("bytes=-500", some(&[(0, 100)])),
            ("bytes=90-500", some(&[(90, 100)])),
            ("bytes= 0-1 , 98-99", some(&[(0, 2), (98, 100)])),
            ("bytes=,,0-1,", some(&[(0, 2)])),
            ("bytes=200-300,0-1", some(&[(0, 2)])),
            ("bytes=0-99999999999999999999999", some(&[(0, 100)])),
            ("bytes=100-", Ranges::Unsatisfiable),
            ("bytes=-0", Ranges::Unsatisfiable),
            ("bytes=18446744073709551615-", Ranges::Unsatisfiable),
            ("bytes=5-4", Ranges::Whole),
            ("bytes=-", Ranges::Whole),
            ("bytes=", Ranges::Whole),
            ("bytes=a-b", Ranges::Whole),
            ("bytes=1-2-3", Ranges::Whole),
            ("bytes=+1-2", Ranges::Whole),
            ("bytes 0-1", Ranges::Whole),
            ("lines=0-1", Ranges::Whole),
            ("bytes=0-99,0-0", Ranges::Whole),
            ("bytes=0-0,1-1,2-2,3-3,4-4", Ranges::Whole),
        ] {
            assert_eq!(parse(field.as_bytes(), 100, 4), expected, "{field}");
        }
        assert_eq!(parse(b"bytes=0-", 0, 4), Ranges::Unsatisfiable);
        assert_eq!(parse(b"bytes=-5", 0, 4), Ranges::Whole);
    }
}
