//! `open`, `require`, and modules that are loaded when they are first used.

use super::giving::{give, thrown};
use crate::script::sources::beside;
use crate::script::state::{Stage, State};
use rquickjs::function::Opt;
use rquickjs::{ArrayBuffer, Ctx, Module, Object, Result, Value};
use std::rc::Rc;

pub(super) fn install<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let globals = ctx.globals();
    let own = state.clone();
    give!(ctx, globals, "open", move |ctx: Ctx<'js>, name: String, mode: Opt<String>| -> Result<Value<'js>> {
        if own.stage.get() != Stage::Init {
            let words = "the \"open()\" function is only available in the init stage: call it outside of the functions \
                         that run";
            return Err(thrown(&ctx, words));
        }
        let path = beside(&asking(&ctx, &own), &name);
        let content = own.world.sources.file(&path).map_err(|wrong| thrown(&ctx, wrong))?;
        match mode.as_deref() {
            Some("b") => Ok(ArrayBuffer::new_copy(ctx, &content[..])?.into_value()),
            _ => Ok(rquickjs::String::from_str(ctx, &String::from_utf8_lossy(&content))?.into_value()),
        }
    });
    let own = state.clone();
    let cache = Object::new(ctx.clone())?;
    host.set("modules", cache)?;
    give!(ctx, globals, "require", move |ctx: Ctx<'js>, name: String| -> Result<Value<'js>> {
        let base = asking(&ctx, &own);
        let resolved = own.world.sources.resolve(&base, &name).map_err(|wrong| thrown(&ctx, wrong))?;
        if own.stage.get() != Stage::Init {
            return Err(thrown(&ctx, format!("require({name:?}) is only allowed in the init context")));
        }
        required(&ctx, &own, &resolved)
    });
    let own = state.clone();
    give!(ctx, host, "module", move |ctx: Ctx<'js>, name: String| -> Result<Value<'js>> {
        required(&ctx, &own, &name)
    });
    Ok(())
}

/// The file of the function that calls the host.
fn asking(ctx: &Ctx<'_>, state: &State) -> String {
    let own = state.world.main.display().to_string();
    let named = ctx.script_or_module_name(1).and_then(|name| name.to_string().ok());
    named.filter(|name| name.starts_with('/')).unwrap_or(own)
}

/// A module's values: of a CommonJS module, what it exports.
fn required<'js>(ctx: &Ctx<'js>, state: &State, name: &str) -> Result<Value<'js>> {
    let modules: Object<'js> = ctx.globals().get::<_, Object<'js>>("__weir")?.get("modules")?;
    if let Some(known) = modules.get::<_, Option<Value<'js>>>(name)?.filter(|known| !known.is_undefined()) {
        return Ok(known);
    }
    // Under a name of its own, as the same module may be imported elsewhere.
    let module = match state.world.sources.module(ctx, name) {
        Ok(module) => module,
        Err(wrong) => {
            let words = state.world.sources.take_wrong().map(|(wrong, ..)| wrong.to_string());
            return Err(words.map_or(wrong, |words| thrown(ctx, words)));
        }
    };
    let (module, promise): (Module<'js, _>, _) = module.eval()?;
    promise.finish::<()>()?;
    let namespace = module.namespace()?;
    let value: Value<'js> =
        if namespace.contains_key("__common")? { namespace.get("default")? } else { namespace.into_value() };
    modules.set(name, value.clone())?;
    Ok(value)
}
