//! Content codings: which ones a client takes, by Accept-Encoding (RFC 9110 section 12.5.3).

use crate::http::list_fields::Lines;
use crate::http::response::Variant;

/// The codings in the order of preference among equals: that of their size for text.
pub(crate) const CODINGS: [Variant; 3] = [Variant::Brotli, Variant::Zstd, Variant::Gzip];
/// A quality of 1, in thousandths.
const WHOLE: u16 = 1000;

/// The place of a coding in [`CODINGS`]; none for the plain bytes.
pub(crate) fn place(variant: Variant) -> Option<usize> {
    CODINGS.iter().position(|&coding| coding == variant)
}

/// The codings that a client takes, best first; the plain bytes come after all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Accepted {
    codings: [Variant; CODINGS.len()],
    count: usize,
}

impl Accepted {
    /// Reads the field. What is malformed is passed over: the plain bytes are always an answer.
    pub(crate) fn read(field: &[u8]) -> Self {
        let (mut named, mut any, mut identity) = ([None; CODINGS.len()], None, None);
        for item in field.split(|&byte| byte == b',') {
            let mut parts = item.split(|&byte| byte == b';');
            let name = parts.next().unwrap_or_default().trim_ascii();
            let Some(quality) = quality(parts) else { continue };
            let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
            if name == b"*" {
                any = Some(quality);
            } else if is(b"identity") {
                identity = Some(quality);
            } else {
                let coding = match () {
                    () if is(b"gzip") || is(b"x-gzip") => Variant::Gzip,
                    () if is(b"br") => Variant::Brotli,
                    () if is(b"zstd") => Variant::Zstd,
                    () => continue,
                };
                named[place(coding).unwrap_or(0)] = Some(quality);
            }
        }
        let of = |at: usize| named[at].or(any).unwrap_or(0);
        // A client that prefers plain bytes to a coding gets plain bytes; if it does not say, any coding is better.
        let least = identity.unwrap_or(0).max(1);
        let mut accepted = Self::default();
        let mut order = [0, 1, 2];
        order.sort_by_key(|&at| std::cmp::Reverse(of(at)));
        for at in order.into_iter().filter(|&at| of(at) >= least) {
            accepted.codings[accepted.count] = CODINGS[at];
            accepted.count += 1;
        }
        accepted
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Variant> {
        self.codings.into_iter().take(self.count)
    }
}

/// The quality among the parameters in thousandths; none if it is malformed.
fn quality(parameters: std::slice::Split<'_, u8, impl FnMut(&u8) -> bool>) -> Option<u16> {
    for parameter in parameters {
        let parameter = parameter.trim_ascii();
        let Some(value) = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q=")) else { continue };
        let (whole, digits) = match value {
            [whole] => (whole, &b""[..]),
            [whole, b'.', digits @ ..] if digits.len() <= 3 => (whole, digits),
            _ => return None,
        };
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let thousandths = (0..3).fold(0, |sum, i| sum * 10 + digits.get(i).map_or(0, |digit| u16::from(digit - b'0')));
        return match whole {
            b'0' => Some(thousandths),
            b'1' if thousandths == 0 => Some(WHOLE),
            _ => None,
        };
    }
    Some(WHOLE)
}

/// The codings of the client that asked last; browsers all send the same few lines.
#[derive(Debug, Default)]
pub(crate) struct LastAccepted {
    field: Vec<u8>,
    accepted: Accepted,
}

impl LastAccepted {
    /// The same as [`Accepted::read`] of all lines as one list, mostly without reading.
    pub(crate) fn read_lines(&mut self, lines: &Lines<'_>) -> Accepted {
        if let Some(field) = lines.only() {
            return self.read(field);
        }
        let lines: Vec<&[u8]> = lines.iter().collect();
        self.read(&lines.join(&b","[..]))
    }

    /// The same of a single line.
    pub(crate) fn read(&mut self, field: &[u8]) -> Accepted {
        if field != self.field {
            self.field.clear();
            self.field.extend_from_slice(field);
            self.accepted = Accepted::read(field);
        }
        self.accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Variant::{Brotli, Gzip, Zstd};
    use proptest::prelude::*;

    #[test]
    fn fields_of_every_form() {
        for (field, expected) in [
            ("gzip, deflate, br, zstd", &[Brotli, Zstd, Gzip][..]),
            ("gzip", &[Gzip]),
            ("x-gzip", &[Gzip]),
            ("GZIP;Q=0.5 , Br ; q=0.25", &[Gzip, Brotli]),
            ("gzip;q=1.0, br;q=0.9", &[Gzip, Brotli]),
            ("*", &[Brotli, Zstd, Gzip]),
            ("*;q=0.5, gzip", &[Gzip, Brotli, Zstd]),
            ("br;q=0, *", &[Zstd, Gzip]),
            ("gzip;q=0", &[]),
            ("identity", &[]),
            ("identity, gzip", &[Gzip]),
            ("identity, gzip;q=0.9", &[]),
            ("identity;q=0.5, gzip;q=0.9, br;q=0.1", &[Gzip]),
            ("identity;q=0, gzip;q=0.001", &[Gzip]),
            ("", &[]),
            ("deflate, compress", &[]),
            ("gzip;q=2", &[]),
            ("gzip;q=1.001", &[]),
            ("gzip;q=0.1234", &[]),
            ("gzip;q=", &[]),
            ("gzip;level=9", &[Gzip]),
            ("gzipped, brr", &[]),
        ] {
            assert_eq!(Accepted::read(field.as_bytes()).iter().collect::<Vec<_>>(), expected, "{field}");
        }
    }

    #[test]
    fn the_last_field_is_known_without_reading() {
        let mut last = LastAccepted::default();
        for field in ["", "gzip", "gzip", "br", "gzip"] {
            assert_eq!(last.read(field.as_bytes()), Accepted::read(field.as_bytes()), "{field}");
        }
    }

    proptest! {
        #[test]
        fn any_field_is_read(field in proptest::collection::vec(any::<u8>(), 0..60)) {
            let codings: Vec<Variant> = Accepted::read(&field).iter().collect();
            prop_assert!(!codings.contains(&Variant::Identity));
        }
    }
}
