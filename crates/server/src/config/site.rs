//! How directories are served: settings of the whole server, which a host overrides, which a path overrides.

use super::table::{Table, Value};
use crate::files::settings::{Compression, Symlinks};
use crate::http::media_type::is_media_type;
use crate::site::settings::SiteKind;

/// What belongs to a root.
pub(super) const KEYS: [&str; 7] =
    ["listing", "dot_files", "index", "symlinks", "media_types", "compression", "includes"];
/// Endings of names in one table.
const MEDIA_TYPES_MAX: usize = 10_000;
/// The largest file that may be compressed here: it is held in memory, plain and compressed.
const COMPRESSED_BYTES_MAX: u64 = 64 << 20;

/// What a host or path says of its root; what it does not say is as around it.
pub(super) fn read_root(table: &Table<'_, '_>, around: SiteKind, sandbox: Option<bool>) -> SiteKind {
    let mut kind = read(table, around, sandbox);
    if let Some(listing) = table.get("listing").and_then(|value| value.boolean()) {
        kind.listing = listing;
    }
    if let Some(dot_files) = table.get("dot_files").and_then(|value| value.boolean()) {
        kind.dot_files = dot_files;
    }
    if let Some(value) = table.get("index") {
        kind.index.clear();
        for item in value.strings() {
            let name = item.text();
            if name.is_empty() || name.contains('/') || name.contains('\0') || name == "." || name == ".." {
                item.wrong(format!("\"{name}\" is no name of a file"), "such as index.html");
            }
            kind.index.push(name.to_owned());
        }
    }
    kind
}

/// What may be said for all roots as well.
pub(super) fn read(table: &Table<'_, '_>, mut kind: SiteKind, sandbox: Option<bool>) -> SiteKind {
    if let Some(value) = table.get("symlinks") {
        match value.string().map(str::parse) {
            Some(Ok(symlinks)) => kind.symlinks = symlinks,
            Some(Err(error)) => value.wrong(error.to_string(), "leave `symlinks` away for \"within\""),
            None => {}
        }
        if kind.symlinks == Symlinks::Anywhere && sandbox != Some(false) {
            value.wrong(
                "links that lead \"anywhere\" lead to what a confined server does not reach",
                "add sandbox = false at the top of the file, or write \"within\" or \"owner\"",
            );
        }
    }
    if let Some(types) = table.get("media_types").and_then(|value| value.table("media_types")) {
        read_media_types(&types, &mut kind);
    }
    if let Some(value) = table.get("compression") {
        read_compression(&value, &mut kind.compression);
    }
    if let Some(includes) = table.get("includes").and_then(|value| value.boolean()) {
        kind.includes = includes;
    }
    kind
}

fn read_media_types(table: &Table<'_, '_>, kind: &mut SiteKind) {
    for (ending, span, value) in table.entries() {
        let bare = ending.strip_prefix('.').unwrap_or(&ending).to_ascii_lowercase();
        if bare.is_empty() || bare.contains(['.', '/']) {
            let remedy = "write what stands behind the last dot of a name, such as xyz";
            table.reader.wrong(span.start, format!("\"{ending}\" is no ending of a name"), remedy);
        }
        let Some(media_type) = value.string() else { continue };
        if !is_media_type(media_type) {
            value.wrong(
                format!("\"{media_type}\" is no media type"),
                "such as \"chemical/x-xyz\" or \"text/plain; charset=utf-8\"",
            );
        }
        kind.media_types.insert(bare, media_type.to_owned());
    }
    if kind.media_types.len() > MEDIA_TYPES_MAX {
        table.wrong("there are too many endings", format!("at most {MEDIA_TYPES_MAX} are possible"));
    }
}

/// On, off, or a table of what is done.
fn read_compression(value: &Value<'_, '_>, compression: &mut Compression) {
    if !value.is_table() {
        if let Some(compresses) = value.boolean() {
            (compression.neighbours, compression.on_the_fly) = (compresses, compresses);
        }
        return;
    }
    let Some(table) = value.table("compression") else { return };
    let flag = |key, to: &mut bool| {
        if let Some(value) = table.get(key).and_then(|value| value.boolean()) {
            *to = value;
        }
    };
    flag("neighbours", &mut compression.neighbours);
    flag("on_the_fly", &mut compression.on_the_fly);
    let size = |key, to: &mut u64| {
        if let Some(bytes) = table.get(key).and_then(|value| value.bytes(0..=COMPRESSED_BYTES_MAX)) {
            *to = bytes;
        }
    };
    size("min", &mut compression.bytes_min);
    size("max", &mut compression.bytes_max);
    for key in ["min", "max"] {
        if let Some(value) = table.get(key).filter(|_| !compression.on_the_fly) {
            value.wrong(
                format!("`{key}` is of what is compressed here, and `on_the_fly` is false"),
                "leave one of them away",
            );
        }
    }
    if compression.bytes_min > compression.bytes_max {
        table.wrong("`min` is more than `max`, so that nothing is compressed here", "make `max` the larger one");
    }
    table.finish();
}
