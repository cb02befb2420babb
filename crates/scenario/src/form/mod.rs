//! Scenarios in TOML: what users do, read from a file; every mistake is told with its line and column.

mod condition;
mod css;
mod document;
mod feeder;
mod place;
mod program;
mod reading;
mod scope;
mod scopes;
mod slo;
mod step;
mod steps;
mod take;
mod template;
mod think;
mod timing;

pub use condition::Condition;
pub use css::Css;
pub use feeder::{End, Feeder, FeederError, Layout, Order, Rows, csv, csv_in, json};
pub use program::{Body, Json, Need, Op, Program, Scenarios, Step};
pub use reading::{FormError, parse, read};
pub use scope::{Scope, ScopeKind};
pub use slo::{Slo, SloError};
pub use take::Take;
pub use template::encode;
pub use template::{Template, Values};
pub use think::Think;
