//! What is decided before any file is looked up: the host of a request, whether the client is let in, and redirects.
//!
//! Without a configuration a request passes with one comparison.

mod asker;
pub(crate) mod auth;
mod client_certificates;
mod explain;
mod explain_upstream;
pub(crate) mod explanation;
pub(crate) mod fields;
mod governed;
pub(crate) mod host_names;
mod hosts;
mod inside;
mod judge;
mod known_user;
mod mount;
mod moved;
mod parts;
pub(crate) mod rate;
pub(crate) mod redirect;
mod response;
pub(crate) mod rewrite;
pub(crate) mod route_fields;
mod routed;
mod router;
pub(crate) mod routes;
pub(crate) mod rules;
mod set_by_routes;
pub(crate) mod settings;
pub(crate) mod sources;
mod tables;
mod watched;

pub(crate) use host_names::name_of as host_name;
pub(crate) use hosts::Hosts;
pub(crate) use router::Router;
