//! The frame reader: takes a connection's bytes, cut at any place, and gives what they mean.

use crate::http2::hpack::{BLOCK_BYTES_MAX, Decoder, Head};
use crate::http2::malformed::Malformed;

/// The head of each frame.
pub const FRAME_HEAD_BYTES: usize = 9;
/// The longest frame that is taken: what every side must take, and we ask for no more.
pub const FRAME_BYTES_MAX: usize = 16_384;
/// The most frames of one block of headers: with a bound on bytes alone empty ones would have none.
const BLOCK_FRAMES_MAX: u32 = 64;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const WITH_PRIORITY: u8 = 0x20;

/// What a frame, or a piece of one, says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A whole block of headers.
    Headers {
        /// The stream.
        stream: u32,
        /// What the block says.
        head: Head,
        /// Whether nothing of the stream follows.
        end: bool,
        /// Bytes of its frames, their heads included.
        bytes: u32,
    },
    /// Content, perhaps only a piece of its frame.
    Data {
        /// The stream.
        stream: u32,
        /// Bytes of content.
        content: u32,
        /// Bytes that count for flow control: content and padding.
        flow: u32,
        /// Bytes of the frame that came with this piece, its head included if it begins the frame.
        bytes: u32,
        /// Whether nothing of the stream follows.
        end: bool,
    },
    /// A stream is given up.
    Reset {
        /// The stream.
        stream: u32,
        /// Why (RFC 9113 7).
        code: u32,
    },
    /// The server's settings.
    Settings(Settings),
    /// It has ours.
    SettingsTaken,
    /// It wants these bytes back.
    Ping([u8; 8]),
    /// It takes no more streams.
    Goaway {
        /// The last one that it worked on, or still may.
        last: u32,
        /// Why (RFC 9113 7).
        code: u32,
    },
    /// It takes so many more bytes.
    Window {
        /// The stream, 0 for the whole connection.
        stream: u32,
        /// Bytes, at least 1.
        more: u32,
    },
}

/// The settings of one frame that bind us; those that it does not mention stay as they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// The most streams at a time.
    pub streams: Option<u32>,
    /// The window that each stream begins with, in bytes.
    pub window: Option<u32>,
    /// The longest frame that it takes, in bytes.
    pub frame_bytes: Option<u32>,
    /// Whether it takes an extended CONNECT, by which WebSockets are opened (RFC 8441 3).
    pub connect: Option<bool>,
}

/// A frame of content whose payload is not all here yet.
#[derive(Debug, Clone, Copy)]
struct Content {
    stream: u32,
    content: u32,
    padding: u32,
    end: bool,
}

/// A block of headers that is not all here yet.
#[derive(Debug, Clone, Copy)]
struct Open {
    stream: u32,
    end: bool,
    frames: u32,
    bytes: u32,
}

/// The state between two pieces of a connection's bytes.
#[derive(Debug, Default)]
pub struct Reader {
    content: Option<Content>,
    /// The beginning of a frame, where it has not all come; of content only its head.
    partial: Vec<u8>,
    open: Option<Open>,
    block: Vec<u8>,
    /// Whether the settings came, which are first.
    settled: bool,
}

/// A frame's head, taken apart.
#[derive(Debug, Clone, Copy)]
struct FrameHead {
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl FrameHead {
    #[inline]
    fn of(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; FRAME_HEAD_BYTES] = bytes.first_chunk()?;
        Some(Self {
            length: usize::from(bytes[0]) << 16 | usize::from(bytes[1]) << 8 | usize::from(bytes[2]),
            kind: bytes[3],
            flags: bytes[4],
            stream: u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]) & 0x7fff_ffff,
        })
    }

    /// How many bytes must be here before the frame can be looked at.
    #[inline]
    fn needed(self) -> usize {
        match self.kind {
            DATA => FRAME_HEAD_BYTES + usize::from(self.flags & PADDED != 0 && self.length > 0),
            _ => FRAME_HEAD_BYTES + self.length,
        }
    }
}

impl Reader {
    /// Forgets everything, for another connection; what was allocated stays.
    pub fn reset(&mut self) {
        self.content = None;
        self.partial.clear();
        self.open = None;
        self.block.clear();
        self.settled = false;
    }

    /// Whether the server's settings came.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// What has come of a frame that is not whole.
    #[must_use]
    pub fn begun(&self) -> &[u8] {
        &self.partial
    }

    /// Whether a frame of content has begun of which not all is here.
    #[must_use]
    pub fn is_within_content(&self) -> bool {
        self.content.is_some()
    }

