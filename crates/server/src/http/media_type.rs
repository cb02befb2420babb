//! Media types by the ending of a name, and which of them are worth compressing.

mod table;

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use table::{Kind, TYPES};

/// What a site says of endings instead of the built-in table: an ending without its dot to its media type.
pub(crate) type Overrides = HashMap<String, String>;

/// Whether a text can stand in `Content-Type`: a type and what belongs to it, such as `text/plain; charset=utf-8`.
pub fn is_media_type(text: &str) -> bool {
    let is_sent = text.trim() == text && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    let (kind, rest) = text.split_once('/').unwrap_or_default();
    is_sent && !kind.is_empty() && !kind.contains([' ', ';']) && !rest.is_empty()
}

/// The media type by the name's ending. Text says that it is UTF-8; XML says itself which encoding it has, and a word
/// about that here would count more than what is right (RFC 7303 section 3.2).
pub(crate) fn of(name: &[u8], overrides: &Overrides) -> String {
    let ending = ending_of(name);
    if let Some(media_type) = overrides.get(&ending) {
        return media_type.clone();
    }
    if let Some((_, media_type, kind)) = find(&ending) {
        return with_charset(media_type, *kind == Kind::Text);
    }
    let guessed = mime_guess::from_ext(&ending).first_raw().unwrap_or("application/octet-stream");
    with_charset(guessed, guessed.starts_with("text/") && !matches!(guessed, "text/xml" | "text/rtf"))
}

/// The coding that a file has by its ending, such as `svgz`; none where a site says another type of the ending.
pub(crate) fn coding_of(name: &[u8], overrides: &Overrides) -> Option<&'static str> {
    let ending = ending_of(name);
    let (_, media_type, kind) = find(&ending)?;
    let is_meant = overrides.get(&ending).is_none_or(|said| essence(said).eq_ignore_ascii_case(media_type));
    (*kind == Kind::Gzip && is_meant).then_some("gzip")
}

/// Whether a file begins as gzip does (RFC 1952 section 2.3.1). Its ending does not count.
pub(crate) fn is_gzip(file: &File) -> bool {
    let mut begin = [0; 2];
    file.read_exact_at(&mut begin, 0).is_ok() && begin == [0x1f, 0x8b]
}

/// Whether content of this type gets smaller by compression: what is text in truth. Pictures, sound, video, archives
/// and most fonts are compressed already.
pub(crate) fn is_compressible(media_type: &str) -> bool {
    let essence = essence(media_type).to_ascii_lowercase();
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || matches!(essence.as_str(), "application/javascript" | "application/x-javascript" | "image/x-icon")
        || TYPES.iter().any(|(_, known, kind)| *known == essence && matches!(kind, Kind::Text | Kind::Plain))
}

/// What stands behind the last dot of a file's name, in lower case.
fn ending_of(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    let file = name.rsplit('/').next().unwrap_or_default();
    file.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase()
}

fn find(ending: &str) -> Option<&'static (&'static str, &'static str, Kind)> {
    TYPES.binary_search_by_key(&ending, |(known, _, _)| known).ok().map(|at| &TYPES[at])
}

fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

fn with_charset(media_type: &str, is_text: bool) -> String {
    if is_text { format!("{media_type}; charset=utf-8") } else { media_type.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_follow_the_ending() {
        let overrides = Overrides::from([("xyz".to_owned(), "chemical/x-xyz".to_owned())]);
        for (name, expected) in [
            ("/a/index.html", "text/html; charset=utf-8"),
            ("/a.css", "text/css; charset=utf-8"),
            ("/a.js", "text/javascript; charset=utf-8"),
            ("/a.mjs", "text/javascript; charset=utf-8"),
            ("/a.PNG", "image/png"),
            ("/a.json", "application/json"),
            ("/a.svg", "image/svg+xml"),
            ("/a.wasm", "application/wasm"),
            ("/a.woff2", "font/woff2"),
            ("/a.webp", "image/webp"),
            ("/a.avif", "image/avif"),
            ("/a.mp4", "video/mp4"),
            ("/a.webmanifest", "application/manifest+json"),
            ("/a.pdf", "application/pdf"),
            ("/a.xml", "application/xml"),
            ("/a.rss", "application/rss+xml"),
            ("/a.ts", "video/mp2t"),
            ("/a.m3u8", "application/vnd.apple.mpegurl"),
            ("/a.woff", "font/woff"),
            ("/a.otf", "font/otf"),
            ("/a.usdz", "model/vnd.usdz+zip"),
            ("/a.jsonl", "application/jsonl"),
            ("/a.rpm", "application/x-redhat-package-manager"),
            ("/a.yaml", "application/yaml"),
            ("/a.toml", "application/toml"),
            ("/a.md", "text/markdown; charset=utf-8"),
            ("/a.ics", "text/calendar; charset=utf-8"),
            ("/a.vtt", "text/vtt; charset=utf-8"),
            ("/a.svgz", "image/svg+xml"),
            ("/a.tar.gz", "application/gzip"),
            ("/a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
            ("/a.xyz", "chemical/x-xyz"),
            ("/a", "application/octet-stream"),
            ("/html", "application/octet-stream"),
            ("/a.b/c", "application/octet-stream"),
        ] {
            assert_eq!(of(name.as_bytes(), &overrides), expected, "{name}");
        }
    }

    #[test]
    fn endings_are_found_as_they_are_in_order() {
        assert!(TYPES.is_sorted_by(|one, other| one.0 < other.0));
        for (ending, media_type, kind) in TYPES {
            assert_eq!(essence(&of(format!("/a.{ending}").as_bytes(), &Overrides::new())), media_type);
            assert!(is_media_type(media_type) && ending.to_ascii_lowercase() == ending, "{ending}");
            assert_eq!(kind == Kind::Text, media_type.starts_with("text/") && ending != "opml", "{ending}");
        }
    }

    #[test]
    fn an_ending_may_mean_a_coding_too() {
        let overrides = |said: &str| Overrides::from([("svgz".to_owned(), said.to_owned())]);
        assert_eq!(coding_of(b"/a.svgz", &Overrides::new()), Some("gzip"));
        assert_eq!(coding_of(b"/a.SVGZ", &overrides("image/svg+xml; charset=utf-8")), Some("gzip"));
        assert_eq!(coding_of(b"/a.svgz", &overrides("application/gzip")), None);
        assert_eq!(coding_of(b"/a.svg", &Overrides::new()), None);
        assert_eq!(coding_of(b"/a.tar.gz", &Overrides::new()), None);
    }

    #[test]
    fn what_is_compressed_already_is_left_alone() {
        for (name, expected) in [
            ("a.html", true),
            ("a.svg", true),
            ("a.json", true),
            ("a.wasm", true),
            ("a.ttf", true),
            ("a.rss", true),
            ("a.xml", true),
            ("a.m3u8", true),
            ("a.srt", true),
            ("a.yaml", true),
            ("a.jsonl", true),
            ("a.ico", true),
            ("a.ts", false),
            ("a.tar.gz", false),
            ("a.tgz", false),
            ("a.usdz", false),
            ("a.rpm", false),
            ("a.png", false),
            ("a.woff2", false),
            ("a.zip", false),
            ("a.mp4", false),
            ("a.bin", false),
        ] {
            assert_eq!(is_compressible(&of(name.as_bytes(), &Overrides::new())), expected, "{name}");
        }
    }
}
