//! Requests that go to upstreams over HTTP/1.1, and what becomes of them when an upstream does not do its part.

mod bodies;
mod choice;
mod clients;
mod desync;
mod faults;
mod governed;
mod handover;
mod http2;
mod kept;
mod messages;
mod others;
mod outages;
mod overload;
mod php;
mod queues;
mod real;
mod relay;
mod ring;
mod routes;
pub(crate) mod scripted;
mod scripts;
mod secure;
mod secure_chain;
mod splitting;
mod tunnels;
mod vectors;
mod versions;
