//! Which services and methods there are: from `.proto` files, from a descriptor set, or from what reflection told.

use crate::grpc::error::{GrpcError, SetError};
use crate::grpc::method::Method;
use prost::Message;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, MessageOptions,
};
use prost_reflect::{DescriptorPool, ServiceDescriptor};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The longest descriptor set that is read, in bytes.
const SET_BYTES_MAX: u64 = 64 << 20;
/// So many names are told where one was not found.
const NAMES_TOLD: usize = 20;

/// Services, methods and types of messages.
#[derive(Debug, Clone)]
pub struct Schema(DescriptorPool);

impl Schema {
    /// Compiles `.proto` files. What they import is looked for in `folders`, or beside each file where none is given;
    /// the well-known types of Google are known.
    ///
    /// # Errors
    /// [`GrpcError::Proto`] with the file and line that are wrong, [`GrpcError::Unread`].
    pub fn of_protos(files: &[PathBuf], folders: &[PathBuf]) -> Result<Self, GrpcError> {
        let beside = files.iter().map(|file| match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        });
        let folders: Vec<PathBuf> = if folders.is_empty() { beside.collect() } else { folders.to_vec() };
        let mut compiler = protox::Compiler::new(&folders).map_err(|error| wrong(&error))?;
        for file in files {
            if let Err(cause) = File::open(file) {
                return Err(GrpcError::Unread { file: file.clone(), cause });
            }
            compiler.open_file(file).map_err(|error| wrong(&error))?;
        }
        Ok(Self(compiler.descriptor_pool()))
    }

    /// Compiles the text of one file that imports nothing but well-known types.
    ///
    /// # Errors
    /// [`GrpcError::Proto`], with the line.
    pub fn of_text(name: &str, text: &str) -> Result<Self, GrpcError> {
        struct Text(String, String);
        impl protox::file::FileResolver for Text {
            fn open_file(&self, name: &str) -> Result<protox::file::File, protox::Error> {
                match name == self.0 {
                    true => protox::file::File::from_source(name, &self.1),
                    false => protox::file::GoogleFileResolver::new().open_file(name),
                }
            }
        }
        let mut compiler = protox::Compiler::with_file_resolver(Text(name.to_owned(), text.to_owned()));
        compiler.open_file(name).map_err(|error| wrong(&error))?;
        Ok(Self(compiler.descriptor_pool()))
    }

    /// Reads a file that holds a `FileDescriptorSet`.
    ///
    /// # Errors
    /// [`GrpcError::Unread`], [`GrpcError::TooLong`], [`GrpcError::Descriptors`].
    pub fn of_set(file: &Path) -> Result<Self, GrpcError> {
        let mut bytes = Vec::new();
        File::open(file)
            .and_then(|open| open.take(SET_BYTES_MAX + 1).read_to_end(&mut bytes))
            .map_err(|cause| GrpcError::Unread { file: file.to_owned(), cause })?;
        if bytes.len() as u64 > SET_BYTES_MAX {
            return Err(GrpcError::TooLong { file: file.to_owned(), bytes_max: SET_BYTES_MAX });
        }
        Self::of_bytes(&bytes)
            .map_err(|cause| GrpcError::Descriptors { file: file.to_owned(), cause: cause.to_string() })
    }

    /// The same from its bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, SetError> {
        let set = FileDescriptorSet::decode(bytes).map_err(SetError::Bytes)?;
        is_sound(&set.file)?;
        DescriptorPool::decode(bytes).map(Self).map_err(SetError::Unfit)
    }

    /// Of files that a server told, each a `FileDescriptorProto`, those that others import among them.
    pub(crate) fn of_files(files: Vec<FileDescriptorProto>) -> Result<Self, GrpcError> {
        let mut pool = DescriptorPool::new();
        is_sound(&files)
            .and_then(|()| pool.add_file_descriptor_protos(files).map_err(SetError::Unfit))
            .map_err(|error| GrpcError::Reflection { words: format!("its descriptors cannot be used ({error})") })?;
        Ok(Self(pool))
    }

    /// Its files.
    #[cfg(test)]
    pub(crate) fn files(&self) -> Vec<FileDescriptorProto> {
        self.0.file_descriptor_protos().cloned().collect()
    }

    /// The service that a path names; empty where it names none.
    #[must_use]
    pub fn service_of(path: &str) -> &str {
        split(path).map_or("", |(service, _)| service)
    }

    /// The method that a path names: `/package.Service/Method`.
    ///
    /// # Errors
    /// [`GrpcError::Path`], [`GrpcError::NoService`], [`GrpcError::NoMethod`], with what there is.
    pub fn method(&self, path: &str) -> Result<Method, GrpcError> {
        let (service, method) =
            split(path).ok_or_else(|| GrpcError::Path { path: path.to_owned(), known: self.methods() })?;
        let found = self.0.get_service_by_name(service).ok_or_else(|| GrpcError::NoService {
            service: service.to_owned(),
            known: told("services", self.0.services().map(|service| service.full_name().to_owned())),
        })?;
        let known = || told("methods", found.methods().map(|method| method.name().to_owned()));
        found.methods().find(|one| one.name() == method).map(Method::new).ok_or_else(|| GrpcError::NoMethod {
            service: service.to_owned(),
            method: method.to_owned(),
            known: known(),
        })
    }

    /// The methods of all services, in words.
    fn methods(&self) -> String {
        let of_service = |service: ServiceDescriptor| {
            let name = service.full_name().to_owned();
            service.methods().map(|method| format!("/{name}/{}", method.name())).collect::<Vec<_>>()
        };
        told("methods", self.0.services().flat_map(of_service))
    }
}

