//! Frames of WebSocket (RFC 6455 section 5): those of a server, read in any pieces they come, and those of a client.

use crate::websocket::utf8::Utf8;

/// The longest content of a control frame (RFC 6455 5.5).
const CONTROL_BYTES_MAX: usize = 125;
/// The longest head of a frame of a server, which has no mask.
const HEAD_BYTES_MAX: usize = 10;

/// Codes by which this side ends a connection (RFC 6455 7.4.1).
pub(crate) const NORMAL: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;
const INVALID_TEXT: u16 = 1007;
const TOO_BIG: u16 = 1009;

/// What a frame is of (RFC 6455 11.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// A further frame of the message under way.
    Continuation = 0,
    /// The first frame of a text.
    Text = 1,
    /// The first frame of bytes.
    Binary = 2,
    /// The other side sends nothing more.
    Close = 8,
    /// A question whether this side is there.
    Ping = 9,
    /// The answer to it.
    Pong = 10,
}

impl Opcode {
    fn of(number: u8) -> Option<Self> {
        [Self::Continuation, Self::Text, Self::Binary, Self::Close, Self::Ping, Self::Pong]
            .into_iter()
            .find(|opcode| *opcode as u8 == number)
    }

    fn is_control(self) -> bool {
        self as u8 >= Self::Close as u8
    }
}

/// The content of a control frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Control {
    bytes: [u8; CONTROL_BYTES_MAX],
    count: u8,
}

impl Control {
    const EMPTY: Self = Self { bytes: [0; CONTROL_BYTES_MAX], count: 0 };

    /// The content.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.bytes[..usize::from(self.count)]
    }

    /// Adds what a frame's head has said to come.
    fn add(&mut self, bytes: &[u8]) {
        let at = usize::from(self.count);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.count += bytes.len() as u8;
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.content().fmt(formatter)
    }
}

/// What came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'b> {
    /// A piece of a message's content, empty where there is none.
    Piece {
        /// The bytes.
        content: &'b [u8],
        /// Whether the message is whole with it, and then whether it is a text.
        end: Option<bool>,
    },
    /// A ping.
    Ping(Control),
    /// A pong.
    Pong(Control),
    /// A close frame, with its code if it has one. Nothing may follow.
    Close(Option<u16>, Control),
}

/// A breach of the standard: the connection is of no further use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// The code that says so to the other side.
    pub code: u16,
    /// What is wrong, in words.
    pub what: &'static str,
}

impl Malformed {
    fn protocol(what: &'static str) -> Self {
        Self { code: PROTOCOL_ERROR, what }
    }
}

/// Reads the frames of a server.
#[derive(Debug)]
pub struct Reader {
    /// The most bytes of a message.
    message_bytes_max: u64,
    /// What has come of a frame's head.
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: u8,
    stage: Stage,
    /// The message under way: its frames may have others between them that are of control.
    message: Option<Message>,
    /// Frames of messages that have come.
    frames: u64,
}

/// Where the reader stands.
#[derive(Debug)]
enum Stage {
    /// Within a head.
    Head,
    /// Within a message's frame, of which so many bytes are still to come.
    Content { left: u64, is_last: bool },
    /// Within a control frame.
    Control { opcode: Opcode, left: u8, content: Control },
}

#[derive(Debug)]
enum Message {
    Text { bytes: u64, utf8: Utf8 },
    Binary { bytes: u64 },
}

impl Reader {
    /// A reader that takes messages of at most so many bytes.
    #[must_use]
    pub fn new(message_bytes_max: u64) -> Self {
        Self {
            message_bytes_max,
            head: [0; HEAD_BYTES_MAX],
            head_bytes: 0,
            stage: Stage::Head,
            message: None,
            frames: 0,
        }
    }

    /// Begins anew.
    pub fn reset(&mut self) {
        *self = Self::new(self.message_bytes_max);
    }

    /// How many frames of messages have begun.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Whether a message or a frame has begun and is not whole.
    #[must_use]
    pub fn is_within(&self) -> bool {
        self.message.is_some() || self.head_bytes > 0 || !matches!(self.stage, Stage::Head)
    }

