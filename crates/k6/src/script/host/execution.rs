//! `k6/execution`.

use super::giving::{give, thrown};
use crate::script::state::State;
use rquickjs::{Ctx, IntoJs as _, Object, Result, Value};
use std::rc::Rc;
use weir_scenario::metrics::{Builtin, Sink};

pub(super) fn install<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let own = state.clone();
    give!(ctx, host, "execution", move |ctx: Ctx<'js>, name: String| -> Result<Value<'js>> {
        asked(&ctx, &own, &name)
    });
    let own = state.clone();
    give!(ctx, host, "options", move || own.world.settings().options_json.clone());
    let own = state.clone();
    give!(ctx, host, "throws", move || own.world.settings().throws);
    let own = state.clone();
    give!(ctx, host, "tagGet", move |of: String, name: String| -> Option<String> {
        let pairs = pairs(&own, &of).borrow();
        let found = pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
        let fallback = || (of == "tag" && name == "group").then(|| own.group.borrow().to_string());
        found.or_else(|| scenario_tag(&own, &of, &name)).or_else(fallback)
    });
    let own = state.clone();
    give!(ctx, host, "tagSet", move |of: String, name: String, value: String| {
        let mut pairs = pairs(&own, &of).borrow_mut();
        pairs.retain(|(key, _)| *key != name);
        pairs.push((name, value));
    });
    let own = state.clone();
    give!(ctx, host, "tagDelete", move |of: String, name: String| {
        pairs(&own, &of).borrow_mut().retain(|(key, _)| *key != name);
    });
    let own = state.clone();
    give!(ctx, host, "tagKeys", move |of: String| -> Vec<String> {
        pairs(&own, &of).borrow().iter().map(|(name, _)| name.clone()).collect()
    });
    Ok(())
}

fn pairs<'s>(state: &'s State, of: &str) -> &'s std::cell::RefCell<Vec<(String, String)>> {
    if of == "tag" { &state.tags } else { &state.metadata }
}

fn scenario_tag(state: &State, of: &str, name: &str) -> Option<String> {
    let settings = state.world.settings();
    let at = state.iteration.borrow().as_ref().map(|iteration| iteration.scenario)?;
    let scenario = settings.scenarios.get(at).filter(|_| of == "tag")?;
    if name == "scenario" {
        return Some(scenario.name.clone());
    }
    let all = scenario.tags.iter().chain(&settings.tags);
    all.into_iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}

fn asked<'js>(ctx: &Ctx<'js>, state: &State, name: &str) -> Result<Value<'js>> {
    let world = &state.world;
    let iteration = state.iteration.borrow();
    let scenario = iteration.as_ref().and_then(|one| world.settings().scenarios.get(one.scenario));
    let outside = || thrown(ctx, format!("{name} is known in iterations only, and not while the script begins"));
    let needed = || iteration.as_ref().ok_or_else(outside);
    match name {
        "scenario.name" => scenario.ok_or_else(outside)?.name.as_str().into_js(ctx),
        "scenario.executor" => scenario.ok_or_else(outside)?.executor.as_str().into_js(ctx),
        "scenario.startTime" => {
            let start = scenario.ok_or_else(outside)?.start;
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            (since.saturating_sub(world.begun.elapsed()) + start)
                .as_millis()
                .to_string()
                .parse::<f64>()
                .unwrap_or(0.0)
                .into_js(ctx)
        }
        "scenario.progress" => {
            Err(thrown(ctx, "exec.scenario.progress is not there: use exec.scenario.iterationInTest"))
        }
        "scenario.iterationInInstance" | "scenario.iterationInTest" => (needed()?.of_scenario as f64).into_js(ctx),
        "vu.iterationInInstance" => ((state.began.get().max(1) - 1) as f64).into_js(ctx),
        "vu.iterationInScenario" => (needed()?.of_user as f64).into_js(ctx),
        "vu.idInInstance" | "vu.idInTest" => state.number.get().into_js(ctx),
        "instance.currentTestRunDuration" => (world.begun.elapsed().as_secs_f64() * 1000.0).into_js(ctx),
        "instance.iterationsCompleted" => total(state, Builtin::Iterations).into_js(ctx),
        "instance.iterationsInterrupted" => (world.handle.interrupted() as f64).into_js(ctx),
        "instance.vusActive" => total(state, Builtin::Vus).into_js(ctx),
        "instance.vusInitialized" => total(state, Builtin::VusMax).into_js(ctx),
        _ => Err(thrown(ctx, format!("exec.{name} is not known"))),
    }
}

fn total(state: &State, of: Builtin) -> f64 {
    match &state.world.metrics()[of.id()].whole {
        Sink::Counter { sum } => *sum,
        Sink::Gauge { value, .. } => *value,
        _ => 0.0,
    }
}
