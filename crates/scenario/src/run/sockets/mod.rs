//! WebSockets of users: `opening` is how they are opened and end, `messages` what comes and goes, `socket` what is
//! known of one.

mod messages;
mod opening;
mod socket;

pub(crate) use opening::SocketAt;
pub(crate) use socket::Sockets;