    /// Takes bytes up to the next event; gives how many these are.
    ///
    /// # Errors
    /// [`Malformed`]: the connection is of no further use.
    pub fn next<'b>(&mut self, bytes: &'b [u8]) -> Result<(usize, Option<Event<'b>>), Malformed> {
        let mut at = 0;
        if matches!(self.stage, Stage::Head) {
            let (used, is_whole) = self.take_head(bytes);
            at = used;
            if !is_whole {
                return Ok((at, None));
            }
            self.begin_frame()?;
        }
        let rest = &bytes[at..];
        match &mut self.stage {
            Stage::Content { left, is_last } => {
                let count = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= count as u64;
                let (is_over, is_last) = (*left == 0, *is_last);
                if count == 0 && !is_over {
                    return Ok((at, None));
                }
                let content = &rest[..count];
                let end = self.take_content(content, is_over, is_over && is_last)?;
                Ok((at + count, Some(Event::Piece { content, end })))
            }
            Stage::Control { opcode, left, content } => {
                let count = rest.len().min(usize::from(*left));
                content.add(&rest[..count]);
                *left -= count as u8;
                if *left > 0 {
                    return Ok((at + count, None));
                }
                let (opcode, content) = (*opcode, *content);
                self.stage = Stage::Head;
                Ok((at + count, Some(control(opcode, content)?)))
            }
            Stage::Head => Ok((at, None)),
        }
    }

    /// Takes bytes of a frame's head; gives how many, and whether it is whole.
    fn take_head(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        loop {
            let needed = match self.head_bytes {
                0 | 1 => 2,
                _ => match self.head[1] & 0x7f {
                    126 => 4,
                    127 => HEAD_BYTES_MAX,
                    _ => 2,
                },
            };
            let have = usize::from(self.head_bytes);
            if have >= 2 && have == needed {
                return (at, true);
            }
            let count = (needed - have).min(bytes.len() - at);
            if count == 0 {
                return (at, false);
            }
            self.head[have..have + count].copy_from_slice(&bytes[at..at + count]);
            self.head_bytes += count as u8;
            at += count;
        }
    }

    /// A frame's head is whole.
    fn begin_frame(&mut self) -> Result<(), Malformed> {
        self.head_bytes = 0;
        let [first, second, ..] = self.head;
        if first & 0x70 != 0 {
            return Err(Malformed::protocol("a reserved bit is set, though no extension was agreed on (RFC 6455 5.2)"));
        }
        if second & 0x80 != 0 {
            return Err(Malformed::protocol("a frame of the server has a mask (RFC 6455 5.1)"));
        }
        let opcode = Opcode::of(first & 0xf)
            .ok_or(Malformed::protocol("a frame has an opcode that is reserved (RFC 6455 5.2)"))?;
        let (is_last, bytes) = (first & 0x80 != 0, self.content_bytes()?);
        if opcode.is_control() {
            if !is_last {
                return Err(Malformed::protocol("a control frame is in fragments (RFC 6455 5.5)"));
            }
            if bytes > CONTROL_BYTES_MAX as u64 {
                return Err(Malformed::protocol("a control frame is longer than 125 bytes (RFC 6455 5.5)"));
            }
            self.stage = Stage::Control { opcode, left: bytes as u8, content: Control::EMPTY };
            return Ok(());
        }
        self.frames += 1;
        let message = match (opcode, self.message.take()) {
            (Opcode::Continuation, None) => {
                return Err(Malformed::protocol(
                    "a frame goes on with a message, though none is under way (RFC 6455 5.4)",
                ));
            }
            (Opcode::Continuation, Some(message)) => message,
            (_, Some(_)) => {
                return Err(Malformed::protocol("a message begins within another (RFC 6455 5.4)"));
            }
            (Opcode::Text, None) => Message::Text { bytes: 0, utf8: Utf8::default() },
            (_, None) => Message::Binary { bytes: 0 },
        };
        let (Message::Text { bytes: before, .. } | Message::Binary { bytes: before }) = &message;
        if before.saturating_add(bytes) > self.message_bytes_max {
            return Err(Malformed { code: TOO_BIG, what: "a message is longer than is taken here" });
        }
        self.message = Some(message);
        self.stage = Stage::Content { left: bytes, is_last };
        Ok(())
    }

    /// The length of a frame's content by its head.
    fn content_bytes(&self) -> Result<u64, Malformed> {
        let long = Malformed::protocol("a frame's length is not written in the fewest bytes (RFC 6455 5.2)");
        let head = &self.head;
        match head[1] & 0x7f {
            126 => match u16::from_be_bytes([head[2], head[3]]) {
                0..126 => Err(long),
                bytes => Ok(u64::from(bytes)),
            },
            127 => match u64::from_be_bytes(std::array::from_fn(|place| head[2 + place])) {
                0..0x1_0000 => Err(long),
                bytes if bytes >> 63 != 0 => {
                    Err(Malformed::protocol("a frame's length has its highest bit set (RFC 6455 5.2)"))
                }
                bytes => Ok(bytes),
            },
            bytes => Ok(u64::from(bytes)),
        }
    }

    /// Takes a piece of a message; tells whether the message is whole with it, and then whether it is a text.
    fn take_content(&mut self, content: &[u8], frame_ends: bool, ends: bool) -> Result<Option<bool>, Malformed> {
        if frame_ends {
            self.stage = Stage::Head;
        }
        let is_text = match &mut self.message {
            Some(Message::Text { bytes, utf8 }) => {
                *bytes += content.len() as u64;
                if !utf8.feed(content) || ends && !utf8.is_whole() {
                    return Err(Malformed { code: INVALID_TEXT, what: "a text is no UTF-8 (RFC 6455 8.1)" });
                }
                true
            }
            Some(Message::Binary { bytes }) => {
                *bytes += content.len() as u64;
                false
            }
            None => false,
        };
        if ends {
            self.message = None;
        }
        Ok(ends.then_some(is_text))
    }
}

