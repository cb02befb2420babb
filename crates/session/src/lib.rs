//! Functional web tests and recorded sessions.
//!
//! A file - a specification of HTTP::WebTest ([`specification`], [`interpret`]), sessions of HTTP::Monkeywrench
//! ([`literal`], [`monkeywrench`]), an HTTP Archive ([`har`], [`replay`]) - becomes a [`suite`], which the [`runner`] runs
//! with the [`client`]; the [`report`] says what became of it.
//! A [`recording`] is made by the [`recorder`], without [`secrets`], and written in the forms of other tools by
//! [`convert`].

pub mod client;
pub mod content;
pub mod convert;
pub mod cookies;
mod forgiving;
pub mod har;
pub mod interpret;
pub mod literal;
pub mod monkeywrench;
pub mod page;
pub mod pattern;
pub mod recorder;
pub mod recording;
pub mod replay;
pub mod report;
pub mod runner;
pub mod secrets;
pub mod specification;
pub mod suite;
mod trust;
