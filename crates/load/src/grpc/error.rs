//! Why a call cannot be made.

use crate::LoadError;
use crate::grpc::kind::CallKind;
use std::path::PathBuf;

/// Why a call cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum GrpcError {
    /// A file cannot be read.
    #[error("{}: cannot be read ({cause})", file.display())]
    Unread {
        /// The file.
        file: PathBuf,
        /// What the kernel said.
        cause: std::io::Error,
    },
    /// A file is too long.
    #[error("{}: it has more than {bytes_max} bytes; split it", file.display())]
    TooLong {
        /// The file.
        file: PathBuf,
        /// The bound.
        bytes_max: u64,
    },
    /// A `.proto` file, or one that it imports, is wrong.
    #[error("{words}; {remedy}")]
    Proto {
        /// File, line, column, and what is wrong.
        words: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A file holds no descriptor set.
    #[error(
        "{}: no set of file descriptors ({cause}); make one by: protoc --include_imports --descriptor_set_out=FILE",
        file.display()
    )]
    Descriptors {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// The URL's path names no method.
    #[error("{path:?}: the path of a gRPC URL is /package.Service/Method; {known}")]
    Path {
        /// The path.
        path: String,
        /// Which methods there are.
        known: String,
    },
    /// There is no such service.
    #[error("there is no service {service}; {known}")]
    NoService {
        /// What was asked for.
        service: String,
        /// Which there are.
        known: String,
    },
    /// The service has no such method.
    #[error("{service} has no method {method}; {known}")]
    NoMethod {
        /// The service.
        service: String,
        /// What was asked for.
        method: String,
        /// Which it has.
        known: String,
    },
    /// A message is no JSON, or not that of its type.
    #[error("{place}, line {line}, column {column}: no {message} in JSON ({cause}); its fields: {fields}")]
    Json {
        /// The option or the file.
        place: String,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// The message's type.
        message: String,
        /// What is wrong.
        cause: String,
        /// What the type has.
        fields: String,
    },
    /// The method takes one message.
    #[error("{given} messages: a call of {kind} sends one; give one --message")]
    Count {
        /// How many were given.
        given: usize,
        /// The call.
        kind: &'static str,
    },
    /// All messages together are too long.
    #[error("the messages of a call have more than {bytes_max} bytes together: give fewer, or shorter ones")]
    LongMessages {
        /// The bound.
        bytes_max: usize,
    },
    /// The server cannot be asked at all.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The server has no reflection.
    #[error("the server tells no methods by reflection ({words}); give --proto FILE or --descriptor FILE")]
    NoReflection {
        /// What it said.
        words: String,
    },
    /// The server's reflection said something that cannot be used.
    #[error("the server's reflection: {words}; give --proto FILE or --descriptor FILE in its place")]
    Reflection {
        /// What is wrong.
        words: String,
    },
}

/// Why file descriptors cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The bytes are no `FileDescriptorSet`.
    #[error("{0}")]
    Bytes(prost::DecodeError),
    /// A file's syntax is neither proto2 nor proto3.
    #[error("{file}: the syntax {syntax:?} is not known: proto2 and proto3 are, editions are not")]
    Syntax {
        /// The file's name.
        file: String,
        /// Its syntax.
        syntax: String,
    },
    /// A message is the entry of a map, and has no key or no value.
    #[error(
        "the message {message:?} says that it is a map's entry, and has no key or no value: have a compiler write the set"
    )]
    MapEntry {
        /// Its name.
        message: String,
    },
    /// They do not fit together.
    #[error("{0}")]
    Unfit(prost_reflect::DescriptorError),
}

impl GrpcError {
    /// A number of messages that a call does not send.
    pub(crate) fn count(given: usize, kind: CallKind) -> Self {
        Self::Count {
            given,
            kind: if kind == CallKind::Unary { "a unary method" } else { "a method whose server streams" },
        }
    }
}
