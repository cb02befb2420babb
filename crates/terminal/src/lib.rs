//! What commands show on a terminal and take from its user.

pub mod output;
pub mod pane;
pub mod privacy;
pub mod progress;
pub mod stop;
pub mod text_file;
pub mod units;
pub mod whole_file;

/// weir's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
