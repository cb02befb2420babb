//! Advice: what to change in the configurations of the servers behind a run, how much it should help, and whether it does.
//!
//! 1. `recorded.rs` and `observed.rs` say how the run was made and what its explanation says.
//! 2. `servers/` finds the servers' processes, `configuration/` reads what their configurations say.
//! 3. `rules/` makes findings of both.
//! 4. `advice.rs` puts them together, `view.rs` shows them; `cure.rs` says what each changes in a queueing model.
//! 5. `trial/` compares copies of the servers with and without a change, and starts one that has other workers.

mod advice;
mod configuration;
mod cure;
mod finding;
mod observed;
mod recorded;
mod rules;
mod servers;
mod trial;
mod view;

pub use advice::Examined;
pub use cure::Cure;
pub use finding::{Advice, Finding, Predicted};
pub use trial::{Changed, Options as TrialOptions, Shown, Trial};
pub use view::text;
