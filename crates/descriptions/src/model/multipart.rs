//! Bodies of forms: `multipart/form-data` (RFC 7578) and `application/x-www-form-urlencoded`.

use crate::model::text::Text;
use weir_scenario::form::encode as encoded;

/// A field of a form.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) value: Text,
    /// Of a file, its name.
    pub(crate) file: Option<String>,
    pub(crate) content_type: Option<String>,
}

/// The body of a form in several parts, and its type with the boundary.
pub(crate) fn multipart(fields: &[Field]) -> (Text, String) {
    let mut boundary = "weir-form-7578".to_owned();
    let holds = |boundary: &str| {
        fields.iter().any(|field| field.value.template().contains(boundary) || field.name.contains(boundary))
    };
    while holds(&boundary) {
        boundary.push('0');
    }
    let mut body = Text::default();
    for field in fields {
        let name = in_quotes(&field.name);
        body.push(&format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\""));
        if let Some(file) = &field.file {
            body.push(&format!("; filename=\"{}\"", in_quotes(file)));
        }
        let default = field.file.as_ref().map(|file| type_of(file).to_owned());
        if let Some(content_type) = field.content_type.as_ref().or(default.as_ref()) {
            body.push(&format!("\r\nContent-Type: {content_type}"));
        }
        body.push("\r\n\r\n");
        body.append(&field.value);
        body.push("\r\n");
    }
    body.push(&format!("--{boundary}--\r\n"));
    (body, format!("multipart/form-data; boundary={boundary}"))
}

/// The body of a form whose fields stand in one line.
pub(crate) fn urlencoded(fields: &[Field]) -> Text {
    let mut body = Text::default();
    for (place, field) in fields.iter().enumerate() {
        body.push(if place > 0 { "&" } else { "" });
        body.push(&format!("{}=", encoded(&field.name)));
        body.append(&field.value.changed(encoded, true));
    }
    body
}

/// As the HTML standard escapes a name in a header of a part.
fn in_quotes(text: &str) -> String {
    text.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

/// The type of a file by the end of its name, as curl guesses it.
fn type_of(file: &str) -> &'static str {
    let end = file.rsplit_once('.').map_or("", |(_, end)| end).to_ascii_lowercase();
    match end.as_str() {
        "gif" => "image/gif",
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" => "text/plain",
        "htm" | "html" => "text/html",
        "pdf" => "application/pdf",
        "xml" => "application/xml",
        _ => "application/octet-stream",
    }
}