/// The pool of descriptors panics at a file of another syntax, and later at entries of maps that no compiler makes.
fn is_sound(files: &[FileDescriptorProto]) -> Result<(), SetError> {
    if let Some(file) = files.iter().find(|file| !matches!(file.syntax.as_deref(), None | Some("proto2" | "proto3"))) {
        return Err(SetError::Syntax { file: file.name().to_owned(), syntax: file.syntax().to_owned() });
    }
    match files.iter().flat_map(|file| &file.message_type).find_map(unsound_entry) {
        Some(message) => Err(SetError::MapEntry { message }),
        None => Ok(()),
    }
}

/// The first message below this one that says it is a map's entry, and has no key of a type that keys have or no value
/// (descriptor.proto, `MessageOptions.map_entry`). Messages within messages are as deep as their reader allows, 100.
fn unsound_entry(message: &DescriptorProto) -> Option<String> {
    let field =
        |number| message.field.iter().find(|field| field.number() == number && field.label() != Label::Repeated);
    let is_key = |field: &FieldDescriptorProto| {
        let not = [Type::Double, Type::Float, Type::Bytes, Type::Message, Type::Group, Type::Enum];
        field.r#type.is_some_and(|kind| Type::try_from(kind).is_ok_and(|kind| !not.contains(&kind)))
    };
    let is_entry = message.options.as_ref().is_some_and(MessageOptions::map_entry);
    let is_sound = !is_entry || field(1).is_some_and(is_key) && field(2).is_some();
    if is_sound { message.nested_type.iter().find_map(unsound_entry) } else { Some(message.name().to_owned()) }
}

/// The service and the method that a path names.
pub(crate) fn split(path: &str) -> Option<(&str, &str)> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    (!service.is_empty() && !method.is_empty() && !method.contains('/')).then_some((service, method))
}

/// Which names there are, in words.
pub(crate) fn told(what: &str, names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    names.sort();
    if names.is_empty() {
        return format!("there are no {what}");
    }
    let more = if names.len() > NAMES_TOLD { ", …" } else { "" };
    names.truncate(NAMES_TOLD);
    format!("its {what}: {}{more}", names.join(", "))
}

fn wrong(error: &protox::Error) -> GrpcError {
    // Its words for people who debug have the place: file:line:column.
    let words = format!("{error:?}");
    let remedy = match error.is_file_not_found() {
        true => "name the folder in which it lies by --proto-path DIR",
        false => "correct the file; protoc would refuse it, too",
    };
    GrpcError::Proto { words, remedy }
}
