//! Users with behaviours over [`weir_load`]: what each does is a [`behaviour::Behaviour`]; how many there are, and when
//! their iterations begin, an [`executors::Executor`] says; what is counted is in [`metrics`].
//!
//! [`run::run`] makes a run. All users share one loop: latencies begin at the intended time where there is one, and the time
//! that behaviours take for themselves is counted apart.

pub mod behaviour;
pub mod executors;
pub mod form;
pub mod metrics;
pub mod play;
pub mod run;
