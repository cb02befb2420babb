//! Functional web tests and recorded sessions.
//!
//! A file - a specification of HTTP::WebTest ([`specification`], [`interpret`]) - becomes a [`suite`], which the
//! [`runner`] runs with the [`client`]; the [`report`] says what became of it.

pub mod client;
pub mod content;
pub mod cookies;
pub mod interpret;
pub mod literal;
pub mod monkeywrench;
pub mod page;
pub mod pattern;
pub mod report;
pub mod runner;
pub mod specification;
pub mod suite;
