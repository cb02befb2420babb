//! The entry of the loop over WebSockets on streams.

use crate::LoadError;
use crate::counts::tally::Tally;
use crate::engine::state::Engine;
use crate::tunneled::state::Tunnels;

/// Runs a loop; gives the counts and when nothing more was begun.
#[inline(never)]
pub(crate) fn drive(engine: Engine<'_, Tunnels<'_>>, start_ns: u64) -> Result<(Tally, u64), LoadError> {
    engine.run(start_ns)
}
