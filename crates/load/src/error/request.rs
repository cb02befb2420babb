//! Why a request cannot be built.

/// Why a request cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The method is no token, or makes a tunnel of the connection.
    #[error("{method:?}: not a method that can be measured, such as GET, HEAD or POST")]
    Method {
        /// What was given.
        method: String,
    },
    /// A header's name or value holds what no header may.
    #[error("{header:?}: not a header; write 'Name: value'")]
    Header {
        /// What was given.
        header: String,
    },
    /// A header that speaks of the connection, in HTTP/2 or HTTP/3.
    #[error(
        "{name}: HTTP/2 and HTTP/3 have no headers that speak of the connection (RFC 9113 8.2.2, RFC 9114 4.2); leave \
         this header out"
    )]
    OfConnection {
        /// The header's name.
        name: String,
    },
    /// A cookie's name or value holds what no cookie may.
    #[error("{cookie:?}: not a cookie; write NAME=VALUE without spaces, semicolons and control characters")]
    Cookie {
        /// The cookie's name.
        cookie: String,
    },
    /// A user's name for basic authentication holds a colon or a control character.
    #[error("the user's name holds a colon, or name or password a control character; write NAME:PASSWORD")]
    User,
    /// A header that a call of gRPC sets itself.
    #[error("{name}: a call of gRPC says this itself; leave this header out")]
    OfGrpc {
        /// The header's name.
        name: String,
    },
    /// A header that says how long the request is.
    #[error("{name}: the generator frames the request itself; leave this header out")]
    Framing {
        /// The header's name.
        name: String,
    },
}
