//! Forecasts of a series, each with how well it fits what it was made of.

mod contest;
mod fit;
mod holt_winters;
mod least_squares;
mod method;
mod theil_sen;
mod track;

pub use contest::{Contest, METHODS, Said};
pub use fit::Forecast;
pub use holt_winters::HoltWinters;
pub use least_squares::least_squares;
pub use method::Method;
pub use theil_sen::theil_sen;
pub use track::{Errors, Track};
