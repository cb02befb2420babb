//! Calls of gRPC: the options for them, and what a report says of them.

use super::figures::summary;
use super::usage::Usage;
use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use weir_load::grpc::{CallKind, GrpcError, Method, Schema};
use weir_load::{Grpc, GrpcDetail, GrpcReport, LoadReport, Options};
use weir_report::count as grouped;
use weir_terminal::text_file;

/// The longest file of messages that is read, bytes.
const FILE_BYTES_MAX: u64 = 1 << 28;
/// What a call sends where no message is given.
const EMPTY: &str = "{}";

/// Options of calls of gRPC.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct GrpcArgs {
    /// With grpc:// or grpcs://: compile the method's .proto file; may be repeated. Without it and --descriptor the
    /// server's reflection is asked
    #[arg(long, value_name = "FILE", conflicts_with = "descriptor", help_heading = "gRPC")]
    proto: Vec<PathBuf>,
    /// With --proto: look for imported files in this folder, too; may be repeated [default: where the file lies]
    #[arg(long, value_name = "DIR", aliases = ["import-path", "import-paths"], requires = "proto", help_heading = "gRPC")]
    proto_path: Vec<PathBuf>,
    /// Take the method from a set of file descriptors (protoc --include_imports --descriptor_set_out)
    #[arg(long, value_name = "FILE", aliases = ["protoset", "descriptor-set"], help_heading = "gRPC")]
    descriptor: Option<PathBuf>,
}

/// The URL of HTTP by which a method is called; `None` for URLs of other schemes.
pub(super) fn called_by(url: &str) -> Option<String> {
    let (scheme, rest) = url.trim_ascii().split_once("://")?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "grpc" => "http",
        "grpcs" => "https",
        _ => return None,
    };
    Some(format!("{scheme}://{rest}"))
}

/// The same the other way round.
pub(super) fn shown(url: &str) -> String {
    url.replacen("http", "grpc", 1)
}

impl GrpcArgs {
    /// Has a method called in place of requests, with these messages: JSON, or the files that hold it.
    pub(super) fn apply(&self, options: &mut Options, messages: &[String]) -> Result<(), Usage> {
        let path = options.url.target.clone();
        let method = self.method(options, &path)?;
        let mut encoded = Vec::new();
        for given in messages {
            match given.strip_prefix('@') {
                Some(file) => method.read(file, &read(Path::new(file))?, &mut encoded)?,
                None => method.read("--message", given, &mut encoded)?,
            }
        }
        if messages.is_empty() {
            method.read("--message", EMPTY, &mut encoded)?;
        }
        method.check_count(encoded.len())?;
        options.call(Grpc::new(method.path(), method.kind(), encoded))?;
        Ok(())
    }

    fn method(&self, options: &Options, path: &str) -> Result<Method, GrpcError> {
        let schema = match &self.descriptor {
            Some(file) => Schema::of_set(file)?,
            None if self.proto.is_empty() => weir_load::reflected(options, Schema::service_of(path))?,
            None => Schema::of_protos(&self.proto, &self.proto_path)?,
        };
        schema.method(path)
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    text_file::read(file, FILE_BYTES_MAX).with_context(|| format!("--message: cannot read {}", file.display()))
}

/// What a mistake in the calls comes to: a server that cannot be asked for its methods is none of the user's.
pub(super) fn not_asked(error: anyhow::Error) -> Result<anyhow::Error, weir_load::LoadError> {
    match error.downcast::<GrpcError>() {
        Ok(GrpcError::Load(cause)) if cause.name() != "options" => Err(cause),
        Ok(error) => Ok(anyhow!(error)),
        Err(error) => Ok(error),
    }
}

/// How calls are made, in words for the heading.
pub(super) fn words(grpc: &Grpc) -> String {
    let bytes: usize = grpc.messages.iter().map(Vec::len).sum();
    let messages = match grpc.messages.len() {
        1 => "a message".to_owned(),
        count => format!("{} messages", grouped(count as u64)),
    };
    let paced = if grpc.kind == CallKind::Bidirectional { ", each after the answer before" } else { "" };
    format!(", {} calls of gRPC with {messages} of {} B{paced}", grpc.kind.name(), grouped(bytes as u64))
}

/// What the screen says of them, but for the times.
pub(super) fn write(screen: &mut String, told: &GrpcReport, report: &LoadReport) -> std::fmt::Result {
    for detail in &told.details {
        let words = if detail.words.is_empty() { "" } else { ": " };
        let name = report.status_name(detail.status);
        writeln!(screen, "             {} {name}{words}{}", grouped(detail.count), one_line(&detail.words))?;
    }
    write!(screen, "  messages   {:>12}   sent, {} came", grouped(told.sent), grouped(told.received))?;
    let each = &told.messages_per_call;
    if !each.is_empty() {
        write!(
            screen,
            ", {:.1} a call ({} to {}), {:.0} B each",
            each.mean(),
            grouped(each.min()),
            grouped(each.max().min(each.value_at_quantile(1.0))),
            told.received_bytes as f64 / (told.received as f64).max(1.0)
        )?;
    }
    writeln!(screen)
}

/// What a server says, without what would end the line.
fn one_line(words: &str) -> String {
    words.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// The same for programs.
pub(super) fn as_json(told: &GrpcReport, report: &LoadReport) -> Value {
    let detail = |detail: &GrpcDetail| {
        let status = report.status_name(detail.status);
        json!({ "status": status, "words": detail.words, "count": detail.count })
    };
    json!({
        "details": told.details.iter().map(detail).collect::<Vec<_>>(),
        "sent": told.sent,
        "received": told.received,
        "received_bytes": told.received_bytes,
        "first_message_ns": summary(&told.first_message),
        "between_ns": summary(&told.between),
        "messages_per_call": summary(&told.messages_per_call),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_calls_are_known() {
        assert_eq!(called_by("grpc://h:1/s/m").as_deref(), Some("http://h:1/s/m"));
        assert_eq!(called_by("GRPCS://h").as_deref(), Some("https://h"));
        assert_eq!(called_by("http://h"), None);
        assert_eq!(shown("https://h/http"), "grpcs://h/http");
    }
}
