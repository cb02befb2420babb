//! Functions of the host that few scripts call: they are made when they are first asked for, as each costs a user's
//! runtime some 300 bytes.

use super::giving::give;
use super::{basics, codec, cookies, execution, page, sockets, summary};
use crate::script::state::State;
use rquickjs::{Ctx, Object, Result, Value};
use std::rc::Rc;

/// Makes functions.
type Install = for<'js> fn(&Ctx<'js>, &Object<'js>, &Rc<State>) -> Result<()>;

/// The functions that are made together, by their names.
const GROUPS: [(&[&str], Install); 9] = [
    (&["metric", "add", "abort", "markFailed"], basics::metrics),
    (&["isInit", "sharedLength", "share", "sharedAt"], basics::shared),
    (&["b64encode", "b64decode", "text", "bytes", "joined"], codec::texts),
    (&["hash", "hmac", "digestAs", "randomBytes", "boundary"], codec::hashes),
    (&["jarNew", "jarGet", "jarSet", "jarClear", "responseCookies"], cookies::install),
    (&["execution", "options", "throws", "tagGet", "tagSet", "tagDelete", "tagKeys"], execution::install),
    (&["htmlParse", "htmlFind", "htmlFilter", "htmlMove", "htmlTell", "htmlAttributes"], page::install),
    (&["socketOpen", "socketSend", "socketPing", "socketClose", "listen"], sockets::install),
    (&["textSummary", "humanize"], summary::install),
];

/// Gives `need`, by which the host's prototype makes what is asked for.
pub(super) fn install<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let own = state.clone();
    give!(ctx, host, "need", move |ctx: Ctx<'js>, name: String| -> Result<Value<'js>> {
        let Some((_, make)) = GROUPS.iter().find(|(names, _)| names.contains(&name.as_str())) else {
            return Ok(Value::new_undefined(ctx));
        };
        let made = Object::new(ctx.clone())?;
        make(&ctx, &made, &own)?;
        let host: Object<'js> = ctx.globals().get("__weir")?;
        for pair in made.props::<String, Value<'js>>() {
            let (name, function) = pair?;
            host.set(name, function)?;
        }
        made.get(name)
    });
    Ok(())
}
