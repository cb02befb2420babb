//! A socket of a user: where it stands, and what comes over it. Without clock and connection.

use crate::behaviour::{Ask, Counting, SocketEvent, SocketNews, Tags};
use std::collections::VecDeque;
use weir_load::websocket::frames::{Control, Event, Malformed, Reader};
use weir_load::websocket::handshake::Accept;

/// The longest message that is taken, in bytes.
pub(crate) const MESSAGE_BYTES_MAX: u64 = 16 << 20;
/// Pings whose pongs are awaited; the times of the oldest are not counted beyond.
const PINGS_MAX: usize = 1000;
/// What may wait until a user listens: messages, and their bytes.
const NEWS_MAX: usize = 100_000;
const NEWS_BYTES_MAX: usize = 64 << 20;

/// Where a socket stands; a number is the link that carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketStage {
    /// The address of its server is looked up.
    Sought,
    /// The server was asked to switch.
    Opening(u32),
    /// Messages come and go.
    Open(u32),
    /// This side sends nothing more, and waits for the other to say so.
    Closing(u32),
}

/// A socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) id: u32,
    pub(crate) stage: SocketStage,
    pub(crate) ask: Ask,
    pub(crate) protocols: Vec<String>,
    pub(crate) counting: Counting,
    /// What the server has to answer.
    pub(crate) accept: Accept,
    pub(crate) begun_ns: u64,
    /// When it is to be open, or closed, at the latest.
    pub(crate) deadline_ns: u64,
    /// What all that is counted of it has.
    pub(crate) tags: Tags,
    pub(crate) reader: Reader,
    /// What has come of a message.
    pub(crate) message: Vec<u8>,
    /// What went out in pings, and when.
    pub(crate) pings: VecDeque<(Vec<u8>, u64)>,
}

/// What came over a socket.
#[derive(Debug)]
pub(crate) enum Came {
    Message { is_binary: bool, content: Vec<u8> },
    Ping(Control),
    Pong(Control),
    Close { code: Option<u16>, reason: String },
}

impl Socket {
    /// Takes bytes that came; what they complete is added to `came`, up to the close frame, behind which nothing counts.
    pub(crate) fn take(&mut self, bytes: &[u8], came: &mut Vec<Came>) -> Result<(), Malformed> {
        let mut rest = bytes;
        loop {
            let (used, event) = self.reader.next(rest)?;
            rest = &rest[used..];
            match event {
                None => return Ok(()),
                Some(Event::Piece { content, end }) => {
                    self.message.extend_from_slice(content);
                    if let Some(is_text) = end {
                        let content = std::mem::take(&mut self.message);
                        came.push(Came::Message { is_binary: !is_text, content });
                    }
                }
                Some(Event::Ping(content)) => came.push(Came::Ping(content)),
                Some(Event::Pong(content)) => came.push(Came::Pong(content)),
                Some(Event::Close(code, content)) => {
                    let reason = content.content().get(2..).unwrap_or_default();
                    came.push(Came::Close { code, reason: String::from_utf8_lossy(reason).into_owned() });
                    return Ok(());
                }
            }
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// A ping goes out.
    pub(crate) fn pinged(&mut self, content: Vec<u8>, now_ns: u64) {
        if self.pings.len() >= PINGS_MAX {
            self.pings.pop_front();
        }
        self.pings.push_back((content, now_ns));
    }

    /// A pong came; when its ping went out, if that is known.
    pub(crate) fn ponged(&mut self, content: &[u8]) -> Option<u64> {
        let at = self.pings.iter().position(|(sent, _)| sent == content)?;
        self.pings.remove(at).map(|(_, sent_ns)| sent_ns)
    }

    /// The link that carries it, if one does.
    pub(crate) fn link(&self) -> Option<u32> {
        match self.stage {
            SocketStage::Sought => None,
            SocketStage::Opening(link) | SocketStage::Open(link) | SocketStage::Closing(link) => Some(link),
        }
    }

    /// Whether it was open.
    pub(crate) fn was_open(&self) -> bool {
        matches!(self.stage, SocketStage::Open(_) | SocketStage::Closing(_))
    }
}

/// The sockets of a user, and what it was not told of them.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    list: Vec<Socket>,
    news: Vec<SocketEvent>,
    news_bytes: usize,
}

impl Sockets {
    pub(crate) fn add(&mut self, socket: Socket) {
        self.list.push(socket);
    }

