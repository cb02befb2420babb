//! How many users there are, and when their iterations begin: state machines without a clock.

mod course;
mod plan;
mod stages;

pub use course::{Course, Step};
pub use plan::{Executor, Keeps, PlanError, Planned, USERS_MAX};
pub use stages::Stage;
