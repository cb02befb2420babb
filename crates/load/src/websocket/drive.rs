//! The entry of the loop over WebSockets.

use crate::LoadError;
use crate::counts::tally::Tally;
use crate::engine::state::Engine;
use crate::websocket::state::Sockets;

/// Runs a loop; gives the counts and when nothing more was begun.
#[inline(never)]
pub(crate) fn drive(engine: Engine<'_, Sockets<'_>>, start_ns: u64) -> Result<(Tally, u64), LoadError> {
    engine.run(start_ns)
}
