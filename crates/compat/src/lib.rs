//! The command lines of other load generators: `ab`, `http_load`, `httperf` and `wrk` as they are typed, with their
//! reports, on our engine.

mod ab;
mod getopt;
mod heads;
mod http_load;
mod httperf;
mod limited;
mod printf;
mod reply;
mod system;
mod words;
mod wrk;

pub use ab::run as ab;
pub use http_load::run as http_load;
pub use httperf::run as httperf;
pub use wrk::run as wrk;
