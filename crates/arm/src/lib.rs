//! ARM (Application Response Measurement) within a client's process.
//!
//! Transactions begin and end as records in memory that the agent reads; the layout is [`weir_wire::arm`].
//! Nothing here waits without a bound, panics, or fails in a way that its caller would have to care for: number 0 and
//! `Handle(0)` are what is given out where nothing is recorded, and every call takes them.
//! `hot.rs` is what runs for each transaction; all else is for the first time or for what is rare.
//!
//! Handlers of signals may start and stop transactions, with one exception: where the library was loaded at run time
//! (`dlopen`), a thread's very first call may allocate, so it should not come from a handler.
//!
//! This crate knows neither the C interfaces above it nor the agent that reads what it writes.
//!
//! # Example
//!
//! ```
//! use weir_arm::{DefinitionWriter, Field, Sort};
//!
//! let name = |name: &'static str| {
//!     move |definition: &mut DefinitionWriter| {
//!         definition.piece(Field::Name, 0, name.as_bytes());
//!     }
//! };
//! let shop = weir_arm::define(Sort::Application, 4, 0, name("Shop"));
//! let instance = weir_arm::define(Sort::Instance, 4, shop, |_| ());
//! let checkout = weir_arm::define(Sort::Transaction, 4, shop, name("checkout"));
//! let running = weir_arm::begin_instance(instance);
//!
//! let handle = weir_arm::start(checkout, instance);
//! // Here the program does its work.
//! let good = 0;
//! assert!(weir_arm::stop(handle, good));
//! weir_arm::end_instance(running);
//! ```

mod announcement;
mod clock;
mod command_line;
mod definitions;
mod handover;
mod hot;
mod identifiers;
mod identity;
mod instances;
mod lane;
mod lock;
mod memory;
mod page;
mod place;
mod process;
mod registry;
mod requests;
mod short_handles;
mod thread;

pub use hot::{
    Begin, at_unix_ns, bind, block, discard, now_ns, start, start_at, start_with, stop, stop_with, unblock, update_with,
};
pub use identifiers::{adopt, id_of, live_number_of, number_of};
pub use identity::{Report, generate, identity, report_with};
pub use instances::{begin_instance, end_instance, instance_of, running_instance};
pub use place::Telling;
pub use process::listening;
pub use registry::{State, belongs_to, define, forget, is_live, mute, sort_of, state_of};
pub use requests::{Pieces, Room, start_request, start_request_at, stop_request};
pub use short_handles::{lengthen, release, shorten};
pub use weir_wire::arm::{ARM_2, BOUND, CORRELATED, DefinitionWriter, Field, Handle, Identity, Metric, Sort, TRACE};
