//! What is counted: metrics with tags, checks, groups, and thresholds on them.

mod checks;
mod registry;
mod sink;
mod tagged;
mod threshold;

pub use checks::{Checked, Checks};
pub use registry::{Builtin, Metric, MetricError, MetricId, Metrics, Part, Points, Selector, Shared};
pub use sink::{Contains, Kind, Sink, Trend};
pub use tagged::{RequestTags, Tagged, error_code};
pub use threshold::{Aggregate, Relation, Threshold, ThresholdError};
