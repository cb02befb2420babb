//! What a loop counts, alone and over time.

pub(crate) mod answered;
pub(crate) mod calls;
pub(crate) mod checks;
pub(crate) mod clients;
pub(crate) mod codes;
pub(crate) mod durations;
pub(crate) mod histogram;
pub(crate) mod mix;
pub(crate) mod own_slice;
pub(crate) mod packed;
pub(crate) mod reasons;
pub(crate) mod remarks;
pub(crate) mod scopes;
pub(crate) mod series;
pub(crate) mod sessions;
pub(crate) mod slices;
pub(crate) mod slowest;
pub(crate) mod tally;
pub(crate) mod traced;

pub use calls::Calls;
pub use checks::CheckReport;
pub use clients::Fairness;
pub use histogram::Histogram;
pub use mix::MixReport;
pub use own_slice::OwnSlice;
pub use packed::Packed;
pub use reasons::Reason;
pub use remarks::Remark;
pub use scopes::ScopeReport;
pub use series::{Counts, Point, Sampling, Series, Strain};
pub use sessions::SessionReport;
pub use slowest::Slowest;
pub use tally::Handshakes;
pub use traced::SlowTrace;
