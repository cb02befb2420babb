//! What servers tell of their services (gRPC Server Reflection Protocol, `grpc.reflection.v1` and `v1alpha`): what is
//! asked, and what the answers mean.

use crate::grpc::error::GrpcError;
use crate::grpc::schema::Schema;
use prost::Message;
use prost_reflect::prost_types::FileDescriptorProto;
use std::collections::BTreeSet;

/// The methods by which servers tell it, the newer one first; their messages are the same.
pub(crate) const PATHS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
/// The most files that are asked for one after the other.
const ASKED_MAX: usize = 1000;
/// NOT_FOUND, by which a server says that it has no such name.
const NOT_FOUND: i32 = 5;

/// `ServerReflectionRequest`, of which one field is set.
#[derive(Clone, PartialEq, prost::Message)]
struct Request {
    #[prost(string, optional, tag = "3")]
    file_by_filename: Option<String>,
    #[prost(string, optional, tag = "4")]
    file_containing_symbol: Option<String>,
    #[prost(string, optional, tag = "7")]
    list_services: Option<String>,
}

/// `ServerReflectionResponse`, as far as it is read.
#[derive(Clone, PartialEq, prost::Message)]
struct Response {
    #[prost(message, optional, tag = "4")]
    files: Option<Files>,
    #[prost(message, optional, tag = "6")]
    services: Option<Services>,
    #[prost(message, optional, tag = "7")]
    error: Option<Refusal>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Files {
    #[prost(bytes = "vec", repeated, tag = "1")]
    descriptors: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Services {
    #[prost(message, repeated, tag = "1")]
    services: Vec<Service>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Refusal {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    words: String,
}

/// A way to ask a server: takes a message of its reflection and gives the answer's.
pub(crate) type Asking<'a> = dyn FnMut(Vec<u8>) -> Result<Vec<u8>, GrpcError> + 'a;

/// What a server tells of a service, all that its types need among it.
///
/// # Errors
/// [`GrpcError::NoService`] with the server's services, or what an answer has wrong.
pub(crate) fn schema(service: &str, ask: &mut Asking<'_>) -> Result<Schema, GrpcError> {
    let request = Request { file_containing_symbol: Some(service.to_owned()), ..Request::default() };
    let response = decoded(&ask(request.encode_to_vec())?)?;
    if let Some(refusal) = &response.error {
        return Err(match refusal.code {
            NOT_FOUND => GrpcError::NoService { service: service.to_owned(), known: services(ask)? },
            _ => refused(refusal),
        });
    }
    let mut files = read(response)?;
    // Some servers tell a file's imports with it, others when they are asked.
    for _ in 0..ASKED_MAX {
        let Some(name) = missing(&files) else { return Schema::of_files(files) };
        let request = Request { file_by_filename: Some(name.clone()), ..Request::default() };
        let response = decoded(&ask(request.encode_to_vec())?)?;
        if let Some(refusal) = &response.error {
            return Err(refused(refusal));
        }
        let more = read(response)?;
        if !more.iter().any(|file| file.name() == name) {
            return Err(GrpcError::Reflection {
                words: format!("it does not tell the file {name}, which others import"),
            });
        }
        files.extend(more);
        unique(&mut files);
    }
    Err(GrpcError::Reflection { words: format!("it has more than {ASKED_MAX} files") })
}

/// The services of a server, in words.
pub(crate) fn services(ask: &mut Asking<'_>) -> Result<String, GrpcError> {
    let request = Request { list_services: Some(String::new()), ..Request::default() };
    let response = decoded(&ask(request.encode_to_vec())?)?;
    let services = response.services.unwrap_or_default().services;
    Ok(crate::grpc::schema::told("services", services.into_iter().map(|service| service.name)))
}

/// Reads any bytes as an answer; for tests of what servers tell.
///
/// # Errors
/// What is wrong with them.
#[doc(hidden)]
pub fn read_answer(bytes: &[u8]) -> Result<Schema, GrpcError> {
    let mut files = read(decoded(bytes)?)?;
    unique(&mut files);
    Schema::of_files(files)
}

fn decoded(bytes: &[u8]) -> Result<Response, GrpcError> {
    Response::decode(bytes)
        .map_err(|error| GrpcError::Reflection { words: format!("its answer cannot be read ({error})") })
}

fn refused(refusal: &Refusal) -> GrpcError {
    GrpcError::Reflection { words: format!("it refuses ({}: {})", refusal.code, refusal.words) }
}

fn read(response: Response) -> Result<Vec<FileDescriptorProto>, GrpcError> {
    let files = response.files.unwrap_or_default().descriptors;
    let file = |bytes: Vec<u8>| {
        FileDescriptorProto::decode(bytes.as_slice())
            .map_err(|error| GrpcError::Reflection { words: format!("a descriptor of it cannot be read ({error})") })
    };
    files.into_iter().map(file).collect()
}

/// A file that others import and that is not there.
fn missing(files: &[FileDescriptorProto]) -> Option<String> {
    let names: BTreeSet<&str> = files.iter().map(FileDescriptorProto::name).collect();
    let mut imported = files.iter().flat_map(|file| &file.dependency);
    imported.find(|name| !names.contains(name.as_str())).cloned()
}

/// Leaves each file once.
fn unique(files: &mut Vec<FileDescriptorProto>) {
    let mut names = BTreeSet::new();
    files.retain(|file| names.insert(file.name().to_owned()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const GREET: &str = "syntax = \"proto3\"; package t; import \"google/protobuf/empty.proto\";\n\
                         service S { rpc M(google.protobuf.Empty) returns (google.protobuf.Empty); }";

    /// Answers like a server that has these files, each told alone.
    fn server(files: Vec<FileDescriptorProto>) -> impl FnMut(Vec<u8>) -> Result<Vec<u8>, GrpcError> {
        move |bytes| {
            let request = Request::decode(bytes.as_slice()).expect("a request");
            let mut response = Response::default();
            let named = |name: &str| files.iter().find(|file| file.name() == name);
            let found = match (&request.file_containing_symbol, &request.file_by_filename) {
                (Some(symbol), _) => named("t.proto").filter(|_| symbol == "t.S"),
                (_, Some(name)) => named(name),
                _ => {
                    response.services = Some(Services { services: vec![Service { name: "t.S".to_owned() }] });
                    return Ok(response.encode_to_vec());
                }
            };
            match found {
                Some(file) => response.files = Some(Files { descriptors: vec![file.encode_to_vec()] }),
                None => response.error = Some(Refusal { code: NOT_FOUND, words: "none".to_owned() }),
            }
            Ok(response.encode_to_vec())
        }
    }

    fn files() -> Vec<FileDescriptorProto> {
        Schema::of_text("t.proto", GREET).expect("a schema").files()
    }

    #[test]
    fn imports_are_asked_for_one_by_one() {
        let schema = schema("t.S", &mut server(files())).expect("a schema");
        assert_eq!(schema.method("/t.S/M").expect("the method").path(), "/t.S/M");
    }

    #[test]
    fn what_a_server_does_not_know_is_told_with_what_it_knows() {
        let told = schema("t.X", &mut server(files())).expect_err("no service").to_string();
        assert!(told.contains("no service t.X") && told.contains("services: t.S"), "{told}");
        let without = files().into_iter().filter(|file| Path::new(file.name()).starts_with("t.proto")).collect();
        let told = schema("t.S", &mut server(without)).expect_err("an import is missing").to_string();
        assert!(told.contains("refuses (5: none)") && told.contains("--proto FILE"), "{told}");
        let told = schema("t.S", &mut |_| Ok(b"\xff".to_vec())).expect_err("no answer").to_string();
        assert!(told.contains("cannot be read"), "{told}");
    }
}
