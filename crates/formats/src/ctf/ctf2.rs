//! CTF 2's metadata: JSON texts behind record separators (CTF2-SPEC-2.0, sections 4 and 5).
//!
//! Read by the specification's text; no writer's output was there to try it on.

use super::types::{EventClass, Integer, Label, Metadata, Order, Type};
use crate::ReadError;
use serde_json::Value;
use std::collections::HashMap;

const DEPTH_MAX: usize = 32;
const MEMBERS_MAX: usize = 1 << 20;
const RECORD_SEPARATOR: u8 = 0x1e;

/// Reads metadata.
pub(crate) fn metadata(bytes: &[u8]) -> Result<Metadata, ReadError> {
    let mut reader = Reader { metadata: Metadata::default(), aliases: HashMap::new(), at: 0, members: 0 };
    for fragment in bytes.split(|byte| *byte == RECORD_SEPARATOR) {
        if !fragment.trim_ascii().is_empty() {
            let value = serde_json::from_slice(fragment);
            let value: Value = value.map_err(|error| reader.wrong(format!("a fragment of the metadata: {error}")))?;
            reader.fragment(&value)?;
        }
        reader.at += fragment.len() as u64 + 1;
    }
    Ok(reader.metadata)
}

struct Reader {
    metadata: Metadata,
    aliases: HashMap<String, Type>,
    at: u64,
    members: usize,
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

fn number(value: &Value, key: &str) -> Option<u64> {
    value.get(key)?.as_u64()
}

/// The name of the field that another one's form depends on: the last of its path.
fn location(value: &Value, key: &str) -> Option<String> {
    let location = value.get(key)?;
    let path = location.get("path").unwrap_or(location);
    path.as_array()?.iter().rev().find_map(Value::as_str).map(str::to_owned)
}

fn has_role(class: &Value, role: &str) -> bool {
    class.get("roles").and_then(Value::as_array).is_some_and(|roles| roles.iter().any(|one| one == role))
}

/// A field that has a role, by the name that CTF 1.8 gives it.
fn name_by_role(class: &Value) -> Option<&'static str> {
    let names = [
        ("packet-magic-number", "magic"),
        ("data-stream-class-id", "stream_id"),
        ("event-record-class-id", "id"),
        ("packet-content-length", "content_size"),
        ("packet-total-length", "packet_size"),
        ("discarded-event-record-counter-snapshot", "events_discarded"),
        ("packet-end-default-clock-timestamp", "timestamp_end"),
        ("default-clock-timestamp", "timestamp_begin"),
    ];
    names.into_iter().find(|(role, _)| has_role(class, role)).map(|(_, name)| name)
}

impl Reader {
    fn wrong(&self, what: impl Into<String>) -> ReadError {
        ReadError::wrong(self.at, what)
    }

    fn missing(&self, what: &str) -> ReadError {
        self.wrong(format!("{what} is missing; is metadata a description of CTF 2?"))
    }

