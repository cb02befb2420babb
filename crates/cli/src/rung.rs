//! The option that chooses a rung of the ladder of sources.

use weir_capture::{BoundarySource, Ladder};

/// Where request boundaries come from.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "What else to record")]
pub(crate) struct RungArgs {
    /// Where request boundaries come from: auto (the highest that works), or tracepoints, fentry, syscalls, userprobes,
    /// proc, client
    #[arg(long, value_name = "RUNG", value_parser = rung, default_value = "auto")]
    rung: Asked,

    /// Behave as on a kernel that lacks this rung; may be repeated
    #[arg(long, value_name = "RUNG", value_parser = BoundarySource::of_word)]
    without_rung: Vec<BoundarySource>,
}

/// What the option asks for.
#[derive(Debug, Clone, Copy, Default)]
enum Asked {
    /// The highest that works.
    #[default]
    Highest,
    /// This one.
    This(BoundarySource),
}

fn rung(word: &str) -> anyhow::Result<Asked> {
    if word == "auto" { Ok(Asked::Highest) } else { Ok(Asked::This(BoundarySource::of_word(word)?)) }
}

impl RungArgs {
    /// The ladder to climb.
    pub(crate) fn ladder(&self) -> Ladder {
        let forced = match self.rung {
            Asked::Highest => None,
            Asked::This(rung) => Some(rung),
        };
        Ladder { forced, forbidden: self.without_rung.clone() }
    }
}
