//! What sort of object a path names.

/// A sort of object, by the end of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Pages: `.html`, directories, and what has no ending.
    Html,
    /// Pictures.
    Image,
    /// Style sheets, scripts, plain text, data.
    Text,
    /// PDF, PostScript, and documents of offices.
    Document,
    /// Archives and packages.
    Archive,
    /// Sound and moving pictures.
    Media,
    /// What a program makes: `.php`, `.cgi` and the like.
    Program,
    /// Anything else.
    Other,
}

impl Kind {
    /// All of them, in their order.
    pub const ALL: [Self; 8] =
        [Self::Html, Self::Image, Self::Text, Self::Document, Self::Archive, Self::Media, Self::Program, Self::Other];

    /// Its name, a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Image => "image",
            Self::Text => "text",
            Self::Document => "document",
            Self::Archive => "archive",
            Self::Media => "media",
            Self::Program => "program",
            Self::Other => "other",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind of a path without its query.
    #[must_use]
    pub fn of_path(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or_default();
        let Some((_, ending)) = name.rsplit_once('.') else { return Self::Html };
        match ending.to_ascii_lowercase().as_str() {
            "html" | "htm" | "xhtml" | "shtml" => Self::Html,
            "gif" | "jpg" | "jpeg" | "png" | "webp" | "avif" | "svg" | "ico" | "bmp" | "xbm" | "tif" | "tiff" => {
                Self::Image
            }
            "css" | "js" | "mjs" | "txt" | "json" | "xml" | "md" | "csv" | "map" => Self::Text,
            "pdf" | "ps" | "eps" | "doc" | "docx" | "xls" | "xlsx" | "ppt" | "pptx" | "odt" | "rtf" | "tex" | "dvi" => {
                Self::Document
            }
            "zip" | "gz" | "tgz" | "bz2" | "xz" | "zst" | "tar" | "rar" | "7z" | "z" | "deb" | "rpm" | "iso"
            | "jar" => Self::Archive,
            "mp3" | "wav" | "au" | "ogg" | "flac" | "mp4" | "webm" | "mpg" | "mpeg" | "avi" | "mov" | "ra" | "rm" => {
                Self::Media
            }
            "php" | "cgi" | "pl" | "asp" | "aspx" | "jsp" | "do" | "py" => Self::Program,
            _ => Self::Other,
        }
    }

    /// The kind of a file of the World Cup's logs, by its type's number.
    pub(crate) fn of_world_cup(number: u8) -> Self {
        match number {
            0 | 10 => Self::Html,
            1 => Self::Image,
            2 | 3 => Self::Media,
            5 => Self::Document,
            6 | 9 => Self::Program,
            7 => Self::Text,
            8 => Self::Archive,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_kind() {
        for (path, kind) in [
            ("/", Kind::Html),
            ("/a.b/", Kind::Html),
            ("/about", Kind::Html),
            ("/i/LOGO.GIF", Kind::Image),
            ("/x.tar.gz", Kind::Archive),
            ("/paper.ps", Kind::Document),
            ("/run.php", Kind::Program),
            ("/x.unheard", Kind::Other),
        ] {
            assert_eq!(Kind::of_path(path), kind, "{path}");
        }
        assert!(
            Kind::ALL
                .into_iter()
                .enumerate()
                .all(|(at, kind)| kind as usize == at && Kind::named(kind.name()) == Some(kind))
        );
    }
}
