//! The C interface of ARM 4.0, with the sub-buffers of ARM 4.1: what `arm4.h` declares.
//!
//! No call blocks without a bound or ends the program; what comes in may be null or nonsense, and what goes out can
//! always be passed on.
//! Only the standard's functions are exported, and three of our own for servers (`requests.rs`).

mod buffer;
mod correlators;
mod outcome;
mod registering;
mod requests;
mod subject;
mod text;
mod transactions;
pub mod types;

pub use correlators::*;
pub use outcome::Outcome;
pub use registering::*;
pub use requests::*;
pub use transactions::*;