    /// Takes a frame off the beginning of `bytes`, or a piece of one; gives how many bytes that took, and what they mean
    /// if they mean anything yet.
    ///
    /// # Errors
    /// [`Malformed`]: the connection is of no further use.
    #[inline]
    pub fn next(&mut self, decoder: &mut Decoder, bytes: &[u8]) -> Result<(usize, Option<Event>), Malformed> {
        if let Some(content) = self.content {
            return Ok(self.piece(content, 0, bytes));
        }
        if !self.partial.is_empty() {
            return self.go_on(decoder, bytes);
        }
        let Some(head) = FrameHead::of(bytes) else {
            self.partial.extend_from_slice(bytes);
            return Ok((bytes.len(), None));
        };
        self.check(head)?;
        let needed = head.needed();
        if bytes.len() < needed {
            self.partial.extend_from_slice(bytes);
            return Ok((bytes.len(), None));
        }
        if head.kind == DATA {
            let content = content(head, &bytes[..needed])?;
            let (used, event) = self.piece(content, needed, &bytes[needed..]);
            return Ok((needed + used, event));
        }
        Ok((needed, self.whole(decoder, head, &bytes[FRAME_HEAD_BYTES..needed])?))
    }

    /// Adds to a frame of which only a beginning is here.
    fn go_on(&mut self, decoder: &mut Decoder, bytes: &[u8]) -> Result<(usize, Option<Event>), Malformed> {
        let mut used = 0;
        loop {
            let head = FrameHead::of(&self.partial);
            if let Some(head) = head {
                self.check(head)?;
            }
            let needed = head.map_or(FRAME_HEAD_BYTES, FrameHead::needed);
            let more = (needed - self.partial.len()).min(bytes.len() - used);
            self.partial.extend_from_slice(&bytes[used..used + more]);
            used += more;
            if self.partial.len() < needed {
                return Ok((used, None));
            }
            let Some(head) = head else { continue };
            // Taken out for the time being, so that the frame can be read while the reader changes.
            let partial = std::mem::take(&mut self.partial);
            let event = if head.kind == DATA {
                content(head, &partial).map(|content| {
                    let (more, event) = self.piece(content, needed, &bytes[used..]);
                    used += more;
                    event
                })
            } else {
                self.whole(decoder, head, &partial[FRAME_HEAD_BYTES..])
            };
            self.partial = partial;
            self.partial.clear();
            return Ok((used, event?));
        }
    }

    /// What can be said against a frame before any of its payload is here.
    #[inline]
    fn check(&self, head: FrameHead) -> Result<(), Malformed> {
        if head.length > FRAME_BYTES_MAX {
            return Err(Malformed::frame_size("a frame that is longer than allowed"));
        }
        if !self.settled && head.kind != SETTINGS {
            return Err(Malformed::protocol("it does not begin with its settings"));
        }
        match self.open {
            Some(open) if head.kind != CONTINUATION || head.stream != open.stream => {
                Err(Malformed::protocol("something else within a block of headers"))
            }
            None if head.kind == CONTINUATION => Err(Malformed::protocol("more of a block of headers that is none")),
            _ if head.kind == DATA && head.stream == 0 => Err(Malformed::protocol("content of no stream")),
            _ => Ok(()),
        }
    }

    /// Takes what is here of a frame of content, `before` bytes of which were taken already.
    #[inline]
    fn piece(&mut self, mut whole: Content, before: usize, bytes: &[u8]) -> (usize, Option<Event>) {
        let here = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let content = whole.content.min(here);
        let padding = whole.padding.min(here - content);
        whole.content -= content;
        whole.padding -= padding;
        let over = whole.content == 0 && whole.padding == 0;
        self.content = if over { None } else { Some(whole) };
        let head = before as u32;
        let event = Event::Data {
            stream: whole.stream,
            content,
            // The byte that tells the padding's length counts, too; it comes with the head.
            flow: content + padding + head.saturating_sub(FRAME_HEAD_BYTES as u32),
            bytes: content + padding + head,
            end: over && whole.end,
        };
        ((content + padding) as usize, Some(event))
    }

