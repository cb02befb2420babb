//! The server's configuration: a TOML file. It is read as a whole, and every mistake is reported with its position.

mod acme;
mod cache;
mod client_certificates;
mod conditions;
mod doubts;
pub(crate) mod explanation;
mod foreign;
mod general;
mod header;
mod host;
mod host_rules;
mod led;
mod networks;
pub(crate) mod options;
mod php;
mod plain_file;
mod policy;
mod reading;
mod route_doubts;
mod routes;
mod said;
mod script_doubts;
mod script_rights;
mod script_server;
mod scripts;
mod site;
mod table;
mod throttle;
mod units;
mod upstream;
mod upstream_address;
mod upstream_protocol;
mod user_directories;
mod users;
mod workers;

pub use host_rules::HostRules;
pub use reading::{ConfigurationError, parse_configuration, read_configuration};
pub use script_server::{ScriptMount, ScriptServerOptions, ScriptServerTls, parse_script_server, read_script_server};

/// An example of everything, with its defaults and what it is for.
pub const EXAMPLE: &str = include_str!("example.toml");
