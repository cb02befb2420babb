//! What upstreams answer.

use crate::Choices;
use crate::upstream::http1::oracle;
use crate::upstream::http1::response::Expected;
use crate::upstream::http1::upgrade::Upgrade;
use crate::upstream::http2::connection::{Asked, Connection};
use crate::upstream::http2::stream::Expects;
use crate::upstream::message::Said;

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

/// Reads any bytes as what an upstream of HTTP/2 sends, in one piece and in many: the pieces make no difference.
pub fn upstream_http2(input: &[u8]) {
    let mut choices = Choices(input);
    let cuts: [usize; 3] = std::array::from_fn(|_| 1 + usize::from(choices.byte()));
    let streams = 1 + u32::from(choices.byte() % 4);
    let whole = of_http2(choices.0, streams, &[usize::MAX]);
    assert_eq!(whole, of_http2(choices.0, streams, &cuts));
}

/// Whether the bytes were borne, and what each stream says of them.
fn of_http2(mut input: &[u8], streams: u32, cuts: &[usize]) -> (bool, Vec<String>) {
    let mut connection = Connection::new(5);
    let mut ids = Vec::new();
    for user in 0..streams {
        let expects = match user % 3 {
            0 => Expects::Response,
            1 => Expects::HeadOnly,
            _ => Expects::Tunnel(b"Upgrade: x\r\n".to_vec()),
        };
        let head = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\n\r\n";
        let asked = Asked { head, is_secure: false, has_body: user % 2 == 0, expects, user };
        ids.extend(connection.open(asked).ok());
    }
    let (mut is_borne, mut at) = (true, 0);
    while is_borne && !input.is_empty() {
        let (piece, rest) = input.split_at(cuts[at % cuts.len()].min(input.len()));
        is_borne = connection.receive(piece, 5).is_ok();
        (input, at) = (rest, at + 1);
    }
    let told = ids.into_iter().map(|id| {
        let mut text = String::new();
        loop {
            let mut is_ended = false;
            let mut say = |said: Said<'_>| {
                is_ended |= said == Said::End;
                text.push_str(&format!("{said:?}"));
            };
            match connection.take(id, usize::MAX, &mut say) {
                Ok(true) if !is_ended => {}
                Ok(_) => return text,
                Err(fault) => return format!("{text}{fault:?}"),
            }
        }
    });
    (is_borne, told.collect())
}
