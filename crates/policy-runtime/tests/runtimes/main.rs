//! The policy runtime beside a server.

mod leases;
mod newcomers;
mod runtime;
