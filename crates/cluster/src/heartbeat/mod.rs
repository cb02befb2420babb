//! Which members are alive: sealed datagrams at a fixed interval, and a detector that counts those that miss.

mod detector;
mod pulse;
mod sealed;

pub use detector::{BeatIntake, Change, Detector, DetectorSettings, Health};
pub use pulse::{BeatCounts, HeartbeatError, Heartbeats};
pub use sealed::{Beat, BeatRefusal, Opened, Opener, Sealer, StartId};
