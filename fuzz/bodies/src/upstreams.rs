//! What upstreams answer.

use crate::Choices;
use crate::upstream::http1::oracle;
use crate::upstream::http1::response::Expected;
use crate::upstream::http1::upgrade::Upgrade;

/// Reads any bytes as a response of HTTP/1, in one piece and in many: the pieces make no difference, and a plain reader
/// of the whole input says the same.
pub fn upstream_response(input: &[u8]) {
    let mut choices = Choices(input);
    let expected = match choices.byte() % 4 {
        0 => Expected::Response,
        1 => Expected::HeadOnly,
        2 => Expected::Upgrade(Upgrade::Passed),
        _ => Expected::Upgrade(Upgrade::Extended),
    };
    let cuts: [usize; 3] = std::array::from_fn(|_| 1 + usize::from(choices.byte()));
    oracle::compared(choices.0, expected, &cuts);
}
