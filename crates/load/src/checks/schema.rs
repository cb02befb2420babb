//! JSON schemas that bodies are held against: JSON Schema of drafts 4, 6, 7, 2019-09 and 2020-12.

use crate::checks::error::CheckError;
use jsonschema::{Retrieve, Uri, ValidationError, Validator};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use serde_json::Value;
use std::error::Error;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most of a schema's file that is read, in bytes.
const SCHEMA_BYTES_MAX: u64 = 4 << 20;
/// What stands escaped in a path of a file URI (RFC 3986 3.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A schema that is ready to be used.
#[derive(Debug, Clone)]
pub(crate) struct Schema(Arc<Validator>);

impl Schema {
    /// Reads a schema from a file; what it refers to by `$ref` is read from files beside it.
    ///
    /// # Errors
    /// If the file cannot be read, is larger than 4 MiB, or holds no JSON or no schema.
    pub(crate) fn read(file: &Path) -> Result<Self, CheckError> {
        let unread = |cause| CheckError::SchemaFile { file: file.to_owned(), cause };
        let path = std::path::absolute(file).map_err(unread)?;
        let address = percent_encode(path.as_os_str().as_encoded_bytes(), ESCAPED);
        let validator = jsonschema::options()
            .with_base_uri(format!("file://{address}"))
            .with_retriever(Beside)
            .build(&json(file)?)
            .map_err(|error| no_schema(file.to_owned(), &error))?;
        Ok(Self(Arc::new(validator)))
    }

    /// The first thing by which a value differs from the schema, in words; `None` if it is as the schema asks.
    pub(crate) fn failure(&self, value: &Value) -> Option<String> {
        let error = self.0.validate(value).err()?;
        let place = error.instance_path().as_str();
        Some(if place.is_empty() { error.to_string() } else { format!("{place}: {error}") })
    }
}

fn no_schema(file: PathBuf, error: &ValidationError<'_>) -> CheckError {
    CheckError::Schema { file, place: error.instance_path().as_str().to_owned(), cause: error.to_string() }
}

/// The JSON value in a file.
fn json(file: &Path) -> Result<Value, CheckError> {
    let mut text = Vec::new();
    File::open(file)
        .and_then(|open| open.take(SCHEMA_BYTES_MAX + 1).read_to_end(&mut text))
        .map_err(|cause| CheckError::SchemaFile { file: file.to_owned(), cause })?;
    if text.len() as u64 > SCHEMA_BYTES_MAX {
        return Err(CheckError::LongSchema { file: file.to_owned(), bytes_max: SCHEMA_BYTES_MAX });
    }
    serde_json::from_slice(&text).map_err(|cause| CheckError::SchemaJson {
        file: file.to_owned(),
        line: cause.line(),
        cause,
    })
}

/// Reads schemas that others name: from files only.
struct Beside;

/// A schema stands elsewhere than in a file.
#[derive(Debug, thiserror::Error)]
#[error("schemas are read from files only: write it into one beside, and name that")]
struct Elsewhere;

impl Retrieve for Beside {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn Error + Send + Sync>> {
        if uri.scheme().as_str() != "file" {
            return Err(Elsewhere.into());
        }
        // RFC 8089: the path of a file's address is its name.
        let name: Vec<u8> = percent_decode_str(uri.path().as_str()).collect();
        Ok(json(Path::new(OsStr::from_bytes(&name)))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;

    const CART: &str = r#"{
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"type": "integer", "minimum": 1}, "items": {"items": {"$ref": "item%20of.json"}}}
    }"#;

    #[test]
    fn the_first_difference_is_told_with_its_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("cart schema.json");
        fs::write(&file, CART).expect("written");
        fs::write(folder.path().join("item of.json"), r#"{"type": "string"}"#).expect("written");
        let schema = Schema::read(&file).expect("a schema");
        for (value, words) in [
            (json!({"id": 7, "items": ["a"]}), None),
            (json!({"id": 7, "items": ["a", 4]}), Some("/items/1: 4 is not of type \"string\"")),
            (json!({"id": 0}), Some("/id: 0 is less than the minimum of 1")),
            (json!({}), Some("\"id\" is a required property")),
            (json!([]), Some("[] is not of type \"object\"")),
        ] {
            assert_eq!(schema.failure(&value).as_deref(), words, "{value}");
        }
    }

    #[test]
    fn what_is_no_schema_is_told_with_file_line_and_remedy() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("cart.json");
        let long = " ".repeat(SCHEMA_BYTES_MAX as usize + 1);
        for (text, words) in [
            ("{\n\"type\": strin}", "cart.json, line 2: no JSON"),
            (r#"{"properties": {"id": {"type": "strin"}}}"#, "/properties/id/type"),
            (r#"{"$ref": "none.json"}"#, "cannot read the schema"),
            (r#"{"$ref": "http://127.0.0.1/a.json"}"#, "read from files only"),
            (r#"{"pattern": "("}"#, "/pattern"),
            (&long, "at most 4194304 bytes"),
        ] {
            fs::write(&file, text).expect("written");
            let told = Schema::read(&file).expect_err("no schema").to_string();
            assert!(told.contains(words), "{told}");
        }
        let told = Schema::read(&folder.path().join("missing.json")).expect_err("no file").to_string();
        assert!(told.contains("missing.json"), "{told}");
    }
}
