//! The policy runtime beside a server.
// scripts/test: serves

mod leases;
mod newcomers;
mod runtime;
