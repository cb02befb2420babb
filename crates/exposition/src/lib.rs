//! Figures in the text format of Prometheus (0.0.4).

mod families;

pub use families::{Families, Kind, Labels};

/// The format's own name for itself, as a media type.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
