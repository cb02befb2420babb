//! How answers that come bit by bit are looked at: the options for it.

use std::time::Duration;
use weir_load::{Form, FormError, Streaming};
use weir_terminal::units::duration;

/// Options of streamed answers.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct StreamArgs {
    /// Tell the events of each answer's body apart: time to the first, time between two, how many. An event is by the
    /// Content-Type a server-sent event, a line of NDJSON, or else what one reception brings; FORM says so itself: events,
    /// lines, pieces
    #[arg(
        long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "auto",
        value_parser = form, help_heading = "Streams"
    )]
    stream: Option<Wanted>,
    /// With --stream: an answer has failed (stalled) when more time passes between two of its events
    #[arg(long, value_name = "TIME", requires = "stream", value_parser = duration, help_heading = "Streams")]
    between_at_most: Option<Duration>,
    /// With --stream: end an answer that goes on for longer, which is no failure; for streams without end
    #[arg(long, value_name = "TIME", requires = "stream", value_parser = duration, help_heading = "Streams")]
    stream_for: Option<Duration>,
}

/// The names of the fields of [`StreamArgs`].
pub(super) const OF_STREAMING: [&str; 3] = ["stream", "between_at_most", "stream_for"];

/// What an event is, if the user says it.
#[derive(Debug, Clone, Copy)]
struct Wanted(Option<Form>);

fn form(text: &str) -> Result<Wanted, FormError> {
    Streaming::form(text).map(Wanted)
}

impl StreamArgs {
    pub(super) fn streaming(&self) -> Option<Streaming> {
        let Wanted(form) = self.stream?;
        Some(Streaming { form, between_max: self.between_at_most, close_after: self.stream_for })
    }
}
