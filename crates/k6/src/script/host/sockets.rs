//! `k6/ws` and `k6/websockets`: sockets are opened, and what happens to them is told.

use super::codec::bytes_of;
use super::giving::{give, thrown};
use super::request::{Asked, Given};
use crate::script::state::{State, Turn};
use rquickjs::{Array, ArrayBuffer, Ctx, IntoJs as _, Object, Result, Value};
use std::rc::Rc;
use std::time::Duration;
use weir_scenario::behaviour::{Answer, Ask, Counting, SocketEvent, SocketNews, SocketOpening, SocketOrder, Wants};

/// Longer waits are cut to this.
const WAIT_MAX_MS: f64 = 86_400_000.0 * 365.0;

pub(super) fn install<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let own = state.clone();
    give!(ctx, host, "socketOpen", move |ctx: Ctx<'js>,
                                         url: String,
                                         protocols: Vec<String>,
                                         options: Option<Object<'js>>,
                                         counts_frames: bool|
          -> Result<u32> {
        let counting = if counts_frames { Counting::Frames } else { Counting::Messages };
        let opening =
            SocketOpening { ask: asked_for(&ctx, &own, Address { url, counting }, options)?, protocols, counting };
        let socket = own.sockets.get();
        own.sockets.set(socket.wrapping_add(1));
        own.order(&ctx, SocketOrder::Open { socket, opening: Box::new(opening) })?;
        Ok(socket)
    });
    let own = state.clone();
    give!(ctx, host, "socketSend", move |ctx: Ctx<'js>, socket: u32, message: Value<'js>| -> Result<u32> {
        let is_binary = !message.is_string();
        let content = bytes_of(&message)?;
        let wrong = || thrown(&ctx, format!("a text or an ArrayBuffer is sent, and not {}", message.type_name()));
        let content = content.ok_or_else(wrong)?;
        let length = content.len() as u32;
        own.order(&ctx, SocketOrder::Send { socket, is_binary, content })?;
        Ok(length)
    });
    let own = state.clone();
    give!(ctx, host, "socketPing", move |ctx: Ctx<'js>, socket: u32, content: String| -> Result<()> {
        own.order(&ctx, SocketOrder::Ping { socket, content: content.into_bytes() })
    });
    let own = state.clone();
    give!(ctx, host, "socketClose", move |ctx: Ctx<'js>, socket: u32, code: u16, reason: String| -> Result<()> {
        own.order(&ctx, SocketOrder::Close { socket, code, reason })
    });
    let own = state.clone();
    give!(ctx, host, "listen", move |ctx: Ctx<'js>, milliseconds: f64| -> Result<Value<'js>> {
        let time = (milliseconds >= 0.0).then(|| Duration::from_secs_f64(milliseconds.min(WAIT_MAX_MS) / 1000.0));
        match own.wait(&ctx, Wants::Listen(time))? {
            Turn::Heard(events) => {
                let all = Array::new(ctx.clone())?;
                for (at, event) in events.into_iter().enumerate() {
                    all.set(at, told(&ctx, event)?)?;
                }
                Ok(all.into_value())
            }
            _ => Ok(Value::new_undefined(ctx)),
        }
    });
    Ok(())
}

/// Where a socket is opened, and for which of the modules.
struct Address {
    url: String,
    counting: Counting,
}

/// How a socket is asked for: as a request of the same options.
fn asked_for<'js>(ctx: &Ctx<'js>, state: &State, to: Address, options: Option<Object<'js>>) -> Result<Ask> {
    let url = to.url;
    let scheme = |own: &str| url.get(..own.len()).filter(|scheme| scheme.eq_ignore_ascii_case(own));
    let http = match (scheme("ws://"), scheme("wss://")) {
        (Some(_), _) => format!("http{}", &url[2..]),
        (_, Some(_)) => format!("https{}", &url[3..]),
        (None, None) => {
            return Err(thrown(ctx, format!("WebSocket requires url with scheme ws or wss, but got {url:?}")));
        }
    };
    let given = Given { method: "GET".to_owned(), url: http, name: None, body: None, options };
    let mut asked = Asked::read(ctx, state, given)?;
    let name = match to.counting {
        Counting::Messages => url,
        // Here the name stands for the address, as of a request.
        Counting::Frames => asked.name.get_or_insert(url).clone(),
    };
    asked.tags.push(("url".to_owned(), name));
    Ok(asked.ask(state))
}

/// An event as the modules take it: the socket's number, what happened, and what belongs to that.
fn told<'js>(ctx: &Ctx<'js>, event: SocketEvent) -> Result<Array<'js>> {
    let array = Array::new(ctx.clone())?;
    array.set(0, event.socket)?;
    match event.news {
        SocketNews::Opened { answer, protocol } => {
            array.set(1, "open")?;
            array.set(2, protocol.unwrap_or_default())?;
            set_answer(&array, 3, &answer)?;
        }
        SocketNews::NotOpened { answer, words } => {
            array.set(1, "fail")?;
            array.set(2, words)?;
            if let Some(answer) = answer {
                set_answer(&array, 3, &answer)?;
            }
        }
        SocketNews::Message { is_binary, content } => {
            array.set(1, "message")?;
            array.set(
                2,
                match is_binary {
                    true => ArrayBuffer::new(ctx.clone(), content)?.into_value(),
                    false => String::from_utf8_lossy(&content).into_js(ctx)?,
                },
            )?;
        }
        SocketNews::Ping => array.set(1, "ping")?,
        SocketNews::Pong => array.set(1, "pong")?,
        SocketNews::Closed { code, reason, wrong } => {
            array.set(1, "close")?;
            array.set(2, code)?;
            array.set(3, reason)?;
            array.set(4, wrong)?;
        }
    }
    Ok(array)
}

/// Status, lines of the head and body.
fn set_answer(array: &Array<'_>, at: usize, answer: &Answer) -> Result<()> {
    array.set(at, answer.status())?;
    array.set(at + 1, answer.headers.lines())?;
    array.set(at + 2, String::from_utf8_lossy(&answer.body).into_owned())
}
