//! How a server is reached: over which socket, through what, and under which protection.

pub(crate) mod answer;
// Open to its fuzz target only.
#[doc(hidden)]
pub mod dialogue;
pub(crate) mod http_connect;
pub(crate) mod pin;
pub(crate) mod protocol;
pub(crate) mod proxy;
pub(crate) mod refusal;
pub(crate) mod resolve;
pub(crate) mod sockets;
mod socks4;
mod socks5;
pub(crate) mod tls;
pub(crate) mod trust;
mod way;

pub use answer::Credentials;
pub use pin::{Pin, PinError};
pub use protocol::Protocol;
pub use proxy::{Proxy, ProxyError, ProxyKind};
pub use refusal::Refusal;
pub use resolve::{Again, Family, Place, ResolveError, Resolved, Select};
pub use sockets::Sockets;
pub use tls::{Tls, TlsVersion, cipher_names};
pub use trust::Trust;
pub use way::Reach;
