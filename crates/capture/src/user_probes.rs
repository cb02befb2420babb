//! Probes in the server's own programs: by hand, and by packs for known servers.

mod binary;
mod error;
mod go_functions;
mod go_tls;
mod instruction;
mod loaded;
mod openssl;
mod openssl_layer;
mod plan;
mod programs;
mod query_text;
mod register;
mod release;
mod request;
mod texts;
mod tls_edge;
mod tls_marks;
mod tls_place;
pub mod usdt;

pub use binary::{Binary, Function, StaticProbe, next_note};
pub use error::ProbeError;
pub use go_functions::go_functions;
pub use go_tls::NoGoEdge;
pub use instruction::{HitCost, Placed, cost_of, place};
pub use loaded::UserProbes;
pub use openssl::NoOpensslEdge;
pub use plan::{MOST_SITES, Plan, Point, Site, Wanted};
pub use programs::Programs;
pub use query_text::{Dialect, normalised, without_query};
pub use register::Register;
pub use release::Release;
pub use request::ProbeRequest;
pub use tls_edge::{NoTlsEdge, tls_edge};
pub use tls_place::{TlsPlace, TlsSite};
