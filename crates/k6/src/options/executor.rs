//! Scenarios and their executors.

use super::given::OptionError;
use super::read::Fields;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use weir_load::{Profile, Stretch};
use weir_scenario::executors::{Executor, Stage};

/// How long iterations of shared-iterations and per-vu-iterations begin at most.
const MAX_DURATION: Duration = Duration::from_secs(600);
/// The most users of a scenario.
const USERS_MAX: u64 = 100_000;

/// A scenario's executor, with k6's name of it.
#[derive(Debug, Clone)]
pub(super) struct Read {
    pub(super) executor: Executor,
    pub(super) kind: String,
}

/// Reads the executor of a scenario out of its fields.
pub(super) fn executor(name: &str, kind: &str, fields: &mut Fields) -> Result<Read, OptionError> {
    let missing = |option: &str, why| OptionError::Missing { path: format!("scenarios.{name}.{option}"), why };
    let executor = match kind {
        "shared-iterations" => Executor::Shared {
            users: users(name, fields, "vus")?.unwrap_or(1),
            iterations: fields.whole("iterations")?.unwrap_or(1),
            duration: fields.duration("maxDuration")?.unwrap_or(MAX_DURATION),
        },
        "per-vu-iterations" => Executor::PerUser {
            users: users(name, fields, "vus")?.unwrap_or(1),
            iterations: fields.whole("iterations")?.unwrap_or(1),
            duration: fields.duration("maxDuration")?.unwrap_or(MAX_DURATION),
        },
        "constant-vus" => Executor::Constant {
            users: users(name, fields, "vus")?.unwrap_or(1),
            duration: fields.duration("duration")?.ok_or_else(|| missing("duration", "say how long it lasts"))?,
        },
        "ramping-vus" => Executor::Ramping {
            start: users(name, fields, "startVUs")?.unwrap_or(1),
            stages: stages(name, fields.list("stages")?)?
                .ok_or_else(|| missing("stages", "say how its users change"))?,
            ramp_down: fields.duration("gracefulRampDown")?.unwrap_or(Duration::from_secs(30)),
        },
        "constant-arrival-rate" => {
            let rate = fields.number("rate")?.ok_or_else(|| missing("rate", "say how many iterations begin"))?;
            let unit = unit(name, fields)?;
            let duration = fields.duration("duration")?.ok_or_else(|| missing("duration", "say how long it lasts"))?;
            let per_s = rate / unit;
            arrivals(name, fields, &[Stretch { from_per_s: per_s, to_per_s: per_s, duration }])?
        }
        "ramping-arrival-rate" => {
            let start = fields.number("startRate")?.unwrap_or(0.0);
            let unit = unit(name, fields)?;
            let given = fields.list("stages")?.ok_or_else(|| missing("stages", "say how its rate changes"))?;
            arrivals(name, fields, &stretches(name, start / unit, unit, given)?)?
        }
        "externally-controlled" => {
            let why = "users are not set from outside while a run goes on; use ramping-vus";
            return Err(OptionError::Refused { name: "externally-controlled".to_owned(), why });
        }
        other => return Err(OptionError::Executor { scenario: name.to_owned(), executor: other.to_owned() }),
    };
    Ok(Read { executor, kind: kind.to_owned() })
}

fn users(name: &str, fields: &mut Fields, option: &str) -> Result<Option<u32>, OptionError> {
    match fields.whole(option)? {
        Some(users) if users > USERS_MAX => {
            Err(OptionError::range(option, format!("scenario {name} has at most {USERS_MAX} users, and not {users}")))
        }
        users => Ok(users.map(|users| users as u32)),
    }
}

/// The seconds of `timeUnit`.
fn unit(name: &str, fields: &mut Fields) -> Result<f64, OptionError> {
    let unit = fields.duration("timeUnit")?.unwrap_or(Duration::from_secs(1)).as_secs_f64();
    if unit > 0.0 {
        Ok(unit)
    } else {
        Err(OptionError::range("timeUnit", format!("scenario {name}: it is longer than 0")))
    }
}

fn arrivals(name: &str, fields: &mut Fields, stretches: &[Stretch]) -> Result<Executor, OptionError> {
    let why = "say how many users there are for it at first";
    let path = format!("scenarios.{name}.preAllocatedVUs");
    let users_first = users(name, fields, "preAllocatedVUs")?.ok_or(OptionError::Missing { path, why })?;
    let users_max = users(name, fields, "maxVUs")?.unwrap_or(users_first);
    let profile = Profile::new(stretches).map_err(|wrong| OptionError::range(name, wrong))?;
    Ok(Executor::Arrivals { profile: Arc::new(profile), users: users_first, users_max })
}

/// The fields of a stage.
fn stage(name: &str, at: usize, value: Value) -> Result<(Duration, f64), OptionError> {
    let path = format!("scenarios.{name}.stages[{at}]");
    let mut fields = Fields::of(&path, value)?;
    let duration = fields.duration("duration")?;
    let target = fields.number("target")?;
    fields.end()?;
    let missing = |option: &str, why| OptionError::Missing { path: format!("{path}.{option}"), why };
    let target = target.ok_or_else(|| missing("target", "say what it goes to"))?;
    if !(0.0..=1e9).contains(&target) {
        return Err(OptionError::range("target", format!("{path}: {target} is none from 0 to 10^9")));
    }
    Ok((duration.ok_or_else(|| missing("duration", "say how long it takes"))?, target))
}

pub(super) fn stages(name: &str, given: Option<Vec<Value>>) -> Result<Option<Vec<Stage>>, OptionError> {
    let Some(given) = given else { return Ok(None) };
    let mut stages = Vec::with_capacity(given.len());
    for (at, value) in given.into_iter().enumerate() {
        let (duration, target) = stage(name, at, value)?;
        if target > USERS_MAX as f64 {
            return Err(OptionError::range("target", format!("scenario {name} has at most {USERS_MAX} users")));
        }
        stages.push(Stage { duration, target: target as u32 });
    }
    Ok(Some(stages))
}

/// Rates between stages lie on a line; a stage without time is a jump.
fn stretches(name: &str, start_per_s: f64, unit: f64, given: Vec<Value>) -> Result<Vec<Stretch>, OptionError> {
    let (mut stretches, mut from_per_s) = (Vec::new(), start_per_s);
    for (at, value) in given.into_iter().enumerate() {
        let (duration, target) = stage(name, at, value)?;
        let to_per_s = target / unit;
        if !duration.is_zero() {
            stretches.push(Stretch { from_per_s, to_per_s, duration });
        }
        from_per_s = to_per_s;
    }
    Ok(stretches)
}