    /// What a frame that is all here says.
    fn whole(&mut self, decoder: &mut Decoder, head: FrameHead, payload: &[u8]) -> Result<Option<Event>, Malformed> {
        let FrameHead { kind, flags, stream, .. } = head;
        let of_connection = |is: bool, what| if is == (stream == 0) { Ok(()) } else { Err(Malformed::protocol(what)) };
        let bytes = (FRAME_HEAD_BYTES + payload.len()) as u32;
        Ok(Some(match kind {
            HEADERS => {
                of_connection(false, "headers of no stream")?;
                let fragment = fragment(flags, payload)?;
                let end = flags & END_STREAM != 0;
                if flags & END_HEADERS == 0 {
                    self.block.clear();
                    self.block.extend_from_slice(fragment);
                    self.open = Some(Open { stream, end, frames: 1, bytes });
                    return Ok(None);
                }
                Event::Headers { stream, head: decoder.decode(fragment)?, end, bytes }
            }
            CONTINUATION => {
                // `check` has seen that one is open.
                let Some(mut open) = self.open else { return Ok(None) };
                open.frames += 1;
                open.bytes += bytes;
                self.block.extend_from_slice(payload);
                if open.frames > BLOCK_FRAMES_MAX || self.block.len() > BLOCK_BYTES_MAX {
                    return Err(Malformed::too_much("its block of headers is too long"));
                }
                self.open = if flags & END_HEADERS == 0 { Some(open) } else { None };
                if self.open.is_some() {
                    return Ok(None);
                }
                Event::Headers { stream, head: decoder.decode(&self.block)?, end: open.end, bytes: open.bytes }
            }
            PRIORITY => {
                of_connection(false, "a priority of no stream")?;
                numbers::<5>(payload)?;
                return Ok(None);
            }
            RST_STREAM => {
                of_connection(false, "it gives up no stream")?;
                Event::Reset { stream, code: u32::from_be_bytes(numbers(payload)?) }
            }
            SETTINGS => {
                of_connection(true, "settings of a stream")?;
                let first = !std::mem::replace(&mut self.settled, true);
                match flags & ACK != 0 {
                    true if first => return Err(Malformed::protocol("it does not begin with its settings")),
                    true if payload.is_empty() => Event::SettingsTaken,
                    true => return Err(Malformed::frame_size("settings where none belong")),
                    false => Event::Settings(settings(payload)?),
                }
            }
            PUSH_PROMISE => return Err(Malformed::protocol("it pushes although that was refused")),
            PING => {
                of_connection(true, "a ping of a stream")?;
                let number = numbers(payload)?;
                if flags & ACK != 0 {
                    return Ok(None);
                }
                Event::Ping(number)
            }
            GOAWAY => {
                of_connection(true, "a farewell of a stream")?;
                let fixed = payload.get(..8).ok_or(Malformed::frame_size("a farewell that is too short"))?;
                let [a, b, c, d, e, f, g, h] = numbers(fixed)?;
                let last = u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff;
                Event::Goaway { last, code: u32::from_be_bytes([e, f, g, h]) }
            }
            WINDOW_UPDATE => match u32::from_be_bytes(numbers(payload)?) & 0x7fff_ffff {
                0 => return Err(Malformed::protocol("a window that grows by nothing")),
                more => Event::Window { stream, more },
            },
            // RFC 9113 4.1: what is not known is passed over.
            _ => return Ok(None),
        }))
    }
}

/// Where the content and the padding of a frame lie; `bytes` are its head, and the padding's length if it has one.
#[inline]
fn content(head: FrameHead, bytes: &[u8]) -> Result<Content, Malformed> {
    let length = head.length as u32;
    let (own, padding) = match head.flags & PADDED != 0 {
        false => (0, 0),
        true => (1, u32::from(*bytes.get(FRAME_HEAD_BYTES).unwrap_or(&0))),
    };
    if own + padding > length {
        return Err(Malformed::protocol("more padding than there is room for"));
    }
    Ok(Content { stream: head.stream, content: length - own - padding, padding, end: head.flags & END_STREAM != 0 })
}

/// The block, or its first piece, in a frame of headers: without padding and priority.
fn fragment(flags: u8, payload: &[u8]) -> Result<&[u8], Malformed> {
    let short = Malformed::frame_size("a frame of headers that is too short");
    let mut rest = payload;
    let mut padding = 0;
    if flags & PADDED != 0 {
        padding = usize::from(*rest.split_off_first().ok_or(short)?);
    }
    if flags & WITH_PRIORITY != 0 {
        rest = rest.get(5..).ok_or(short)?;
    }
    let length = rest.len().checked_sub(padding).ok_or(Malformed::protocol("more padding than there is room for"))?;
    Ok(&rest[..length])
}

/// A payload of exactly so many bytes.
fn numbers<const N: usize>(payload: &[u8]) -> Result<[u8; N], Malformed> {
    payload.try_into().map_err(|_| Malformed::frame_size("a frame of another length than its kind has"))
}

/// The settings of a frame (RFC 9113 6.5.2), the last of each counting.
fn settings(payload: &[u8]) -> Result<Settings, Malformed> {
    if !payload.len().is_multiple_of(6) {
        return Err(Malformed::frame_size("settings that are cut off"));
    }
    let mut settings = Settings::default();
    for setting in payload.chunks_exact(6) {
        let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
        match u16::from_be_bytes([setting[0], setting[1]]) {
            2 if value != 0 => return Err(Malformed::protocol("it wants us to take what it pushes")),
            3 => settings.streams = Some(value),
            4 if value > 0x7fff_ffff => return Err(Malformed::flow_control("a window that is too large")),
            4 => settings.window = Some(value),
            5 if !(16_384..=0x00ff_ffff).contains(&value) => {
                return Err(Malformed::protocol("a longest frame that is out of range"));
            }
            5 => settings.frame_bytes = Some(value),
            8 if value > 1 => {
                return Err(Malformed::protocol("a word on the extended CONNECT that is neither 0 nor 1"));
            }
            8 => settings.connect = Some(value == 1),
            // The table of headers and their length bind only who uses a table, or sends long ones.
            _ => {}
        }
    }
    Ok(settings)
}
