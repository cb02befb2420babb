//! What a request carried: HAR tells it as text or as the parameters of a form, and tools leave parts of both out.

use super::value::{size, text};
use crate::content::from_base64;
use crate::content::parts::{Part, multipart};
use crate::recording::{Body, header};
use serde_json::Value;

/// A text that is said to be base64 and is none.
pub(super) struct NotBase64;

/// The bytes of `text`, which may be base64.
pub(super) fn bytes(of: &Value) -> Result<Option<Vec<u8>>, NotBase64> {
    let Some(content) = text(&of["text"]) else { return Ok(None) };
    match text(&of["encoding"]).or_else(|| text(&of["_encoding"])) {
        Some(encoding) if encoding.eq_ignore_ascii_case("base64") => from_base64(&content).map(Some).ok_or(NotBase64),
        _ => Ok(Some(content.into_bytes())),
    }
}

/// The body of a request; one without bytes is told by its size, so that it is not asked without.
pub(super) fn body(request: &Value, headers: &[(String, String)]) -> Option<Body> {
    let announced = header(headers, "content-length").and_then(|length| length.trim().parse::<u64>().ok());
    let told = size(&request["bodySize"]).unwrap_or(0).max(announced.unwrap_or(0));
    let data = &request["postData"];
    let own = header(headers, "content-type").unwrap_or_default();
    if let Value::String(content) = data {
        let bytes = content.clone().into_bytes();
        return Some(Body { kind: own.to_owned(), size: bytes.len() as u64, bytes: Some(bytes), note: None });
    }
    if !data.is_object() {
        return (told > 0).then(|| Body { kind: own.to_owned(), size: told, bytes: None, note: None });
    }
    // The field is what was sent; some tools shorten it in mimeType.
    let kind = if own.is_empty() { text(&data["mimeType"]).unwrap_or_default() } else { own.to_owned() };
    let note = text(&data["comment"]);
    let params = params(&data["params"]);
    match bytes(data) {
        Ok(Some(bytes)) if !bytes.is_empty() || params.is_empty() => {
            // Browsers leave the content of uploaded files out of the text.
            let is_cut = media_type(&kind) == MULTIPART && announced.is_some_and(|length| length > bytes.len() as u64);
            let size = if is_cut { told } else { bytes.len() as u64 };
            Some(Body { kind, size, bytes: (!is_cut).then_some(bytes), note })
        }
        Err(NotBase64) => Some(Body { kind, size: told.max(1), bytes: None, note }),
        Ok(_) if params.is_empty() => Some(Body { kind, size: told, bytes: None, note }),
        Ok(_) => Some(form(kind, params, told, note)),
    }
}

const MULTIPART: &str = "multipart/form-data";
const URL_ENCODED: &str = "application/x-www-form-urlencoded";

fn media_type(kind: &str) -> String {
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The parameters of a form; some tools write an object of names and values.
fn params(value: &Value) -> Vec<Param> {
    let param = |value: &Value| {
        Some(Param {
            name: text(&value["name"])?,
            value: text(&value["value"]),
            file: text(&value["fileName"]),
            kind: text(&value["contentType"]),
        })
    };
    match value {
        Value::Array(list) => list.iter().filter_map(param).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(name, value)| Param { name: name.clone(), value: text(value), file: None, kind: None })
            .collect(),
        _ => Vec::new(),
    }
}

struct Param {
    name: String,
    value: Option<String>,
    file: Option<String>,
    kind: Option<String>,
}

/// The body of a form of which only the parameters are known, in the form that its content type announces.
fn form(kind: String, params: Vec<Param>, told: u64, note: Option<String>) -> Body {
    let unknown = |kind: String| Body { kind, size: told.max(1), bytes: None, note: note.clone() };
    match media_type(&kind).as_str() {
        MULTIPART => {
            // A file whose content was not recorded cannot be sent again.
            if params.iter().any(|param| param.value.is_none() && param.file.is_some()) {
                return unknown(kind);
            }
            let part = |param: Param| Part {
                name: param.name,
                file: param.file,
                kind: param.kind,
                content: param.value.unwrap_or_default().into_bytes(),
            };
            let parts: Vec<Part> = params.into_iter().map(part).collect();
            let (kind, bytes) = multipart(&parts, boundary(&kind).as_deref());
            Body { kind, size: bytes.len() as u64, bytes: Some(bytes), note }
        }
        URL_ENCODED | "" => {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            for param in &params {
                // A form of this kind sends the name of a file in the place of its content.
                form.append_pair(&param.name, param.value.as_ref().or(param.file.as_ref()).map_or("", String::as_str));
            }
            let bytes = form.finish().into_bytes();
            let kind = if kind.is_empty() { URL_ENCODED.to_owned() } else { kind };
            Body { kind, size: bytes.len() as u64, bytes: Some(bytes), note }
        }
        // Parameters do not say how another type writes them.
        _ => unknown(kind),
    }
}

/// The boundary that a content type announces.
fn boundary(kind: &str) -> Option<String> {
    let parameter = kind.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"').to_owned())
    });
    parameter.filter(|boundary| !boundary.is_empty())
}
