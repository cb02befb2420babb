//! Frames of HTTP/2 (RFC 9113 sections 4 and 6): their heads and what is in them.

/// Bytes of a frame's head.
pub(crate) const HEAD_BYTES: usize = 9;
/// The default of SETTINGS_MAX_FRAME_SIZE; we never set another.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 16384;
/// The largest window (section 6.9.1).
pub(crate) const WINDOW_MAX: i64 = (1 << 31) - 1;

/// Kinds of frames (section 6).
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// Flags; one bit has two meanings.
pub(crate) mod flag {
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// Why a stream or a connection ends (section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    NoError = 0,
    Protocol = 1,
    Internal = 2,
    FlowControl = 3,
    StreamClosed = 5,
    FrameSize = 6,
    RefusedStream = 7,
    Cancel = 8,
    Compression = 9,
    EnhanceYourCalm = 11,
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) len: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Head {
    /// Reads the head at the beginning of `input`, if it is there.
    pub(crate) fn read(input: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, rest @ ..] = input.first_chunk::<HEAD_BYTES>()?;
        // The reserved bit means nothing.
        let stream = u32::from_be_bytes(*rest) & 0x7fff_ffff;
        Some(Self { len: u32::from_be_bytes([0, *a, *b, *c]) as usize, kind: *kind, flags: *flags, stream })
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame's head; `len` is at most `PAYLOAD_BYTES_MAX`.
pub(crate) fn head(out: &mut Vec<u8>, len: usize, kind: u8, flags: u8, stream: u32) {
    let [_, a, b, c] = (len as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, d, e, f, g]);
}

/// Appends a frame whose content is a number: RST_STREAM, WINDOW_UPDATE.
pub(crate) fn number(out: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    head(out, 4, kind, 0, stream);
    out.extend_from_slice(&number.to_be_bytes());
}

/// Appends the end of a connection: the last stream that was taken up, and why.
pub(crate) fn go_away(out: &mut Vec<u8>, last: u32, code: Code) {
    head(out, 8, kind::GOAWAY, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

/// Appends our settings.
pub(crate) fn settings(out: &mut Vec<u8>, pairs: &[(u16, u32)]) {
    head(out, 6 * pairs.len(), kind::SETTINGS, 0, 0);
    for (id, value) in pairs {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// What is left of a padded frame without its padding.
pub(crate) fn unpadded<'p>(head: &Head, payload: &'p [u8]) -> Result<&'p [u8], Code> {
    if !head.has(flag::PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) = payload.split_first().ok_or(Code::FrameSize)?;
    let len = rest.len().checked_sub(usize::from(padding)).ok_or(Code::Protocol)?;
    Ok(&rest[..len])
}

/// The block of fields in a HEADERS frame, and the stream that it depends on, if it says one.
pub(crate) fn headers<'p>(head: &Head, payload: &'p [u8]) -> Result<(&'p [u8], Option<u32>), Code> {
    let rest = unpadded(head, payload)?;
    if !head.has(flag::PRIORITY) {
        return Ok((rest, None));
    }
    let (priority, block) = rest.split_at_checked(5).ok_or(Code::FrameSize)?;
    Ok((block, Some(word(priority) & 0x7fff_ffff)))
}

/// The first four bytes as a number; fewer count as zero bytes before them.
pub(crate) fn word(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |word, &byte| word << 8 | u32::from(byte))
}

/// What a client's settings say that concerns us.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The window of streams.
    pub(crate) window: Option<i64>,
    /// The smallest bound on the table of header fields, in bytes.
    pub(crate) table_bytes: Option<u32>,
}

/// Reads settings (section 6.5.2). Those that concern what we never do, or what we do less than we may, are only
/// checked.
pub(crate) fn read_settings(payload: &[u8]) -> Result<Settings, Code> {
    let mut settings = Settings::default();
    let (pairs, []) = payload.as_chunks::<6>() else { return Err(Code::FrameSize) };
    for [a, b, value @ ..] in pairs {
        let value = u32::from_be_bytes(*value);
        match u16::from_be_bytes([*a, *b]) {
            1 => settings.table_bytes = Some(settings.table_bytes.map_or(value, |before| before.min(value))),
            2 if value > 1 => return Err(Code::Protocol),
            4 if i64::from(value) > WINDOW_MAX => return Err(Code::FlowControl),
            4 => settings.window = Some(i64::from(value)),
            5 if !(PAYLOAD_BYTES_MAX as u32..1 << 24).contains(&value) => return Err(Code::Protocol),
            _ => {}
        }
    }
    Ok(settings)
}
