//! What the host gives to scripts: the functions of `globalThis.__weir`, by which the modules of `../../js` do all they
//! cannot do themselves.

mod address;
mod basics;
mod codec;
mod cookies;
mod execution;
mod files;
mod giving;
mod http;
mod lazily;
mod page;
mod reply;
mod request;
mod sockets;
mod summary;
mod told;
mod words;

pub(super) use codec::bytes_of;
pub(super) use words::{place_of, words_of};

use super::state::State;
use rquickjs::{Ctx, Object, Result};
use std::rc::Rc;

/// Gives a runtime its host.
pub(super) fn install<'js>(ctx: &Ctx<'js>, state: &Rc<State>) -> Result<Object<'js>> {
    let host = Object::new(ctx.clone())?;
    basics::install(ctx, &host, state)?;
    files::install(ctx, &host, state)?;
    http::install(ctx, &host, state)?;
    reply::install(ctx, &host)?;
    lazily::install(ctx, &host, state)?;
    let globals = ctx.globals();
    globals.set("__VU", state.number.get())?;
    globals.set("__ITER", 0)?;
    let env = Object::new(ctx.clone())?;
    for (name, value) in &state.world.env {
        env.set(name.as_str(), value.as_str())?;
    }
    globals.set("__ENV", env)?;
    globals.prop("__weir", host.clone())?;
    globals.prop("global", globals.clone())?;
    Ok(host)
}
