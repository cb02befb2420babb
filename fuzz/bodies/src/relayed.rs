//! Responses on their way from the server that goes on making them to the one that sends them.

use crate::exchange::relayed_form::{Decoder, Said};

/// What a stream says, cut into pieces of so many bytes: the response, its framing, and whether it is whole.
fn read(input: &[u8], piece: usize) -> Option<(Vec<u8>, u64, bool)> {
    let (mut bytes, mut framing, mut decoder) = (Vec::new(), 0, Decoder::default());
    for piece in input.chunks(piece) {
        let fed = decoder.feed(piece, &mut |said| match said {
            Said::Framing(more) => framing += u64::from(more),
            Said::Bytes(more) | Said::End(more) => bytes.extend_from_slice(more),
        });
        fed.ok()?;
    }
    Some((bytes, framing, decoder.is_ended()))
}

/// Any bytes as such a stream: however it is cut, it says the same, and never more than came. The first byte says where.
pub fn relayed_response(input: &[u8]) {
    let Some((piece, stream)) = input.split_first() else { return };
    let whole = read(stream, usize::MAX);
    if let Some((bytes, ..)) = &whole {
        assert!(bytes.len() <= stream.len());
    }
    assert_eq!(read(stream, usize::from(*piece) + 1), whole);
}
