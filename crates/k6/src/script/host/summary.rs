//! What jslib's k6-summary asks for.

use super::giving::give;
use crate::script::state::State;
use rquickjs::{Ctx, Object, Result};
use serde_json::Value;
use std::rc::Rc;

pub(super) fn install<'js>(ctx: &Ctx<'js>, host: &Object<'js>, _: &Rc<State>) -> Result<()> {
    give!(ctx, host, "textSummary", move |data: String, options: String| -> String {
        let read = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
        crate::summary::text(&read(&data), &read(&options))
    });
    give!(ctx, host, "humanize", move |value: f64, kind: String, contains: String, unit: String| -> String {
        crate::summary::humanized(value, &kind, &contains, &unit)
    });
    Ok(())
}
