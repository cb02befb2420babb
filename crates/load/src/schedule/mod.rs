//! When requests are wanted: the schedule that the user gives, the arrivals that it makes, and what is due next.

pub(crate) mod arrivals;
pub(crate) mod profile;
mod rule;
pub(crate) mod scheduler;

pub use profile::{Profile, ProfileError, Stretch};
pub use rule::{Schedule, StopRule};
