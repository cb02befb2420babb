//! Readings in, decisions out: the rules by which a server adapts before the flood arrives.
//!
//! Nothing here owns a clock, a file or a socket: times and readings are told, decisions are handed back, and the
//! same readings lead to the same decisions whenever they are told again.
//! This crate does not know how pages are served, nor how a decision is carried out.
//!
//! # The way of a decision
//!
//! 1. `language/` reads a policy: words (`token.rs`), pools, atoms and rules (`parse.rs`, `condition.rs`, `action.rs`
//!    over `cursor.rs`); `hint.rs` suggests our word for a word of other languages, `format.rs` writes a policy again.
//! 2. `check/` refuses what is well-formed and wrong: conditions become alternatives of intervals (`boxes.rs`), which
//!    tell what can never hold (`rule.rs`) and which rules undo each other (`opposite.rs`), unless one has the higher
//!    priority.
//! 3. `policy.rs` numbers everything and finds for which subjects each rule is evaluated.
//! 4. Readings go into series (`series.rs`) that the state (`state.rs`) holds for nodes, atoms, sessions and clients.
//! 5. At a tick `engine/tick.rs` goes over rules and subjects. `engine/context.rs` says what is true, false or unknown
//!    (forecasts by `forecast/`). `engine/evaluation.rs` keeps to `for`, `until`, `hold`, `cooldown` and `limit`, and a
//!    rule keeps its decision while its condition holds. `engine/orders.rs` chooses nodes and leaves out orders in force.
//! 6. A decision (`decision.rs`) carries its rule, readings, outcome and orders; the caller carries it out.
//! 7. `log.rs` writes down what an engine was told, `replay.rs` tells it again; `crowd.rs` tells a flash crowd from an
//!    attack.
//!
//! # Example
//!
//! ```
//! use weir_adapt::forecast::Method;
//! use weir_adapt::{Engine, Of, Policy, Reading, Resource};
//!
//! let rules = r#"atom "/**" { rule busy: every 1s if cpu@here > 90% then shed 20% until cpu@here < 50%; }"#;
//! let (policy, warnings) = Policy::read("site.policy", rules).expect("it has no mistake");
//! assert_eq!((policy.rules(), warnings.len()), (1, 0));
//! let engine = Engine::new(policy, "n1", Method::default());
//! let mut state = engine.state("n1");
//! let node = engine.node(&mut state, "n1").expect("there is room");
//! let mut decisions = Vec::new();
//! for (at_ms, value) in [(0, 40.0), (1000, 95.0), (2000, 80.0), (3000, 30.0)] {
//!     let reading = Reading { resource: Resource::Cpu, of: Of::Node(node), value, at_ms, valid_ms: 3000 };
//!     engine.tick(at_ms, &[reading], &mut state, &mut decisions);
//! }
//! // The rule fires at the second reading and is released at the fourth.
//! let times: Vec<_> = decisions.iter().map(|decision| (decision.at_ms, decision.outcome.is_fired())).collect();
//! assert_eq!(times, [(1000, true), (3000, false)]);
//! ```

mod at_rest;
mod check;
pub mod crowd;
mod decision;
mod engine;
mod exact;
pub mod forecast;
mod glob;
mod language;
pub mod log;
pub mod nodes;
mod policy;
mod reach;
mod reading;
mod replay;
mod series;
mod sketch;
mod state;

pub use at_rest::AtRest;
pub use check::{Checked, NO_RULES, check_policy};
pub use decision::{Cited, Decision, Order, Outcome, Subject};
pub use engine::{Active, CONTESTS_MAX, Contested, Contests, Engine, ForecastErrors, ForecastNow};
pub use glob::fits_glob;
pub use language::{Dimension, POLICY_BYTES_MAX, format_policy, show_ms};
pub use policy::Policy;
pub use reach::Elsewhere;
pub use reading::{AtomId, ClientId, NodeId, Of, Reading, Resource, Where};
pub use replay::{Replay, ReplayCounts, ReplayError};
pub use series::Unknown;
pub use sketch::{Frequent, Sketch};
pub use state::{CLIENTS_MAX, Counts, State};
pub use weir_diagnostic::Mistake;
