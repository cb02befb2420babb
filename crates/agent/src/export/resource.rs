//! The origin of a span or a metric in OpenTelemetry's terms: resources, attributes, the scope.

use super::protobuf::Writer;
use crate::transaction::Transaction;

/// The semantic conventions whose names are used.
pub(crate) const SCHEMA: &str = "https://opentelemetry.io/schemas/1.27.0";
/// A text is cut there.
const MOST_TEXT: usize = 4 << 10;

/// A text as far as it is sent, cut at a character's boundary.
pub(crate) fn cut(text: &str) -> &str {
    let mut end = text.len().min(MOST_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A `KeyValue` in `field` of a message: a text.
pub(crate) fn text(writer: &mut Writer, field: u32, key: &str, value: &str) {
    writer.message(field, |pair| {
        pair.text(1, key);
        pair.message(2, |any| any.whole(1, cut(value).as_bytes()));
    });
}

/// A `KeyValue`: a whole number.
pub(crate) fn integer(writer: &mut Writer, field: u32, key: &str, value: i64) {
    writer.message(field, |pair| {
        pair.text(1, key);
        pair.message(2, |any| any.int(3, value));
    });
}

/// A `KeyValue`: a number.
pub(crate) fn number(writer: &mut Writer, field: u32, key: &str, value: f64) {
    writer.message(field, |pair| {
        pair.text(1, key);
        pair.message(2, |any| any.double(4, value));
    });
}

/// A `KeyValue`: true or false.
pub(crate) fn truth(writer: &mut Writer, field: u32, key: &str, value: bool) {
    writer.message(field, |pair| {
        pair.text(1, key);
        pair.message(2, |any| any.bool(2, value));
    });
}

/// The scope of everything that is sent, as field 1 of a `ScopeSpans` or `ScopeMetrics`.
pub(crate) fn scope(writer: &mut Writer) {
    writer.message(1, |scope| {
        scope.text(1, "weir.arm");
        scope.text(2, env!("CARGO_PKG_VERSION"));
    });
}

/// The attributes of every resource.
fn sdk(resource: &mut Writer) {
    text(resource, 1, "telemetry.sdk.name", "weir");
    text(resource, 1, "telemetry.sdk.language", "rust");
    text(resource, 1, "telemetry.sdk.version", env!("CARGO_PKG_VERSION"));
}

/// The `Resource` of a transaction: the application's instance and the process that ran it.
pub(crate) fn of_transaction(transaction: &Transaction) -> Vec<u8> {
    let mut resource = Writer::default();
    let process = &transaction.process;
    text(&mut resource, 1, "service.name", &transaction.application);
    if let Some(group) = &transaction.group {
        text(&mut resource, 1, "service.namespace", group);
    }
    let instance = transaction.instance.clone();
    // Two processes of one instance are two instances of the service.
    let instance = instance.map_or_else(
        || format!("{}:{}", transaction.host, process.pid),
        |instance| format!("{instance}@{}:{}", transaction.host, process.pid),
    );
    text(&mut resource, 1, "service.instance.id", &instance);
    text(&mut resource, 1, "host.name", &transaction.host);
    integer(&mut resource, 1, "process.pid", i64::from(process.pid));
    text(&mut resource, 1, "process.executable.name", &process.command);
    sdk(&mut resource);
    resource.into_bytes()
}

/// The `Resource` of metrics of an application on a host.
pub(crate) fn of_application(application: &str, host: &str) -> Vec<u8> {
    let mut resource = Writer::default();
    text(&mut resource, 1, "service.name", application);
    text(&mut resource, 1, "host.name", host);
    // Without it receivers would take two agents' sums of one application for one series.
    text(&mut resource, 1, "service.instance.id", host);
    sdk(&mut resource);
    resource.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        let long = "ä".repeat(MOST_TEXT);
        assert_eq!(cut(&long).len(), MOST_TEXT);
        let odd = format!("a{long}");
        assert_eq!((cut(&odd).len(), cut("short")), (MOST_TEXT - 1, "short"));
    }
}
