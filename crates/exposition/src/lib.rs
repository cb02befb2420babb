//! Figures in the text format of Prometheus (0.0.4), and in that of OpenMetrics (1.0), which has exemplars.

mod families;

pub use families::{Exemplar, Families, Format, Kind, Labels};

/// The format's own name for itself, as a media type.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