/// A control frame that is whole.
fn control(opcode: Opcode, content: Control) -> Result<Event<'static>, Malformed> {
    match opcode {
        Opcode::Ping => Ok(Event::Ping(content)),
        Opcode::Pong => Ok(Event::Pong(content)),
        _ => match content.content() {
            [] => Ok(Event::Close(None, content)),
            [_] => Err(Malformed::protocol("a close frame has half a code (RFC 6455 5.5.1)")),
            [high, low, reason @ ..] => {
                let code = u16::from_be_bytes([*high, *low]);
                if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
                    return Err(Malformed::protocol("a close frame has a code that none may have (RFC 6455 7.4)"));
                }
                if std::str::from_utf8(reason).is_err() {
                    return Err(Malformed {
                        code: INVALID_TEXT,
                        what: "a close frame's reason is no UTF-8 (RFC 6455 5.5.1)",
                    });
                }
                Ok(Event::Close(Some(code), content))
            }
        },
    }
}

/// Appends a frame of a client, whose content goes out under a mask (RFC 6455 5.3).
pub fn write(out: &mut Vec<u8>, opcode: Opcode, is_last: bool, mask: [u8; 4], content: &[u8]) {
    out.push(if is_last { 0x80 } else { 0 } | opcode as u8);
    match content.len() {
        short @ 0..126 => out.push(0x80 | short as u8),
        middle @ 126..0x1_0000 => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(middle as u16).to_be_bytes());
        }
        long => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&mask);
    let begin = out.len();
    out.extend_from_slice(content);
    cover(&mut out[begin..], mask);
}

/// A message that goes out.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'m> {
    /// Bytes, not a text.
    pub is_binary: bool,
    /// What it holds.
    pub content: &'m [u8],
    /// The most bytes of it in one frame, at least 1.
    pub fragment_bytes: usize,
}

/// Appends the frames of a message, each under a mask of its own.
pub fn write_message(out: &mut Vec<u8>, message: Outgoing<'_>, mut mask: impl FnMut() -> [u8; 4]) {
    let mut opcode = if message.is_binary { Opcode::Binary } else { Opcode::Text };
    let mut rest = message.content;
    loop {
        let (now, later) = rest.split_at(rest.len().min(message.fragment_bytes));
        write(out, opcode, later.is_empty(), mask(), now);
        if later.is_empty() {
            return;
        }
        (opcode, rest) = (Opcode::Continuation, later);
    }
}

/// Puts content under a mask, or takes it off.
fn cover(content: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut eights = content.chunks_exact_mut(8);
    for eight in &mut eights {
        let word = u64::from_ne_bytes(std::array::from_fn(|place| eight[place])) ^ wide;
        eight.copy_from_slice(&word.to_ne_bytes());
    }
    eights.into_remainder().iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
