//! Servers' configurations: read, never written in place.
//!
//! Each syntax has a parser of its own that takes any text; the readers follow the includes of what a server was
//! started with. All of them give the same flat list of [`Entry`], each with its file and line, so that a rule can say
//! where a setting stands, and a trial can write a changed copy.

pub(crate) mod apache;
pub(crate) mod apache_tree;
pub(crate) mod assignments;
mod directive;
mod files;
pub(crate) mod ini;
pub(crate) mod nginx;
mod pattern;
pub(crate) mod reading;
mod syntax;
mod tree;

pub(crate) use directive::{Directive, Entry, MOST_DEPTH, ParseError, Place};
pub(crate) use files::Files;
pub(crate) use syntax::Syntax;
pub(crate) use tree::{Configuration, Found};
