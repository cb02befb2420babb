//! Routes: what a host says in order before its tables are asked, each with the conditions under which it holds.
//!
//! A scan reads a request and a path and has no socket and no file: what needs these (which of several files exists,
//! which settings hold) is done by [`super::hosts::Hosts`] with what the scan returns.

pub(crate) mod condition;
pub(crate) mod hours;
pub(crate) mod location;
pub(crate) mod mapping;
pub(crate) mod path_test;
pub(crate) mod pieces;
pub(crate) mod route;
pub(crate) mod scan;
pub(crate) mod text_glob;
mod values;
