//! The life of a request: its head, its body, the response's head and body, and what is logged and told at its end.

pub(crate) mod answering;
pub(crate) mod application;
pub(crate) mod drain;
pub(crate) mod elsewhere;
pub(crate) mod error_page;
pub(crate) mod eviction;
pub(crate) mod goaway;
pub(crate) mod life;
pub(crate) mod record;
pub(crate) mod relayed_form;
pub(crate) mod reply;
pub(crate) mod request_body;
pub(crate) mod send;
pub(crate) mod streamed;
pub(crate) mod wakes;
mod watched;
