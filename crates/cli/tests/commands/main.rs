//! Commands that ask little of the clock.
// scripts/test: loads, long

mod always_full_disk;
mod architecture;
mod causes_study;
mod delivery;
mod descriptions;
mod developer_log;
mod doctor;
mod examples;
mod functions;
mod given_inputs;
mod import;
mod import_trace;
mod mcp;
mod modules;
mod objects;
mod plan;
mod policies;
mod record_session;
mod recordings;
mod retried;
mod route;
mod schemas;
mod serve_admin;
mod serve_confined;
mod serve_kept;
mod serve_log_disk;
mod serve_policy;
mod serve_sockets;
mod sql;
#[path = "../support/mod.rs"]
mod support;
mod top;
mod trace_files;
mod view;
mod watch;
mod watch_bodies;
mod watch_protocols;
mod watch_rules;
mod watch_sockets;
mod webtest;
