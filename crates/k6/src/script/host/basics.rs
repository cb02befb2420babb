//! Time, checks, groups, metrics, shared arrays and the log.

use super::giving::{give, thrown};
use crate::script::cut::Cut;
use crate::script::state::{Stage, State, UserTags};
use rquickjs::function::Opt;
use rquickjs::{Coerced, Ctx, Object, Result, Value};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weir_scenario::behaviour::Wants;
use weir_scenario::metrics::{Builtin, Contains, Kind, Tagged};

/// Longer sleeps are cut to this.
const SLEEP_MAX_S: f64 = 86400.0 * 365.0;

pub(super) fn install<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    time(ctx, host, state)?;
    checks(ctx, host, state)
}

fn time<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let own = state.clone();
    give!(ctx, host, "now", move || own.world.begun.elapsed().as_secs_f64() * 1000.0);
    let own = state.clone();
    give!(ctx, host, "sleep", move |ctx: Ctx<'js>, seconds: f64| -> Result<()> {
        if seconds.is_nan() || seconds <= 0.0 {
            return Ok(());
        }
        own.wait(&ctx, Wants::Sleep(Duration::from_secs_f64(seconds.min(SLEEP_MAX_S)))).map(|_| ())
    });
    give!(ctx, host, "duration", move |ctx: Ctx<'js>, text: String| -> Result<f64> {
        let read = crate::time::duration(&text).map(|duration| duration.as_secs_f64() * 1000.0);
        read.ok_or_else(|| thrown(&ctx, format!("{text:?} is no duration; write 500ms, 10s or 1m30s")))
    });
    let own = state.clone();
    give!(ctx, host, "log", move |level: String, words: String| own.world.log(&level, &words, " source=console"));
    let own = state.clone();
    give!(ctx, host, "once", move |words: String| own.world.tell_once(&words));
    Ok(())
}

/// The tags of a check.
struct CheckTags<'a> {
    of_user: UserTags<'a>,
    name: &'a str,
}

impl Tagged for CheckTags<'_> {
    fn is(&self, name: &str, value: &str) -> bool {
        if name == "check" { self.name == value } else { self.of_user.is(name, value) }
    }

    fn each(&self, take: &mut dyn FnMut(&str, &str)) {
        take("check", self.name);
        self.of_user.each(take);
    }
}

/// Tags as an object of a script.
pub(super) fn tags_of(tags: &Opt<Value<'_>>) -> Result<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    if let Some(object) = tags.0.as_ref().and_then(Value::as_object) {
        for pair in object.props::<String, Coerced<String>>() {
            let (name, value) = pair?;
            pairs.push((name, value.0));
        }
    }
    Ok(pairs)
}

fn checks<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let own = state.clone();
    give!(ctx, host, "check", move |ctx: Ctx<'js>, name: String, passed: bool, tags: Opt<Value<'js>>| -> Result<()> {
        if own.stage.get() == Stage::Init {
            return Err(thrown(&ctx, "check() is not allowed while the script begins (init context)"));
        }
        let pairs = tags_of(&tags)?;
        let name: Arc<str> = name.into();
        let mut metrics = own.world.metrics();
        metrics.checks.count(&own.group.borrow(), &name, passed, || None);
        let tags = CheckTags { of_user: UserTags { state: &own, own: &pairs }, name: &name };
        metrics.count(Builtin::Checks, f64::from(u8::from(passed)), &tags);
        Ok(())
    });
    let own = state.clone();
    give!(ctx, host, "groupBegin", move |ctx: Ctx<'js>, name: String| -> Result<String> {
        if own.stage.get() == Stage::Init {
            return Err(thrown(&ctx, "group() is not allowed while the script begins (init context)"));
        }
        if name.contains("::") {
            return Err(thrown(&ctx, format!("group {name:?}: a name may not hold ::")));
        }
        Ok(own.enter(&name).to_string())
    });
    let own = state.clone();
    give!(ctx, host, "groupEnd", move |before: String, milliseconds: f64| {
        let tags = UserTags { state: &own, own: &[] };
        own.world.metrics().count(Builtin::GroupDuration, milliseconds, &tags);
        *own.group.borrow_mut() = before.into();
    });
    Ok(())
}

pub(super) fn metrics<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let own = state.clone();
    give!(ctx, host, "metric", move |ctx: Ctx<'js>, kind: String, name: String, is_time: bool| -> Result<usize> {
        if own.stage.get() != Stage::Init {
            return Err(thrown(&ctx, "metrics must be declared in the init context"));
        }
        let contains = if is_time { Contains::Time } else { Contains::Default };
        let kinds = [Kind::Counter, Kind::Gauge, Kind::Rate, Kind::Trend];
        let kind = kinds.into_iter().find(|known| known.name() == kind);
        let kind = kind.ok_or_else(|| thrown(&ctx, "no such kind of metric"))?;
        let made = own.world.metrics().define(&name, kind, contains).map_err(|wrong| thrown(&ctx, wrong))?;
        let mut all = own.metrics.borrow_mut();
        all.push(made);
        Ok(all.len() - 1)
    });
    let own = state.clone();
    give!(ctx, host, "add", move |ctx: Ctx<'js>, id: usize, value: f64, tags: Opt<Value<'js>>| -> Result<bool> {
        if own.stage.get() == Stage::Init {
            return Err(thrown(&ctx, "metrics cannot be added to in the init context"));
        }
        if !value.is_finite() {
            own.world.tell_once("a value that is no number was added to a metric, and is not counted");
            return Ok(false);
        }
        let pairs = tags_of(&tags)?;
        let id = own.metrics.borrow().get(id).copied().ok_or_else(|| thrown(&ctx, "no such metric"))?;
        own.world.metrics().add(id, value, &UserTags { state: &own, own: &pairs });
        Ok(true)
    });
    let own = state.clone();
    give!(ctx, host, "abort", move |ctx: Ctx<'js>, words: String| -> Result<()> {
        own.cut(Cut::Abort(words));
        Err(Cut::throw(&ctx))
    });
    let own = state.clone();
    give!(ctx, host, "markFailed", move |words: String| own.world.mark_failed(&words));
    Ok(())
}

pub(super) fn shared<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let own = state.clone();
    give!(ctx, host, "isInit", move || own.stage.get() == Stage::Init);
    let own = state.clone();
    give!(ctx, host, "sharedLength", move |name: String| own.world.shared(&name).map_or(-1, |all| all.len() as i64));
    let own = state.clone();
    give!(ctx, host, "share", move |name: String, elements: Vec<String>| own.world.share(&name, elements));
    let own = state.clone();
    give!(ctx, host, "sharedAt", move |ctx: Ctx<'js>, name: String, at: usize| -> Result<rquickjs::String<'js>> {
        let all = own.world.shared(&name);
        let text = all.as_ref().and_then(|all| all.get(at)).ok_or_else(|| thrown(&ctx, "no such element"))?;
        rquickjs::String::from_str(ctx, text)
    });
    Ok(())
}
