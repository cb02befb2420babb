//! Options that would have no effect: they are refused, since who gives one counts on it.

use super::usage::Usage;
use anyhow::anyhow;
use weir_load::sessions::Think;
use weir_load::{Options, Order, Schedule};

/// How a load is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Once, as the options say.
    Run,
    /// Again and again at rates of its own, with random arrivals.
    Search,
}

/// Refuses what was given on the command line and would be passed over.
pub(super) fn check(given: &[String], options: &Options, mode: Mode) -> Result<(), Usage> {
    let is_given = |option: &str| given.iter().any(|given| given == option);
    let is_open = mode == Mode::Search || options.schedule != Schedule::Closed;
    let urls = options.requests.hosts();
    let is_encrypted = if urls.is_empty() { options.url.encrypted } else { urls.iter().any(|url| url.encrypted) };
    for (option, has_effect, why) in [
        (
            "--queue",
            is_open,
            "a closed loop has no arrivals that wait; it belongs to --rate, --steps, --ramp and others",
        ),
        (
            "--seed",
            mode == Mode::Search || is_random(options),
            "nothing is drawn at random here; it belongs to --poisson, --urls with weights, --sessions, --mix and \
             --patience exp:2s",
        ),
        ("--insecure", is_encrypted, "no URL is https://: there is no certificate to accept"),
        ("--ca", is_encrypted, "no URL is https://: there is no certificate to trust"),
    ] {
        if is_given(option) && !has_effect {
            return Err(anyhow!("{option}: {why}").into());
        }
    }
    if mode == Mode::Search {
        for option in ["--steps", "--ramp", "--bursts", "--replay", "--poisson", "--pipeline", "--flash-crowd"] {
            if is_given(option) {
                return Err(anyhow!("{option}: --find-max sets the arrivals itself: leave it out").into());
            }
        }
    }
    Ok(())
}

/// Whether anything of a load is drawn at random.
fn is_random(options: &Options) -> bool {
    let of_schedule = match &options.schedule {
        Schedule::Poisson { .. } => true,
        Schedule::Changing { poisson, .. } => poisson.is_some(),
        _ => false,
    };
    of_schedule
        || matches!(options.requests.order, Order::Weighted { .. })
        || options.requests.sessions.is_some()
        || options.requests.mix.is_some()
        || matches!(options.slow.patience, Some(Think::Uniform(..) | Think::Exponential(_)))
}
