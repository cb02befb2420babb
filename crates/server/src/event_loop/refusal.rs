//! The answer to a client for which there is no room.

use std::io::{Read, Write};

/// The answer to a client for which there is no room.
const NO_ROOM: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nServer: weir\r\nRetry-After: 1\r\n\
    Content-Length: 0\r\nConnection: close\r\n\r\n";

/// Tells a client that there is no room. What it has sent is read first, because closing on unread bytes would
/// take the answer away from it. Both calls are best effort: the socket does not block.
pub(super) fn refuse(mut socket: std::net::TcpStream) {
    let mut ignored = [0; 4096];
    let _ = socket.read(&mut ignored);
    let _ = socket.write(NO_ROOM);
}
