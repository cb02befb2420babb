//! Jars of cookies.

use super::giving::{give, thrown};
use crate::cookies::{Cookie, Jar};
use crate::script::state::State;
use rquickjs::{Array, Ctx, Object, Result};
use std::rc::Rc;
use std::time::SystemTime;
use weir_load::Url;

/// The most jars of a user.
const JARS_MAX: usize = 10_000;

pub(super) fn install<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let own = state.clone();
    give!(ctx, host, "jarNew", move |ctx: Ctx<'js>| -> Result<usize> {
        let mut jars = own.jars.borrow_mut();
        if jars.len() >= JARS_MAX {
            return Err(thrown(&ctx, format!("a user has at most {JARS_MAX} cookie jars: make one and clear it")));
        }
        jars.push(Jar::default());
        Ok(jars.len() - 1)
    });
    let address = |ctx: &Ctx<'_>, text: &str| Url::parse(text).map_err(|wrong| thrown(ctx, wrong));
    let own = state.clone();
    give!(ctx, host, "jarGet", move |ctx: Ctx<'js>, jar: usize, url: String| -> Result<Object<'js>> {
        let url = address(&ctx, &url)?;
        let found = Object::new(ctx.clone())?;
        if let Some(jar) = own.jars.borrow().get(jar) {
            for (name, value) in jar.get(&url, SystemTime::now()) {
                let values = match found.get::<_, Option<Array<'js>>>(name)? {
                    Some(values) => values,
                    None => Array::new(ctx.clone())?,
                };
                values.set(values.len(), value)?;
                found.set(name, values)?;
            }
        }
        Ok(found)
    });
    let own = state.clone();
    give!(ctx, host, "jarSet", move |ctx: Ctx<'js>, jar: usize, url: String, line: String| -> Result<bool> {
        let url = address(&ctx, &url)?;
        let cookie = Cookie::parse(&line).ok_or_else(|| thrown(&ctx, format!("{line:?} is no cookie")))?;
        Ok(own.jars.borrow_mut().get_mut(jar).is_some_and(|jar| jar.set(&url, cookie, SystemTime::now())))
    });
    let own = state.clone();
    give!(ctx, host, "jarClear", move |ctx: Ctx<'js>, jar: usize, url: String, name: String| -> Result<()> {
        let url = address(&ctx, &url)?;
        if let Some(jar) = own.jars.borrow_mut().get_mut(jar) {
            jar.forget(&url, &name);
        }
        Ok(())
    });
    give!(ctx, host, "responseCookies", move |ctx: Ctx<'js>, head: String| -> Result<Object<'js>> {
        of_response(&ctx, &head)
    });
    Ok(())
}

/// The cookies that a response sets, as `res.cookies` has them.
fn of_response<'js>(ctx: &Ctx<'js>, head: &str) -> Result<Object<'js>> {
    let found = Object::new(ctx.clone())?;
    for line in head.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        if !name.eq_ignore_ascii_case("set-cookie") {
            continue;
        }
        let Some(cookie) = Cookie::parse(value) else { continue };
        let object = Object::new(ctx.clone())?;
        object.set("name", cookie.name.as_str())?;
        object.set("value", cookie.value.as_str())?;
        object.set("domain", cookie.domain.as_str())?;
        object.set("path", cookie.path.as_str())?;
        object.set("http_only", cookie.http_only)?;
        object.set("secure", cookie.secure)?;
        object.set("max_age", cookie.max_age.unwrap_or(0))?;
        let expires =
            crate::time::http_date(&cookie.expires).and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        object.set("expires", expires.map_or(0.0, |since| since.as_secs_f64() * 1000.0))?;
        let all = match found.get::<_, Option<Array<'js>>>(cookie.name.as_str())? {
            Some(all) => all,
            None => Array::new(ctx.clone())?,
        };
        all.set(all.len(), object)?;
        found.set(cookie.name.as_str(), all)?;
    }
    Ok(found)
}
