//! What a server asks behind: databases, caches, name servers and other web servers, told on the wire.
//!
//! The kernel's program copies the first bytes of what tasks of the server give to the connections on which they ask, and
//! take from them (`tell_asked` in `bpf/sockets.h`). Here those become questions: the protocol, the shape of the question
//! without its values, and the status of its answer. The bytes themselves are forgotten at once, and no run keeps them.
//!
//! Each protocol is a module of its own that takes bytes and gives facts ([`Conversation`]); what is not seen is not
//! guessed: a question whose answer was not seen to end has no status.

mod conversation;
mod dns;
mod framing;
mod http1;
mod http2;
mod memcached;
mod mysql;
mod postgresql;
mod protocol;
mod redis;
mod shape;
mod source;

pub use conversation::{Call, Conversation, Told};
pub use source::Questions;
