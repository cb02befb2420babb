//! A configuration with all that it includes, and what is found in it.

use super::{Directive, Entry, Place, Syntax};
use std::path::{Path, PathBuf};

/// A configuration with all that it includes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Configuration {
    /// How it is written.
    pub(crate) syntax: Syntax,
    /// The files, in the order in which they are read.
    pub(crate) files: Vec<PathBuf>,
    /// What they say, includes in their place.
    pub(crate) entries: Vec<Entry>,
    /// What could not be read, for the user.
    pub(crate) problems: Vec<String>,
}

/// A directive that was found, with the sections around it, outermost first, such as `VirtualHost *:80`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found<'c> {
    /// The directive.
    pub(crate) directive: &'c Directive,
    /// The sections around it.
    pub(crate) sections: Vec<&'c Directive>,
    /// Its arguments, without quotes.
    pub(crate) words: Vec<String>,
}

impl Found<'_> {
    /// The first argument, or nothing.
    pub(crate) fn word(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// The sections around it as a reader would write them.
    pub(crate) fn scope(&self) -> Vec<String> {
        self.sections.iter().map(|section| format!("{} {}", section.name, section.raw).trim().to_owned()).collect()
    }
}

impl Configuration {
    /// A configuration of nothing.
    pub(crate) fn empty(syntax: Syntax) -> Self {
        Self { syntax, files: Vec::new(), entries: Vec::new(), problems: Vec::new() }
    }

    /// Adds what counts after all that was read before.
    pub(crate) fn append(&mut self, mut other: Self) {
        for entry in &mut other.entries {
            if let Entry::Set(directive) | Entry::Open(directive) = entry {
                directive.place.file += self.files.len();
            }
        }
        self.files.append(&mut other.files);
        self.entries.append(&mut other.entries);
        self.problems.append(&mut other.problems);
    }

    /// Every directive of a name, sections that bear it included, in order.
    pub(crate) fn all(&self, name: &str) -> Vec<Found<'_>> {
        let mut found = Vec::new();
        let mut sections: Vec<&Directive> = Vec::new();
        for entry in &self.entries {
            match entry {
                Entry::Set(directive) | Entry::Open(directive) => {
                    if self.syntax.same_name(&directive.name, name) {
                        let words = self.syntax.words(&directive.raw);
                        found.push(Found { directive, sections: sections.clone(), words });
                    }
                    if matches!(entry, Entry::Open(_)) {
                        sections.push(directive);
                    }
                }
                Entry::Close => drop(sections.pop()),
            }
        }
        found
    }

    /// The directive of a name that counts where the last one does.
    pub(crate) fn last(&self, name: &str) -> Option<Found<'_>> {
        self.all(name).pop()
    }

    /// The file of a place.
    pub(crate) fn file(&self, place: Place) -> &Path {
        // Places are only made by the reader, which registered the file first.
        self.files.get(place.file).map_or(Path::new(""), PathBuf::as_path)
    }

    /// The names of the sections at the top, such as php-fpm's pools.
    pub(crate) fn sections(&self) -> Vec<&str> {
        let mut depth = 0usize;
        let mut names = Vec::new();
        for entry in &self.entries {
            match entry {
                Entry::Open(directive) => {
                    if depth == 0 && !names.contains(&directive.name.as_str()) {
                        names.push(directive.name.as_str());
                    }
                    depth += 1;
                }
                Entry::Close => depth = depth.saturating_sub(1),
                Entry::Set(_) => {}
            }
        }
        names
    }

    /// The whole as one text, without includes.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut open: Vec<&Directive> = Vec::new();
        for entry in &self.entries {
            match (entry, self.syntax) {
                (Entry::Set(directive), syntax) => text.push_str(&syntax.line(&directive.name, &directive.raw)),
                (Entry::Open(directive), syntax) => {
                    let line = format!("{} {}", directive.name, directive.raw);
                    match syntax {
                        Syntax::Apache => text.push_str(&format!("<{}>", line.trim())),
                        Syntax::Nginx => text.push_str(&format!("{} {{", line.trim())),
                        Syntax::Ini | Syntax::Assignments => text.push_str(&format!("[{}]", line.trim())),
                    }
                    open.push(directive);
                }
                (Entry::Close, syntax) => match (open.pop(), syntax) {
                    (Some(section), Syntax::Apache) => text.push_str(&format!("</{}>", section.name)),
                    (Some(_), Syntax::Nginx) => text.push('}'),
                    _ => {}
                },
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::apache;
    use super::*;

    #[test]
    fn a_directive_is_found_with_its_place_and_sections() {
        let text = "KeepAlive On\n<VirtualHost *:80>\n  keepalive \"Off\"\n</VirtualHost>\n";
        let entries = apache::parse(text, 0).expect("a configuration");
        let configuration =
            Configuration { files: vec!["/etc/a.conf".into()], entries, ..Configuration::empty(Syntax::Apache) };
        let last = configuration.last("KeepAlive").expect("there");
        assert_eq!((last.word(), last.directive.place.line), ("Off", 3));
        assert_eq!(last.scope(), ["VirtualHost *:80"]);
        assert_eq!(configuration.file(last.directive.place), Path::new("/etc/a.conf"));
        assert_eq!(configuration.sections(), ["VirtualHost"]);
    }
}
