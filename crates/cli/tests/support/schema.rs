//! Outputs held against the schemas that docs/reference/schemas publishes.

use serde_json::Value;
use std::path::Path;

/// Fails unless a value is as its schema says, and has no field that the schema does not describe. Readers must put up
/// with fields that are new; the project's own tests do not, so that the schemas keep up.
pub(crate) fn conforms(name: &str, value: &Value) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/reference/schemas/{name}.json"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut schema: Value = serde_json::from_str(&text).expect("a schema is JSON");
    close(&mut schema);
    let validator = jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{name} is no schema: {error}"));
    let differs: Vec<String> =
        validator.iter_errors(value).take(5).map(|error| format!("{}: {error}", error.instance_path())).collect();
    let cut: String = differs.join("\n").chars().take(4000).collect();
    assert!(differs.is_empty(), "not as {name} says, or not described by it:\n{cut}");
}

/// The same for the schema that a value itself names, as in `"schema": "weir-load/1"`.
pub(crate) fn conforms_to_its_own(value: &Value) {
    let said = value["schema"].as_str().unwrap_or_else(|| panic!("no schema is named by {value:#}"));
    let name = said.strip_prefix("weir-").unwrap_or_else(|| panic!("{said} is no name of a schema"));
    conforms(&name.replace('/', "-"), value);
}

/// Forbids fields that are not described.
fn close(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    if fields.contains_key("properties") && !fields.contains_key("additionalProperties") {
        fields.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    for (key, inner) in fields.iter_mut() {
        match (key.as_str(), inner) {
            ("properties" | "$defs", Value::Object(named)) => named.values_mut().for_each(close),
            ("items" | "additionalProperties", inner) => close(inner),
            ("prefixItems" | "anyOf" | "oneOf", Value::Array(several)) => several.iter_mut().for_each(close),
            _ => {}
        }
    }
}
