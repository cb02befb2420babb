//! Messages of etcd's gateway: Protocol Buffers as JSON, with bytes in base64 and numbers of 64 bits as texts.

use crate::engine::{Entry, Transaction, Write};
use crate::keys;
use crate::watch::Change;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Codes of gRPC that mean that another try, or another member, may do.
const TRY_AGAIN: [u64; 5] = [1, 2, 4, 10, 14];
/// gRPC: what was named does not exist.
const NOT_FOUND: u64 = 5;
/// gRPC: an argument is wrong.
const INVALID: u64 = 3;
/// gRPC: a bound is reached.
const EXHAUSTED: u64 = 8;
/// gRPC: behind the range, such as a revision that is compacted.
const OUT_OF_RANGE: u64 = 11;

/// What a refusal of etcd means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Another try, or another member, may do.
    Passing(String),
    /// There is no room in its database.
    Full(String),
    /// A key or a lease is not there.
    NotFound(String),
    /// A revision is compacted.
    Compacted,
    /// It does not do this at all.
    Denied(String),
}

/// Names keys below the prefix of the cluster.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) prefix: String,
}

impl Names {
    pub(super) fn key(&self, key: &str) -> String {
        STANDARD.encode([self.prefix.as_bytes(), key.as_bytes()].concat())
    }

    /// The end of all keys with a prefix; without an end, etcd takes a zero byte for one.
    pub(super) fn end(&self, prefix: &str) -> String {
        let end = keys::end_of(&format!("{}{prefix}", self.prefix));
        STANDARD.encode(end.unwrap_or_else(|| vec![0]))
    }

    /// A key of an answer, without the prefix of the cluster.
    fn bare(&self, value: &Value) -> Option<String> {
        let key = String::from_utf8(bytes(value, "key")).ok()?;
        key.strip_prefix(&self.prefix).map(str::to_owned)
    }

    pub(super) fn transaction(&self, transaction: &Transaction) -> Value {
        let compare = transaction.compares.iter().map(|compare| {
            json!({
                "key": self.key(&compare.key), "target": "MOD", "result": "EQUAL",
                "mod_revision": compare.revision.to_string(),
            })
        });
        let success = transaction.writes.iter().map(|write| match write {
            Write::Put { key, value, lease } => json!({ "request_put": {
                "key": self.key(key), "value": STANDARD.encode(value), "lease": lease.to_string(),
            } }),
            // The value as it is, without a lease.
            Write::Keep { key } => json!({ "request_put": { "key": self.key(key), "ignore_value": true } }),
            Write::Delete { key } => json!({ "request_delete_range": { "key": self.key(key) } }),
            Write::DeletePrefix { prefix } => json!({ "request_delete_range": {
                "key": self.key(prefix), "range_end": self.end(prefix),
            } }),
        });
        json!({ "compare": compare.collect::<Vec<_>>(), "success": success.collect::<Vec<_>>() })
    }

    /// The entries of an answer to a range.
    pub(super) fn entries(&self, answer: &Value) -> Vec<Entry> {
        let entry = |value: &Value| {
            Some(Entry {
                key: self.bare(value)?,
                value: bytes(value, "value"),
                revision: number(value, "mod_revision"),
                lease: number(value, "lease"),
            })
        };
        list(answer, "kvs").filter_map(entry).collect()
    }

    /// The changes of a message of a watch.
    pub(super) fn changes(&self, message: &Value) -> Vec<Change> {
        let change = |event: &Value| {
            let entry = event.get("kv")?;
            let is_gone = event.get("type").and_then(Value::as_str) == Some("DELETE");
            Some(Change { key: self.bare(entry)?, revision: number(entry, "mod_revision"), is_gone })
        };
        list(message, "events").filter_map(change).collect()
    }
}

/// A number, as a text or as itself; 0 where it is missing, as the gateway leaves zeros out.
pub(super) fn number(value: &Value, name: &str) -> u64 {
    let Some(found) = value.get(name) else { return 0 };
    // Identifiers of leases have 63 bits; those of members have 64, as texts without a sign.
    found.as_u64().or_else(|| found.as_str()?.parse().ok()).unwrap_or(0)
}

/// The revision of the whole store that an answer is as of.
pub(super) fn revision(answer: &Value) -> u64 {
    answer.get("header").map_or(0, |header| number(header, "revision"))
}

pub(super) fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn bytes(value: &Value, name: &str) -> Vec<u8> {
    let text = value.get(name).and_then(Value::as_str).unwrap_or_default();
    STANDARD.decode(text).unwrap_or_default()
}

/// The refusal in an answer: of one call, or within a stream.
pub(super) fn refusal(answer: &Map<String, Value>) -> Option<Refusal> {
    let (code, why) = match answer.get("error")? {
        Value::Object(error) => {
            let error = Value::Object(error.clone());
            let why = error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
            (number(&error, "grpc_code").max(number(&error, "code")), why)
        }
        error => {
            let code = answer.get("code").and_then(Value::as_u64).unwrap_or(0);
            (code, error.as_str().unwrap_or_default().to_owned())
        }
    };
    Some(match code {
        EXHAUSTED if why.contains("database space") => Refusal::Full(why),
        EXHAUSTED => Refusal::Passing(why),
        NOT_FOUND => Refusal::NotFound(why),
        INVALID if why.contains("key not found") => Refusal::NotFound(why),
        OUT_OF_RANGE => Refusal::Compacted,
        code if TRY_AGAIN.contains(&code) => Refusal::Passing(why),
        _ => Refusal::Denied(why),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Option<Refusal> {
        let Ok(Value::Object(answer)) = serde_json::from_str(text) else { panic!("{text}") };
        refusal(&answer)
    }

    #[test]
    fn refusals_are_told_apart() {
        assert_eq!(refused(r#"{"header":{}}"#), None);
        let full = r#"{"error":"etcdserver: mvcc: database space exceeded","message":"x","code":8}"#;
        assert!(matches!(refused(full), Some(Refusal::Full(_))));
        let passing = r#"{"error":"etcdserver: request timed out","code":14}"#;
        assert!(matches!(refused(passing), Some(Refusal::Passing(_))));
        let stream = r#"{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}}"#;
        assert_eq!(refused(stream), Some(Refusal::Passing("etcdserver: no leader".to_owned())));
        let absent = r#"{"error":"etcdserver: key not found","code":3}"#;
        assert!(matches!(refused(absent), Some(Refusal::NotFound(_))));
        assert!(matches!(refused(r#"{"error":"etcdserver: permission denied","code":7}"#), Some(Refusal::Denied(_))));
    }

    #[test]
    fn keys_of_others_are_left_out() {
        let names = Names { prefix: "weir/".to_owned() };
        let entry = |key: &str| json!({ "key": STANDARD.encode(key), "mod_revision": "7", "lease": 5 });
        let answer = json!({ "kvs": [entry("weir/sites/a"), entry("other/sites/b"), {}] });
        let entries = names.entries(&answer);
        assert_eq!(entries.len(), 1);
        assert_eq!((entries[0].key.as_str(), entries[0].revision, entries[0].lease), ("sites/a", 7, 5));
    }
}