    pub(crate) fn find(&mut self, id: u32) -> Option<&mut Socket> {
        self.list.iter_mut().find(|socket| socket.id == id)
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<Socket> {
        let at = self.list.iter().position(|socket| socket.id == id)?;
        Some(self.list.swap_remove(at))
    }

    /// Takes all of them; what was not told of them is forgotten.
    pub(crate) fn end(&mut self) -> Vec<Socket> {
        (self.news, self.news_bytes) = (Vec::new(), 0);
        std::mem::take(&mut self.list)
    }

    pub(crate) fn hear(&mut self, socket: u32, news: SocketNews) {
        if let SocketNews::Message { content, .. } = &news {
            self.news_bytes += content.len();
        }
        self.news.push(SocketEvent { socket, news });
    }

    /// Whether there is no room for more until the user listens.
    pub(crate) fn are_full(&self) -> bool {
        self.news.len() >= NEWS_MAX || self.news_bytes >= NEWS_BYTES_MAX
    }

    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    pub(crate) fn take_news(&mut self) -> Vec<SocketEvent> {
        self.news_bytes = 0;
        std::mem::take(&mut self.news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;
    use weir_load::Url;
    use weir_load::websocket::handshake::accept;

    fn socket() -> Socket {
        Socket {
            id: 1,
            stage: SocketStage::Open(0),
            ask: Ask::get(Url::parse("http://h/").expect("a URL")),
            protocols: Vec::new(),
            counting: Counting::Messages,
            accept: accept(""),
            begun_ns: 0,
            deadline_ns: 0,
            tags: Arc::from([]),
            reader: Reader::new(MESSAGE_BYTES_MAX),
            message: Vec::new(),
            pings: VecDeque::new(),
        }
    }

    #[test]
    fn messages_come_whole_and_nothing_behind_a_close() {
        let mut came = Vec::new();
        // "ab" in two fragments with a ping between, a close frame with 1001 and "x", and a text behind it.
        let bytes = [&[0x01, 1, b'a'][..], &[0x89, 1, 7], &[0x80, 1, b'b'], &[0x88, 3, 3, 233, b'x'], &[0x81, 0]];
        socket().take(&bytes.concat(), &mut came).expect("frames");
        let [Came::Ping(ping), Came::Message { is_binary: false, content }, Came::Close { code: Some(1001), reason }] =
            &came[..]
        else {
            panic!("{came:?}")
        };
        assert_eq!((ping.content(), content.as_slice(), reason.as_str()), (&[7][..], &b"ab"[..], "x"));
    }

    #[test]
    fn pongs_find_their_pings() {
        let mut socket = socket();
        (0..1002).for_each(|at: u64| socket.pinged(at.to_string().into_bytes(), at));
        assert_eq!((socket.ponged(b"1"), socket.ponged(b"7"), socket.ponged(b"7")), (None, Some(7), None));
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..60), cut in 0..60usize) {
            let told = |pieces: &[&[u8]]| {
                let (mut socket, mut came) = (socket(), Vec::new());
                for piece in pieces {
                    let is_closed = came.iter().any(|one| matches!(one, Came::Close { .. }));
                    if is_closed || socket.take(piece, &mut came).is_err() {
                        break;
                    }
                }
                format!("{came:?}")
            };
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(told(&[&bytes]), told(&[first, second]));
        }
    }
}
