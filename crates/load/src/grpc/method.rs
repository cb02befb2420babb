//! A method, and its messages as bytes.

use crate::grpc::error::GrpcError;
use crate::grpc::kind::CallKind;
use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, MethodDescriptor};
use serde::Deserializer;
use serde::de::{DeserializeSeed, SeqAccess, Visitor};
use std::fmt;

/// The most bytes of all messages of a call together.
pub(crate) const MESSAGES_BYTES_MAX: usize = 256 << 20;
/// So many fields of a message are told.
const FIELDS_TOLD: usize = 30;

/// A method of a service.
#[derive(Debug, Clone)]
pub struct Method(MethodDescriptor);

impl Method {
    pub(crate) fn new(method: MethodDescriptor) -> Self {
        Self(method)
    }

    /// The path by which it is called: `/package.Service/Method`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/{}/{}", self.0.parent_service().full_name(), self.0.name())
    }

    /// Which sides of a call send several messages.
    #[must_use]
    pub fn kind(&self) -> CallKind {
        CallKind::of(self.0.is_client_streaming(), self.0.is_server_streaming())
    }

    /// Adds the messages that a text of JSON says: one, an array of them, or one behind the other (NDJSON); `place` is
    /// where the text stands.
    ///
    /// # Errors
    /// [`GrpcError::Json`] with line and column, [`GrpcError::LongMessages`].
    pub fn read(&self, place: &str, text: &str, messages: &mut Vec<Vec<u8>>) -> Result<(), GrpcError> {
        let input = self.0.input();
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let wrong = |error: &serde_json::Error| GrpcError::Json {
            place: place.to_owned(),
            line: error.line(),
            column: error.column(),
            message: input.full_name().to_owned(),
            cause: without_place(error),
            fields: fields(&input),
        };
        // A message whose JSON is an array itself is no list of messages.
        let is_list = text.trim_ascii_start().starts_with('[') && input.full_name() != "google.protobuf.ListValue";
        let mut read = Vec::new();
        if is_list {
            read = List(&input).deserialize(&mut deserializer).map_err(|error| wrong(&error))?;
            deserializer.end().map_err(|error| wrong(&error))?;
        } else {
            while deserializer.end().is_err() || read.is_empty() {
                let one = DynamicMessage::deserialize(input.clone(), &mut deserializer);
                read.push(one.map_err(|error| wrong(&error))?);
            }
        }
        messages.extend(read.iter().map(Message::encode_to_vec));
        match messages.iter().map(Vec::len).sum::<usize>() > MESSAGES_BYTES_MAX {
            true => Err(GrpcError::LongMessages { bytes_max: MESSAGES_BYTES_MAX }),
            false => Ok(()),
        }
    }

    /// Whether a call sends so many messages.
    ///
    /// # Errors
    /// [`GrpcError::Count`].
    pub fn check_count(&self, messages: usize) -> Result<(), GrpcError> {
        match messages == 1 || self.kind().client_streams() {
            true => Ok(()),
            false => Err(GrpcError::count(messages, self.kind())),
        }
    }
}

/// An array of messages.
struct List<'m>(&'m MessageDescriptor);

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = Vec<DynamicMessage>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = Vec<DynamicMessage>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut messages = Vec::new();
        while let Some(message) = elements.next_element_seed(self.0.clone())? {
            messages.push(message);
        }
        Ok(messages)
    }
}

/// What is wrong, without the place that is told before it.
fn without_place(error: &serde_json::Error) -> String {
    let words = error.to_string();
    words.rsplit_once(" at line ").map_or(words.as_str(), |(words, _)| words).to_owned()
}

/// The fields of a message with their types, in words.
fn fields(message: &MessageDescriptor) -> String {
    let kind = |field: &prost_reflect::FieldDescriptor| {
        let name = match field.kind() {
            prost_reflect::Kind::Message(message) => message.name().to_owned(),
            prost_reflect::Kind::Enum(named) => named.name().to_owned(),
            plain => format!("{plain:?}").to_ascii_lowercase(),
        };
        if field.is_list() { format!("[{name}]") } else { name }
    };
    let mut told: Vec<_> = message.fields().map(|field| format!("{} {}", field.json_name(), kind(&field))).collect();
    if told.is_empty() {
        return "none".to_owned();
    }
    let more = if told.len() > FIELDS_TOLD { ", …" } else { "" };
    told.truncate(FIELDS_TOLD);
    format!("{}{more}", told.join(", "))
}
