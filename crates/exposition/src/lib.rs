//! Figures in the text format of Prometheus (0.0.4), and in that of OpenMetrics (1.0), which has exemplars.

mod families;

pub use families::{CONTENT_TYPE, Exemplar, Families, Format, Kind, Labels};
