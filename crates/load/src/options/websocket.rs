//! What goes over WebSockets.

/// Messages over WebSockets (RFC 6455), each of which is to be answered by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSocket {
    /// What each message holds; at most 1 GiB.
    pub message: Vec<u8>,
    /// Whether messages are sent as bytes, not as texts.
    pub is_binary: bool,
    /// Subprotocols that are offered, the preferred first.
    pub protocols: Vec<String>,
    /// Which message is the answer.
    pub answer: AnswerRule,
    /// The most bytes of a message in one frame; `None` = a message is one frame.
    pub fragment_bytes: Option<usize>,
    /// The longest message that is taken, bytes; at most 1 GiB. A longer one ends its connection (code 1009).
    pub message_bytes_max: u64,
}

/// Which message of a server is the answer to the one that was sent last; the others were pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnswerRule {
    /// The first that comes.
    #[default]
    Any,
    /// The first that is the same as the one that was sent, in kind and content.
    Echo,
}

impl AnswerRule {
    /// Its name in options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Echo => "echo",
        }
    }
}

impl Default for WebSocket {
    fn default() -> Self {
        Self {
            message: b"hello".to_vec(),
            is_binary: false,
            protocols: Vec::new(),
            answer: AnswerRule::Any,
            fragment_bytes: None,
            message_bytes_max: 16 << 20,
        }
    }
}
