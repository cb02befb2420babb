//! Tests of what RFC 9111 requires of a shared cache, each with its section, and of the bounds.

mod behaviour;
mod bounds;
mod harness;
mod oracle;
mod requirements;
