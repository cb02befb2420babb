//! When a scenario's iterations begin, as its table says.

use crate::executors::{Executor, Stage};
use crate::form::document::Table;
use std::sync::Arc;
use std::time::Duration;
use weir_load::{Profile, Stretch};
use weir_measure::duration_text::parse_duration;

/// The users of an open scenario at most, unless it says so.
const USERS_MAX_DEFAULT: u64 = 1000;
/// How long iterations may begin where only their number is said.
const DURATION_DEFAULT: Duration = Duration::from_secs(600);

/// Reads how iterations begin; `None` where that is wrong, which is noted.
pub(crate) fn executor(table: &Table<'_, '_>) -> Option<Executor> {
    let most = u64::from(crate::executors::USERS_MAX);
    let users = table.number("users", 1, most).map(|users| users as u32);
    let max_users = table.number("max_users", 1, most).map(|users| users as u32);
    let iterations = table.number("iterations", 1, 1 << 53);
    let each = table.number("iterations_each", 1, 1 << 53);
    let duration = table.duration("duration");
    let ramp_down = table.duration("graceful_ramp_down").unwrap_or(Duration::from_secs(30));
    let (ramp, rate) = (table.text("ramp"), table.text("rate"));
    let ways = [ramp.is_some(), rate.is_some(), users.is_some() && rate.is_none()];
    if ways.into_iter().filter(|is| *is).count() != 1 {
        table.wrong(
            "a scenario says how many users it has in one way",
            "write users = 50, ramp = \"0..50/30s, 50/1m\", or rate = \"20/s\"",
        );
        return None;
    }
    if let Some(max_users) = max_users
        && rate.is_none()
    {
        table.wrong(format!("max_users = {max_users} has no effect without rate"), "leave it out");
    }
    if let Some((text, at)) = ramp {
        refuse(table, &[("duration", duration.is_some()), ("iterations", iterations.or(each).is_some())], "ramp");
        let (start, stages) = stages(text).or_else(|| {
            let what = format!("ramp = {text:?} says no numbers of users over time");
            table.document.wrong(at, what, "write USERS/TIME or FROM..TO/TIME, such as \"0..50/30s, 50/1m\"");
            None
        })?;
        return Some(Executor::Ramping { start, stages, ramp_down });
    }
    if let Some((text, at)) = rate {
        refuse(table, &[("iterations", iterations.or(each).is_some())], "rate");
        let profile = profile(text, duration).map_err(|remedy| {
            table.document.wrong(at, format!("rate = {text:?} says no iterations over time"), remedy);
        });
        let users_max = max_users.unwrap_or(USERS_MAX_DEFAULT.max(u64::from(users.unwrap_or(0))) as u32);
        return Some(Executor::Arrivals {
            profile: profile.ok()?,
            users: users.unwrap_or(0).min(users_max),
            users_max,
        });
    }
    let users = users?;
    Some(match (iterations, each, duration) {
        (Some(iterations), None, duration) => {
            Executor::Shared { users, iterations, duration: duration.unwrap_or(DURATION_DEFAULT) }
        }
        (None, Some(iterations), duration) => {
            Executor::PerUser { users, iterations, duration: duration.unwrap_or(DURATION_DEFAULT) }
        }
        (None, None, Some(duration)) => Executor::Constant { users, duration },
        (Some(_), Some(_), _) => {
            table.wrong("iterations and iterations_each are two ways to say when it ends", "leave one of them out");
            return None;
        }
        (None, None, None) => {
            table.wrong(
                "the scenario has no end",
                "write duration = \"1m\", iterations = 1000, or iterations_each = 10",
            );
            return None;
        }
    })
}

fn refuse(table: &Table<'_, '_>, given: &[(&str, bool)], with: &str) {
    for (name, _) in given.iter().filter(|(_, is)| *is) {
        table.wrong(format!("{name} has no effect with {with}, which says itself when it ends"), "leave it out");
    }
}

/// `20/s` with a duration, or `0..20/30s, 20/1m`: iterations a second, over times.
fn profile(text: &str, duration: Option<Duration>) -> Result<Arc<Profile>, String> {
    let steady = text.split_once('/').filter(|(_, unit)| ["s", "m", "min", "h"].contains(&unit.trim()));
    let profile = match (steady, duration) {
        (Some((number, unit)), Some(duration)) => {
            let seconds = match unit.trim() {
                "s" => 1.0,
                "h" => 3600.0,
                _ => 60.0,
            };
            let rate: f64 = number.trim().parse().map_err(|_| "write such as \"20/s\"".to_owned())?;
            let per_s = rate / seconds;
            Profile::new(&[Stretch { from_per_s: per_s, to_per_s: per_s, duration }])
        }
        (Some(_), None) => return Err("say for how long, too: duration = \"1m\"".to_owned()),
        (None, Some(_)) => return Err("leave duration out: the stretches of rate say it".to_owned()),
        (None, None) => Profile::parse(text, |time| parse_duration(time).ok()),
    };
    profile.map(Arc::new).map_err(|error| error.to_string())
}

/// `0..50/30s, 50/1m`: users over times.
fn stages(text: &str) -> Option<(u32, Vec<Stage>)> {
    let (mut start, mut stages) = (None, Vec::<Stage>::new());
    for piece in text.split(',').map(str::trim) {
        let (users, time) = piece.split_once('/')?;
        let (from, to) = users.split_once("..").unwrap_or((users, users));
        let (from, target): (u32, u32) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        let duration = parse_duration(time.trim()).ok()?;
        start.get_or_insert(from);
        if stages.last().is_some_and(|last| last.target != from) {
            stages.push(Stage { duration: Duration::ZERO, target: from });
        }
        stages.push(Stage { duration, target });
    }
    Some((start?, stages)).filter(|(_, stages)| stages.len() <= 1000)
}