    fn fragment(&mut self, value: &Value) -> Result<(), ReadError> {
        let class = |reader: &mut Self, key: &str| value.get(key).map(|of| reader.class(of, 0)).transpose();
        match text(value, "type") {
            Some("preamble") if number(value, "version") != Some(2) => {
                return Err(self.wrong("its version is none of 1.8 and 2"));
            }
            Some("field-class-alias") => {
                let name = text(value, "name").ok_or_else(|| self.missing("an alias's name"))?.to_owned();
                let of = class(self, "field-class")?.ok_or_else(|| self.missing("an alias's class"))?;
                self.aliases.insert(name, of);
            }
            Some("trace-class") => {
                self.metadata.packet_header = class(self, "packet-header-field-class")?;
                let host = value.pointer("/environment/hostname").and_then(Value::as_str);
                self.metadata.host = host.map(str::to_owned);
            }
            Some("clock-class") if self.metadata.clock.is_none() => {
                let name = text(value, "name").or_else(|| text(value, "id")).unwrap_or("a clock without a name");
                self.metadata.clock = Some(name.to_owned());
                self.metadata.frequency_hz = number(value, "frequency").unwrap_or(1_000_000_000).max(1);
            }
            Some("data-stream-class") => {
                let packet = class(self, "packet-context-field-class")?;
                let header = class(self, "event-record-header-field-class")?;
                let context = class(self, "event-record-common-context-field-class")?;
                let stream = self.metadata.stream(number(value, "id").unwrap_or(0));
                (stream.packet_context, stream.event_header, stream.event_context) = (packet, header, context);
            }
            Some("event-record-class") => {
                let event = EventClass {
                    name: text(value, "name").unwrap_or_default().to_owned(),
                    context: class(self, "specific-context-field-class")?,
                    fields: class(self, "payload-field-class")?,
                };
                let stream = number(value, "data-stream-class-id").unwrap_or(0);
                self.metadata.stream(stream).events.insert(number(value, "id").unwrap_or(0), event);
            }
            _ => {}
        }
        Ok(())
    }

    fn class(&mut self, of: &Value, depth: usize) -> Result<Type, ReadError> {
        self.members += 1;
        if depth > DEPTH_MAX || self.members > MEMBERS_MAX {
            return Err(self.wrong("its field classes are too many or too deep"));
        }
        if let Some(alias) = of.as_str() {
            let known = self.aliases.get(alias).cloned();
            self.members += known.as_ref().map_or(0, Type::members);
            return known.ok_or_else(|| self.wrong(format!("no field class is called {alias:?}")));
        }
        let sort = text(of, "type").ok_or_else(|| self.missing("a field class's type"))?;
        match sort.strip_suffix("-enumeration").unwrap_or(sort) {
            "fixed-length-unsigned-integer" | "fixed-length-boolean" | "fixed-length-bit-array" => {
                self.integer(of, false)
            }
            "fixed-length-signed-integer" => self.integer(of, true),
            "fixed-length-floating-point-number" => self.float(of),
            "variable-length-unsigned-integer" => Ok(varint(of, false)),
            "variable-length-signed-integer" => Ok(varint(of, true)),
            "null-terminated-string" => Ok(Type::String),
            "static-length-string" => self.array(of, byte(true)),
            "dynamic-length-string" => self.sequence(of, byte(true)),
            "static-length-blob" => self.array(of, byte(false)),
            "dynamic-length-blob" => self.sequence(of, byte(false)),
            "static-length-array" => {
                let element = self.element(of, depth)?;
                self.array(of, element)
            }
            "dynamic-length-array" => {
                let element = self.element(of, depth)?;
                self.sequence(of, element)
            }
            "structure" => self.structure(of, depth),
            "optional" => {
                let inner = of.get("field-class").ok_or_else(|| self.missing("an optional field's class"))?;
                let selector = location(of, "selector-field-location");
                let selector = selector.ok_or_else(|| self.missing("an optional field's selector"))?;
                Ok(Type::Optional { of: Box::new(self.class(inner, depth + 1)?), selector })
            }
            "variant" => self.variant(of, depth),
            other => Err(self.wrong(format!("a field class of the type {other:?} is not read"))),
        }
    }

    fn integer(&self, of: &Value, is_signed: bool) -> Result<Type, ReadError> {
        let size = number(of, "length").filter(|size| (1..=64).contains(size));
        let size = size.ok_or_else(|| self.wrong("a number has no length of 1 to 64 bits"))? as u32;
        let integer = Integer {
            size,
            align: self.align(of, "alignment")?,
            is_signed,
            order: order(of),
            is_text: false,
            is_clock: has_role(of, "default-clock-timestamp"),
        };
        let labels = labels(of);
        Ok(if labels.is_empty() { Type::Integer(integer) } else { Type::Enum { of: integer, labels } })
    }

