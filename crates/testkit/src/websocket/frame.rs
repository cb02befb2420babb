//! Frames of WebSocket (RFC 6455 section 5), as far as tests need them: whole messages of at most 65,535 bytes.

/// Kinds of frames.
pub(super) const TEXT: u8 = 1;
pub(super) const BINARY: u8 = 2;
pub(super) const CLOSE: u8 = 8;
pub(super) const PING: u8 = 9;
pub(super) const PONG: u8 = 10;

/// A frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) content: Vec<u8>,
}

/// Appends a frame; with a mask it is a client's.
pub(super) fn write(out: &mut Vec<u8>, kind: u8, content: &[u8], mask: Option<[u8; 4]>) {
    let masked = if mask.is_some() { 0x80 } else { 0 };
    out.push(0x80 | kind);
    match u16::try_from(content.len()) {
        Ok(short @ 0..=125) => out.push(masked | short as u8),
        Ok(long) => {
            out.push(masked | 126);
            out.extend_from_slice(&long.to_be_bytes());
        }
        Err(_) => panic!("frames of tests are short"),
    }
    out.extend_from_slice(mask.as_ref().map_or(&[], |mask| &mask[..]));
    let begin = out.len();
    out.extend_from_slice(content);
    apply(&mut out[begin..], mask);
}

/// Takes the first frame off the input, if it is whole.
///
/// # Errors
///
/// What it breaks of the standard, or of what tests use of it.
pub(super) fn read(input: &mut Vec<u8>) -> Result<Option<Frame>, String> {
    let [first, second, ..] = input[..] else { return Ok(None) };
    if first & 0x70 != 0 || first & 0x80 == 0 || !matches!(first & 0xf, TEXT | BINARY | CLOSE | PING | PONG) {
        return Err(format!("a frame begins with {first:#x}"));
    }
    let (is_masked, short) = (second & 0x80 != 0, usize::from(second & 0x7f));
    let (length, mut at) = match short {
        126 if input.len() < 4 => return Ok(None),
        126 => (usize::from(u16::from_be_bytes([input[2], input[3]])), 4),
        127 => return Err("a frame is longer than any that was sent".to_owned()),
        short => (short, 2),
    };
    let mask_at = at;
    at += if is_masked { 4 } else { 0 };
    if input.len() < at + length {
        return Ok(None);
    }
    let mask = is_masked.then(|| std::array::from_fn(|place| input[mask_at + place]));
    let mut content = input[at..at + length].to_vec();
    apply(&mut content, mask);
    input.drain(..at + length);
    if input.is_empty() {
        // Thousands of sockets keep nothing while they wait.
        *input = Vec::new();
    }
    Ok(Some(Frame { kind: first & 0xf, content }))
}

fn apply(content: &mut [u8], mask: Option<[u8; 4]>) {
    let Some(mask) = mask else { return };
    content.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_also_in_pieces() {
        let mut input = Vec::new();
        for length in [0, 1, 125, 126, 65_535] {
            for mask in [None, Some([1, 2, 3, 4])] {
                let content: Vec<u8> = (0..length).map(|place| place as u8).collect();
                let mut out = Vec::new();
                write(&mut out, BINARY, &content, mask);
                let (begin, end) = out.split_at(out.len() - 1);
                input.extend_from_slice(begin);
                assert_eq!(read(&mut input), Ok(None));
                input.extend_from_slice(end);
                assert_eq!(read(&mut input), Ok(Some(Frame { kind: BINARY, content })));
                assert!(input.is_empty());
            }
        }
        assert!(read(&mut vec![0x41, 0]).is_err());
    }
}
