//! The steward beside a server.

mod leases;
mod newcomers;
mod steward;
