//! Content that can be served: a file's bytes or its handle, and the fields that never change for it.

use crate::clock::http_date;
use crate::response::AtomId;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

/// How often a file that changes while it is read is read again.
const ATTEMPTS_MAX: usize = 3;

/// Where the bytes are.
#[derive(Debug)]
pub(crate) enum Content {
    Memory(Box<[u8]>),
    File(File),
}

/// Content with everything that a response says about it.
#[derive(Debug)]
pub(crate) struct Atom {
    pub(crate) id: AtomId,
    pub(crate) stamp: Stamp,
    pub(crate) content: Content,
    pub(crate) content_type: String,
    /// The entity tag with its quotes; it is a strong one.
    pub(crate) etag: String,
    /// Seconds since 1970; none if the file claims to be from the future (RFC 9110 section 8.8.2.1).
    pub(crate) modified_s: Option<u64>,
    /// `ETag` and `Last-Modified`, line ends included.
    pub(crate) validators: Vec<u8>,
    /// The fields of a response with the whole content, line ends included.
    pub(crate) fields: Vec<u8>,
}

/// What tells a changed file from an unchanged one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    id: AtomId,
    /// Changes with every write, even where somebody sets the modification time back.
    ctime_ns: i64,
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        Self {
            id: AtomId {
                dev: metadata.dev(),
                ino: metadata.ino(),
                mtime_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
                size: metadata.size(),
            },
            ctime_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Atom {
    /// Takes up an open file. `name` is for its media type; up to `memory_bytes_max` the content is read.
    pub(crate) fn load(file: File, name: &[u8], memory_bytes_max: u64, now_s: u64) -> io::Result<Self> {
        for _ in 0..ATTEMPTS_MAX {
            let stamp = Stamp::of(&file.metadata()?);
            if stamp.id.size > memory_bytes_max {
                return Ok(Self::describe(stamp, Content::File(file), name, now_s));
            }
            // The bound on memory is an option and may be absurd, but then the file is not that large.
            let mut bytes = vec![0; usize::try_from(stamp.id.size).unwrap_or(usize::MAX)];
            let complete = file.read_exact_at(&mut bytes, 0);
            if Stamp::of(&file.metadata()?) == stamp {
                complete?;
                return Ok(Self::describe(stamp, Content::Memory(bytes.into()), name, now_s));
            }
        }
        // It changes all the time; what is sent is then what the file holds when it is sent.
        let stamp = Stamp::of(&file.metadata()?);
        Ok(Self::describe(stamp, Content::File(file), name, now_s))
    }

    pub(crate) fn size(&self) -> u64 {
        self.id.size
    }

    fn describe(stamp: Stamp, content: Content, name: &[u8], now_s: u64) -> Self {
        let id = stamp.id;
        let etag = format!("\"{:x}-{:x}\"", id.mtime_ns, id.size);
        let modified_s = u64::try_from(id.mtime_ns / 1_000_000_000).ok().filter(|&modified_s| modified_s <= now_s);
        let mut validators = format!("ETag: {etag}\r\n");
        if let Some(modified_s) = modified_s {
            validators.push_str(&format!("Last-Modified: {}\r\n", http_date(modified_s)));
        }
        let content_type = content_type(name);
        let fields = format!(
            "Content-Type: {content_type}\r\nContent-Length: {}\r\n{validators}Accept-Ranges: bytes\r\n",
            id.size
        );
        Self {
            id,
            stamp,
            content,
            content_type,
            etag,
            modified_s,
            validators: validators.into_bytes(),
            fields: fields.into_bytes(),
        }
    }
}

/// Appends up to `len` bytes of a file to `out`, which is cleared first; at the end of the file it stays empty.
pub(crate) fn read_some(file: &File, start: u64, len: u64, out: &mut Vec<u8>) -> io::Result<()> {
    // The callers' bounds are far below this type's.
    out.resize(len as usize, 0);
    let read = file.read_at(out, start);
    out.truncate(*read.as_ref().unwrap_or(&0));
    read.map(drop)
}

/// The media type by the name's extension; text says that it is UTF-8.
pub(crate) fn content_type(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    let media_type = mime_guess::from_path(name.as_ref()).first_raw().unwrap_or("application/octet-stream");
    let is_text = media_type.starts_with("text/") || media_type == "application/javascript";
    if is_text { format!("{media_type}; charset=utf-8") } else { media_type.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_follow_the_extension() {
        for (name, expected) in [
            ("/a/index.html", "text/html; charset=utf-8"),
            ("/a.css", "text/css; charset=utf-8"),
            ("/a.js", "text/javascript; charset=utf-8"),
            ("/a.PNG", "image/png"),
            ("/a.json", "application/json"),
            ("/a.svg", "image/svg+xml"),
            ("/a.wasm", "application/wasm"),
            ("/a", "application/octet-stream"),
        ] {
            assert_eq!(content_type(name.as_bytes()), expected, "{name}");
        }
    }
}
