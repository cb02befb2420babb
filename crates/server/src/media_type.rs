//! Media types by the ending of a name, and which of them are worth compressing.

use std::collections::HashMap;

/// What a site says of endings instead of the built-in table: an ending without its dot to its media type.
pub(crate) type Overrides = HashMap<String, String>;

/// Endings that people serve today and the table of `mime_guess` lacks or has in an older form.
const NEWER: [(&str, &str); 14] = [
    ("avif", "image/avif"),
    ("cjs", "text/javascript"),
    ("flac", "audio/flac"),
    ("geojson", "application/geo+json"),
    ("gltf", "model/gltf+json"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("map", "application/json"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("opus", "audio/ogg"),
    ("shtml", "text/html"),
    ("webmanifest", "application/manifest+json"),
    ("zst", "application/zstd"),
];

/// Whether a text can stand in `Content-Type`: a type and what belongs to it, such as `text/plain; charset=utf-8`.
pub fn is_media_type(text: &str) -> bool {
    let is_sent = text.trim() == text && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    let (kind, rest) = text.split_once('/').unwrap_or_default();
    is_sent && !kind.is_empty() && !kind.contains([' ', ';']) && !rest.is_empty()
}

/// The media type by the name's ending; text says that it is UTF-8.
pub(crate) fn of(name: &[u8], overrides: &Overrides) -> String {
    let name = String::from_utf8_lossy(name);
    let file = name.rsplit('/').next().unwrap_or_default();
    let ending = file.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
    if let Some(media_type) = overrides.get(&ending) {
        return media_type.clone();
    }
    let newer = NEWER.iter().find(|(known, _)| *known == ending).map(|(_, media_type)| *media_type);
    let guessed = || mime_guess::from_ext(&ending).first_raw();
    let media_type = newer.or_else(guessed).unwrap_or("application/octet-stream");
    let is_text = media_type.starts_with("text/") || media_type == "application/javascript";
    if is_text { format!("{media_type}; charset=utf-8") } else { media_type.to_owned() }
}

/// Whether content of this type gets smaller by compression: what is text in truth. Pictures, sound, video, archives
/// and most fonts are compressed already.
pub(crate) fn is_compressible(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || matches!(
            essence,
            "application/javascript"
                | "application/json"
                | "application/ld+json"
                | "application/sql"
                | "application/vnd.ms-fontobject"
                | "application/wasm"
                | "application/x-javascript"
                | "application/xml"
                | "application/yaml"
                | "application/toml"
                | "font/otf"
                | "font/ttf"
                | "image/bmp"
                | "image/x-icon"
                | "image/vnd.microsoft.icon"
        )
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
            ("/a.xml", "text/xml; charset=utf-8"),
            ("/a.xyz", "chemical/x-xyz"),
            ("/a", "application/octet-stream"),
            ("/html", "application/octet-stream"),
            ("/a.b/c", "application/octet-stream"),
        ] {
            assert_eq!(of(name.as_bytes(), &overrides), expected, "{name}");
        }
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
