//! A whole run in tiles, for views that zoom from minutes to single events.
//!
//! A *tile* is 1024 buckets of time of one width, a lane for each CPU and each task ([`Tile`]).
//! Level 0 is computed once for the whole run in one pass and kept with the levels above it, each of which is four
//! times as coarse ([`RunTiles::open`]); what lies below is computed from the segments when it is asked for, up to
//! single events ([`RunTiles::tile`]).
//! [`ObjectChart`] has the interactions of chosen objects in the same levels.
//! This crate knows neither how tiles are shown nor how they travel.
//!
//! # Example
//!
//! ```
//! use weir_tiles::RunTiles;
//! use weir_trace::{Limits, Run, Source};
//! use weir_wire::Record;
//! use weir_wire::task::{NO_SYSCALL, Switch};
//!
//! let folder = tempfile::tempdir()?;
//! let run = Run::create(folder.path())?;
//! run.begin(Source::Kernel, "0.1.0", Vec::new(), None, None)?;
//! let mut stream = run.stream(Source::Kernel, 0, Limits::default());
//! // Tasks 7 and 8 take turns on CPU 0.
//! for turn in 0..1000 {
//!     let (prev, next) = if turn % 2 == 0 { (7, 8) } else { (8, 7) };
//!     let switch: Record = Switch { prev, next, prev_state: 0, syscall: NO_SYSCALL, descriptor: 0 }.write(turn * 1000, 0);
//!     stream.push(switch, &[], None)?;
//! }
//! stream.finish()?;
//!
//! let mut tiles = RunTiles::open(folder.path(), |_rung| false, &mut |_records| true)?;
//! let coarsest: &[u8] = &tiles.tile(0, 0)?;
//! assert!(coarsest.starts_with(b"{"), "a tile is an object of JSON");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod build;
mod error;
mod exact;
mod files;
mod follow;
mod lane;
mod locks;
mod objects;
mod place;
mod requests;
mod run_tiles;
mod tile;

pub use error::{OpenError, TileError};
pub use exact::ExactTile;
pub use follow::{Doing, Follow, Sink};
pub use lane::{Entry, Lane, LaneBuilder};
pub use locks::{Holders, LockFollow, LockLine, Waited};
pub use objects::{MOST_CHOSEN, ObjectChart};
pub use place::Places;
pub use requests::{Slow, SlowStep};
pub use run_tiles::RunTiles;
pub use tile::{BUCKETS, FINER, Tile};
