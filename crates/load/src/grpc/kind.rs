//! Which sides of a call send several messages.

/// Which sides of a call send several messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// One message each way.
    Unary,
    /// The server sends any number.
    ServerStreaming,
    /// The client sends any number, all at once here, and ends its side with the last.
    ClientStreaming,
    /// Both do: here each message goes out when the one before it was answered by one, and the last ends this side.
    Bidirectional,
}

impl CallKind {
    /// That of a method, by which of its sides stream.
    pub(crate) fn of(client_streams: bool, server_streams: bool) -> Self {
        match (client_streams, server_streams) {
            (false, false) => Self::Unary,
            (false, true) => Self::ServerStreaming,
            (true, false) => Self::ClientStreaming,
            (true, true) => Self::Bidirectional,
        }
    }

    /// Whether the client may send another number of messages than one.
    #[must_use]
    pub fn client_streams(self) -> bool {
        matches!(self, Self::ClientStreaming | Self::Bidirectional)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unary => "unary",
            Self::ServerStreaming => "server streaming",
            Self::ClientStreaming => "client streaming",
            Self::Bidirectional => "bidirectional streaming",
        }
    }
}
