//! Sockets, readiness, clocks and changes of files, as the kernel gives them. No HTTP below this line.

pub(crate) mod clock;
pub(crate) mod connection_facts;
pub(crate) mod ends;
pub(crate) mod epoll;
pub(crate) mod inotify;
pub(crate) mod listen;
pub(crate) mod open;
pub(crate) mod per_address;
pub(crate) mod user;
pub(crate) mod way;