    fn float(&self, of: &Value) -> Result<Type, ReadError> {
        let size = number(of, "length").filter(|size| [32, 64].contains(size));
        let size = size.ok_or_else(|| self.wrong("a floating-point number has neither 32 nor 64 bits"))? as u32;
        Ok(Type::Float { size, align: self.align(of, "alignment")?, order: order(of) })
    }

    fn align(&self, of: &Value, key: &str) -> Result<u32, ReadError> {
        let align = number(of, key).unwrap_or(1);
        let known = u32::try_from(align).ok().filter(|align| align.is_power_of_two() && *align <= 4096);
        known.ok_or_else(|| self.wrong(format!("an alignment of {align} bits is no power of two")))
    }

    fn element(&mut self, of: &Value, depth: usize) -> Result<Type, ReadError> {
        let element = of.get("element-field-class").ok_or_else(|| self.missing("an array's element"))?;
        self.class(element, depth + 1)
    }

    fn array(&self, of: &Value, element: Type) -> Result<Type, ReadError> {
        let length = number(of, "length").ok_or_else(|| self.missing("an array's length"))?;
        Ok(Type::Array { of: Box::new(element), length })
    }

    fn sequence(&self, of: &Value, element: Type) -> Result<Type, ReadError> {
        let length = location(of, "length-field-location").ok_or_else(|| self.missing("an array's length"))?;
        Ok(Type::Sequence { of: Box::new(element), length })
    }

    fn structure(&mut self, of: &Value, depth: usize) -> Result<Type, ReadError> {
        let mut fields = Vec::new();
        for member in of.get("member-classes").and_then(Value::as_array).into_iter().flatten() {
            let class = member.get("field-class").ok_or_else(|| self.missing("a member's class"))?;
            let name = name_by_role(class).or_else(|| text(member, "name"));
            let name = name.ok_or_else(|| self.missing("a member's name"))?.to_owned();
            fields.push((name, self.class(class, depth + 1)?));
        }
        Ok(Type::Struct { align: self.align(of, "minimum-alignment")?, fields })
    }

    fn variant(&mut self, of: &Value, depth: usize) -> Result<Type, ReadError> {
        let selector = location(of, "selector-field-location").ok_or_else(|| self.missing("a variant's selector"))?;
        let mut options = Vec::new();
        for option in of.get("options").and_then(Value::as_array).into_iter().flatten() {
            let class = option.get("field-class").ok_or_else(|| self.missing("an option's class"))?;
            options.push((ranges(option.get("selector-field-ranges")), self.class(class, depth + 1)?));
        }
        Ok(Type::Choice { selector, options })
    }
}

fn order(of: &Value) -> Order {
    if text(of, "byte-order") == Some("big-endian") { Order::Big } else { Order::Little }
}

fn varint(of: &Value, is_signed: bool) -> Type {
    Type::Varint { is_signed, is_clock: has_role(of, "default-clock-timestamp"), labels: labels(of) }
}

fn byte(is_text: bool) -> Type {
    Type::Integer(Integer { size: 8, align: 8, is_signed: false, order: Order::Little, is_text, is_clock: false })
}

/// `{"label": [[from, to], …], …}`
fn labels(of: &Value) -> Vec<Label> {
    let mappings = of.get("mappings").and_then(Value::as_object).into_iter().flatten();
    let each = |(name, told): (&String, &Value)| {
        let all = ranges(Some(told)).into_iter();
        all.map(|(from, to)| Label { name: name.clone(), from, to }).collect::<Vec<_>>()
    };
    mappings.flat_map(each).collect()
}

/// `[[from, to], …]`
fn ranges(told: Option<&Value>) -> Vec<(i128, i128)> {
    let whole = |value: &Value| value.as_i64().map(i128::from).or(value.as_u64().map(i128::from));
    let pair = |value: &Value| Some((whole(value.get(0)?)?, whole(value.get(1)?)?));
    told.and_then(Value::as_array).into_iter().flatten().filter_map(pair).collect()
}
