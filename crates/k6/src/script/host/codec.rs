//! Bytes, base64, and hashes.

use super::giving::{give, thrown};
use crate::hash::{hash, hex, hmac};
use crate::script::state::State;
use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use rquickjs::{ArrayBuffer, Ctx, Object, Result, Value};
use std::rc::Rc;

/// The most random bytes at a time.
const RANDOM_MAX: f64 = 1048576.0;

/// The bytes of a text, an ArrayBuffer, a view of one, or an array of numbers; None of anything else.
pub(crate) fn bytes_of(value: &Value<'_>) -> Result<Option<Vec<u8>>> {
    if let Some(text) = value.as_string() {
        return Ok(Some(text.to_string()?.into_bytes()));
    }
    let Some(object) = value.as_object() else { return Ok(None) };
    if let Some(buffer) = ArrayBuffer::from_object(object.clone()) {
        return Ok(Some(buffer.as_bytes().map(<[u8]>::to_vec).unwrap_or_default()));
    }
    if let Ok(buffer) = object.get::<_, ArrayBuffer<'_>>("buffer") {
        let (from, length) = (object.get::<_, usize>("byteOffset")?, object.get::<_, usize>("byteLength")?);
        let bytes = buffer.as_bytes().unwrap_or_default();
        return Ok(Some(bytes.get(from..from + length).unwrap_or_default().to_vec()));
    }
    if let Some(array) = object.as_array() {
        return Ok(array.iter::<u8>().collect::<Result<Vec<u8>>>().ok());
    }
    Ok(None)
}

fn needed(ctx: &Ctx<'_>, value: &Value<'_>) -> Result<Vec<u8>> {
    bytes_of(value)?
        .ok_or_else(|| thrown(ctx, format!("a text or an ArrayBuffer is needed, and not {}", value.type_name())))
}

fn base64_of(name: &str) -> Option<&'static GeneralPurpose> {
    Some(match name {
        "std" => &STANDARD,
        "rawstd" => &STANDARD_NO_PAD,
        "url" => &URL_SAFE,
        "rawurl" => &URL_SAFE_NO_PAD,
        _ => return None,
    })
}

pub(super) fn texts<'js>(ctx: &Ctx<'js>, host: &Object<'js>, _: &Rc<State>) -> Result<()> {
    let unknown =
        |ctx: &Ctx<'_>, name: &str| thrown(ctx, format!("base64: {name:?} is none of std, rawstd, url, rawurl"));
    give!(ctx, host, "b64encode", move |ctx: Ctx<'js>, value: Value<'js>, name: String| -> Result<String> {
        let engine = base64_of(&name).ok_or_else(|| unknown(&ctx, &name))?;
        Ok(engine.encode(needed(&ctx, &value)?))
    });
    give!(ctx, host, "b64decode", move |ctx: Ctx<'js>, text: String, name: String| -> Result<ArrayBuffer<'js>> {
        let engine = base64_of(&name).ok_or_else(|| unknown(&ctx, &name))?;
        let decoded = engine.decode(text.trim()).map_err(|wrong| thrown(&ctx, format!("base64: {wrong}")))?;
        ArrayBuffer::new(ctx, decoded)
    });
    give!(ctx, host, "text", move |ctx: Ctx<'js>, value: Value<'js>| -> Result<String> {
        Ok(String::from_utf8_lossy(&needed(&ctx, &value)?).into_owned())
    });
    give!(ctx, host, "bytes", move |ctx: Ctx<'js>, value: Value<'js>| -> Result<ArrayBuffer<'js>> {
        let bytes = needed(&ctx, &value)?;
        ArrayBuffer::new(ctx, bytes)
    });
    give!(ctx, host, "joined", move |ctx: Ctx<'js>, parts: Vec<Value<'js>>| -> Result<ArrayBuffer<'js>> {
        let mut all = Vec::new();
        for part in &parts {
            all.extend(needed(&ctx, part)?);
        }
        ArrayBuffer::new(ctx, all)
    });
    Ok(())
}

pub(super) fn hashes<'js>(ctx: &Ctx<'js>, host: &Object<'js>, _: &Rc<State>) -> Result<()> {
    let unknown = |ctx: &Ctx<'_>, name: &str| thrown(ctx, format!("crypto: {name:?} is no hash that is known"));
    give!(ctx, host, "hash", move |ctx: Ctx<'js>, name: String, value: Value<'js>| -> Result<ArrayBuffer<'js>> {
        let made = hash(&name, &needed(&ctx, &value)?).ok_or_else(|| unknown(&ctx, &name))?;
        ArrayBuffer::new(ctx, made)
    });
    give!(ctx, host, "hmac", move |ctx: Ctx<'js>,
                                   name: String,
                                   key: Value<'js>,
                                   value: Value<'js>|
          -> Result<ArrayBuffer<'js>> {
        let made = hmac(&name, &needed(&ctx, &key)?, &needed(&ctx, &value)?);
        let made = made.ok_or_else(|| unknown(&ctx, &name))?;
        ArrayBuffer::new(ctx, made)
    });
    give!(ctx, host, "digestAs", move |ctx: Ctx<'js>, value: Value<'js>, format: String| -> Result<Value<'js>> {
        let bytes = needed(&ctx, &value)?;
        let text = match format.as_str() {
            "hex" => hex(&bytes),
            "base64" => STANDARD.encode(&bytes),
            "base64url" => URL_SAFE.encode(&bytes),
            "base64rawurl" => URL_SAFE_NO_PAD.encode(&bytes),
            "binary" => return Ok(ArrayBuffer::new(ctx, bytes)?.into_value()),
            other => {
                let words = format!("{other:?} is no output encoding: hex, base64, base64url, base64rawurl, binary");
                return Err(thrown(&ctx, words));
            }
        };
        Ok(rquickjs::String::from_str(ctx, &text)?.into_value())
    });
    give!(ctx, host, "randomBytes", move |ctx: Ctx<'js>, size: f64| -> Result<ArrayBuffer<'js>> {
        if !(1.0..=RANDOM_MAX).contains(&size) {
            return Err(thrown(&ctx, format!("randomBytes: the size is from 1 to {RANDOM_MAX}")));
        }
        let mut bytes = vec![0; size as usize];
        let random = ring::rand::SystemRandom::new();
        ring::rand::SecureRandom::fill(&random, &mut bytes)
            .map_err(|_| thrown(&ctx, "randomBytes: the system gives none"))?;
        ArrayBuffer::new(ctx, bytes)
    });
    give!(ctx, host, "boundary", move || {
        let mut random = fastrand::Rng::new();
        (0..4).map(|_| format!("{:015x}", random.u64(..) >> 4)).collect::<String>()
    });
    Ok(())
}
