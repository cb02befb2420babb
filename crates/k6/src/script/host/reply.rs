//! Responses of scripts: what they hold is made into values of JavaScript when it is asked for.

use super::giving::{give, thrown};
use super::request::{Asked, BodyAs};
use super::told::{code, reason, words_of};
use crate::script::state::State;
use rquickjs::class::{JsClass, Readable, Trace, Tracer};
use rquickjs::function::{Constructor, This};
use rquickjs::object::{Accessor, Property};
use rquickjs::{Array, ArrayBuffer, Class, Ctx, IntoJs as _, JsLifetime, Object, Result, Value};
use std::cell::RefCell;
use std::rc::Rc;
use weir_scenario::behaviour::Answer;

/// What a response takes beside its body and head, in bytes, about.
const RESPONSE_BYTES: usize = 600;

/// A response, as a value of a script. Its prototype is `Response.prototype` of `http.js`.
pub(super) struct Reply {
    state: Rc<State>,
    asked: Asked,
    answer: Answer,
    /// Until it is a value of the script.
    body: RefCell<Vec<u8>>,
    /// Bytes that count as the user's memory.
    kept_bytes: usize,
}

impl Drop for Reply {
    fn drop(&mut self) {
        let kept = &self.state.kept_bytes;
        kept.set(kept.get().saturating_sub(self.kept_bytes));
    }
}

impl<'js> Trace<'js> for Reply {
    fn trace(&self, _: Tracer<'_, 'js>) {}
}

// SAFETY: it holds no value of a runtime.
unsafe impl JsLifetime<'_> for Reply {
    type Changed<'to> = Reply;
}

impl<'js> JsClass<'js> for Reply {
    const NAME: &'static str = "Response";
    type Mutable = Readable;

    fn constructor(_: &Ctx<'js>) -> Result<Option<Constructor<'js>>> {
        Ok(None)
    }
}

impl Reply {
    /// A response as the script gets it.
    ///
    /// # Errors
    /// The user has no memory left for it.
    pub(super) fn give<'js>(
        ctx: &Ctx<'js>,
        state: &Rc<State>,
        prototype: &Object<'js>,
        (asked, mut answer): (Asked, Answer),
    ) -> Result<Value<'js>> {
        let body = match asked.body_as {
            BodyAs::Nothing => Vec::new(),
            BodyAs::Text | BodyAs::Binary => std::mem::take(&mut answer.body),
        };
        let kept_bytes = RESPONSE_BYTES + body.len() + asked.body.len() + answer.headers.lines().len();
        let bound = state.world.bounds.memory_bytes;
        if state.kept_bytes.get() + kept_bytes > bound {
            ctx.run_gc();
            if state.kept_bytes.get() + kept_bytes > bound {
                return Err(thrown(ctx, "out of memory: the responses that this user keeps are too large"));
            }
        }
        state.kept_bytes.set(state.kept_bytes.get() + kept_bytes);
        let reply = Self { state: state.clone(), asked, answer, body: RefCell::new(body), kept_bytes };
        Ok(Class::instance_proto(reply, prototype.clone())?.into_value())
    }

    fn body<'js>(&self, ctx: &Ctx<'js>) -> Result<Value<'js>> {
        let body = self.body.take();
        match self.asked.body_as {
            _ if !words_of(&self.answer).is_empty() => Ok(Value::new_null(ctx.clone())),
            BodyAs::Nothing => Ok(Value::new_null(ctx.clone())),
            BodyAs::Text => String::from_utf8_lossy(&body).into_js(ctx),
            BodyAs::Binary => Ok(ArrayBuffer::new(ctx.clone(), body)?.into_value()),
        }
    }

    /// What a response tells only when it is asked: see `Response` in `http.js`.
    fn facts<'js>(&self, ctx: &Ctx<'js>) -> Result<Array<'js>> {
        let (asked, answer) = (&self.asked, &self.answer);
        let facts = Array::new(ctx.clone())?;
        let times = answer.timings;
        let ns = [
            times.blocked_ns,
            0,
            times.connecting_ns,
            times.handshaking_ns,
            times.sending_ns,
            times.waiting_ns,
            times.receiving_ns,
        ];
        for (at, ns) in ns.into_iter().enumerate() {
            facts.set(at, ns as f64 / 1e6)?;
        }
        let status = answer.status();
        facts.set(7, if status == 0 { String::new() } else { format!("{status} {}", reason(status)) })?;
        facts.set(8, if status == 0 { "" } else { "HTTP/1.1" })?;
        facts.set(9, "")?;
        facts.set(10, 0)?;
        let request = Array::new(ctx.clone())?;
        let mut head = String::new();
        for (name, value) in &asked.headers {
            head.push_str(&format!("{name}: {value}\n"));
        }
        if !asked.cookie_line.is_empty() {
            head.push_str(&format!("Cookie: {}\n", asked.cookie_line));
        }
        request.set(0, asked.method.as_str())?;
        request.set(1, asked.url.to_string())?;
        request.set(2, head)?;
        request.set(3, String::from_utf8_lossy(&asked.body).into_js(ctx)?)?;
        facts.set(11, request)?;
        Ok(facts)
    }
}

/// A property of a response whose value is the script's own from now on.
fn own<'js>(this: &Object<'js>, name: &str, value: Value<'js>) -> Result<()> {
    this.prop(name, Property::from(value).writable().enumerable().configurable())
}

pub(super) fn install<'js>(ctx: &Ctx<'js>, host: &Object<'js>) -> Result<()> {
    give!(ctx, host, "responses", move |prototype: Object<'js>| -> Result<()> { properties(&prototype) });
    give!(ctx, host, "responseHead", move |reply: Class<'js, Reply>| -> String {
        reply.borrow().answer.headers.lines().to_owned()
    });
    give!(ctx, host, "responseFacts", move |ctx: Ctx<'js>, reply: Class<'js, Reply>| -> Result<Array<'js>> {
        reply.borrow().facts(&ctx)
    });
    Ok(())
}

/// What responses are asked most. Scripts may put values of their own in these places.
fn properties<'js>(prototype: &Object<'js>) -> Result<()> {
    macro_rules! property {
        ($name:literal, $get:expr) => {
            let set = |this: This<Object<'js>>, value: Value<'js>| own(&this.0, $name, value);
            prototype.prop($name, Accessor::new($get, set).enumerable().configurable())?
        };
    }
    property!("status", |this: This<Class<'js, Reply>>| this.0.borrow().answer.status());
    property!("url", |this: This<Class<'js, Reply>>| this.0.borrow().asked.url.to_string());
    property!("error", |this: This<Class<'js, Reply>>| words_of(&this.0.borrow().answer).to_owned());
    property!("error_code", |this: This<Class<'js, Reply>>| code(&this.0.borrow().answer));
    body(prototype)
}

fn body<'js>(prototype: &Object<'js>) -> Result<()> {
    let get = |ctx: Ctx<'js>, this: This<Class<'js, Reply>>| -> Result<Value<'js>> {
        let value = this.0.borrow().body(&ctx)?;
        own(this.0.as_inner(), "body", value.clone())?;
        Ok(value)
    };
    let set = |this: This<Object<'js>>, value: Value<'js>| own(&this.0, "body", value);
    prototype.prop("body", Accessor::new(get, set).enumerable().configurable())
}
