//! Files, hosts, protocols and limits, as clients meet them.
// scripts/test: serves, long, 4 threads

mod application_faults;
mod application_waits;
mod applications;
mod cached;
mod client_certificates;
mod clients;
mod codec_swap;
mod codings;
mod confinement;
mod control;
mod elsewhere;
#[path = "../harness/mod.rs"]
mod harness;
mod hosts;
mod http2_hosts;
mod listeners;
mod page_rules;
mod ranges;
mod resume;
mod routes;
mod shape;
mod stale;
mod tables;
mod throttle;
mod throttle_staged;
mod throttle_streams;
mod tls;
mod upstreams;
mod validators;
