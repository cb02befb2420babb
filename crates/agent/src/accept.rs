//! Accepts connections of the agent's sockets.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// Lanes hold what comes in so long many times over.
const REST: Duration = Duration::from_millis(5);

/// The next waiting connection of a listener, if there is one.
pub(crate) fn accepted(listener: &UnixListener) -> Option<UnixStream> {
    match listener.accept() {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            if error.kind() != io::ErrorKind::WouldBlock {
                // No descriptor is left, say: the caller stays there, and would wake the agent again at once.
                std::thread::sleep(REST);
            }
            None
        }
    }
}
