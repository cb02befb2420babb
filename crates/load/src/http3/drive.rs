//! The entry of the loop over HTTP/3.

use crate::LoadError;
use crate::counts::tally::Tally;
use crate::engine::state::Engine;
use crate::http3::state::Http3;

/// Runs a loop; gives the counts and when nothing more was begun. Its name is the one by which its instructions are
/// counted.
#[inline(never)]
pub(crate) fn drive(engine: Engine<'_, Http3<'_>>, start_ns: u64) -> Result<(Tally, u64), LoadError> {
    engine.run(start_ns)
}
