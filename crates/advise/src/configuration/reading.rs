//! Following the includes of nginx, php-fpm and PostgreSQL.

use super::{Configuration, Directive, Entry, Files, Syntax, assignments, ini, nginx};
use std::path::{Path, PathBuf};

/// Includes within includes.
const MOST_DEPTH: usize = 20;
/// Entries of a configuration.
const MOST_ENTRIES: usize = 500_000;

/// Reads nginx's configuration. Relative includes count from the main file's folder.
pub(crate) fn nginx(files: &Files, main: &Path) -> Configuration {
    read(files, main, Syntax::Nginx)
}

/// Reads php-fpm's configuration, or a php.ini.
pub(crate) fn ini(files: &Files, main: &Path) -> Configuration {
    read(files, main, Syntax::Ini)
}

/// Reads PostgreSQL's configuration. Relative includes count from the file that says so.
pub(crate) fn assignments(files: &Files, main: &Path) -> Configuration {
    read(files, main, Syntax::Assignments)
}

fn read(files: &Files, main: &Path, syntax: Syntax) -> Configuration {
    let folder = main.parent().unwrap_or(Path::new("/")).to_owned();
    let mut reader = Reader { files, folder, configuration: Configuration::empty(syntax) };
    reader.file(main, 0);
    reader.configuration
}

struct Reader<'f> {
    files: &'f Files,
    folder: PathBuf,
    configuration: Configuration,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, depth: usize) {
        let name = path.display();
        if depth > MOST_DEPTH {
            self.configuration.problems.push(format!("{name}: more than {MOST_DEPTH} includes in one another"));
            return;
        }
        let text = match self.files.read(path) {
            Ok(text) => text,
            Err(error) => return self.configuration.problems.push(error.to_string()),
        };
        let file = self.configuration.files.len();
        self.configuration.files.push(path.to_owned());
        let parsed = match self.configuration.syntax {
            Syntax::Nginx => nginx::parse(&text, file),
            Syntax::Ini => ini::parse(&text, file),
            // Apache's has a reader of its own, for its conditions.
            Syntax::Apache | Syntax::Assignments => assignments::parse(&text, file),
        };
        let entries = match parsed {
            Ok(entries) => entries,
            Err(error) => return self.configuration.problems.push(format!("{name}: {error}")),
        };
        let mut section: Option<Directive> = None;
        for entry in entries {
            if self.configuration.entries.len() >= MOST_ENTRIES {
                self.configuration.problems.push(format!("{name}: more than {MOST_ENTRIES} directives"));
                return;
            }
            match (&entry, self.configuration.syntax) {
                (Entry::Set(directive), _) if self.is_include(directive) => {
                    // php-fpm's sections do not nest: an included pool ends the one that includes it.
                    let reopened = section.clone().filter(|_| self.configuration.syntax == Syntax::Ini);
                    if reopened.is_some() {
                        self.configuration.entries.push(Entry::Close);
                    }
                    self.include(directive, path, depth);
                    self.configuration.entries.extend(reopened.map(Entry::Open));
                    continue;
                }
                (Entry::Open(directive), _) => section = Some(directive.clone()),
                (Entry::Close, _) => section = None,
                _ => {}
            }
            self.configuration.entries.push(entry);
        }
    }

    fn is_include(&self, directive: &Directive) -> bool {
        match self.configuration.syntax {
            Syntax::Assignments => ["include", "include_if_exists", "include_dir"]
                .iter()
                .any(|name| directive.name.eq_ignore_ascii_case(name)),
            _ => directive.name == "include",
        }
    }

    fn include(&mut self, directive: &Directive, from: &Path, depth: usize) {
        let words = self.configuration.syntax.words(&directive.raw);
        let Some(target) = words.first().filter(|word| !word.is_empty()) else { return };
        let folder = match self.configuration.syntax {
            Syntax::Assignments => from.parent().unwrap_or(Path::new("/")).to_owned(),
            _ => self.folder.clone(),
        };
        let path = folder.join(target);
        let paths = if directive.name.eq_ignore_ascii_case("include_dir") {
            self.files.matching(&path.join("*.conf"))
        } else {
            self.files.matching(&path)
        };
        for path in paths {
            if directive.name.eq_ignore_ascii_case("include_if_exists") && !self.files.exists(&path) {
                continue;
            }
            self.file(&path, depth + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(list: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (name, text) in list {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        folder
    }

    #[test]
    fn includes_stand_in_their_place() {
        let folder = written(&[
            ("nginx.conf", "http {\n include sites/*;\n}\n"),
            ("sites/b", "server { listen 2; }"),
            ("sites/a", "server {\n listen 1;\n}"),
        ]);
        let read = nginx(&Files::below(folder.path()), Path::new("/nginx.conf"));
        let ports: Vec<_> = read.all("listen").iter().map(|found| (found.word().to_owned(), found.scope())).collect();
        assert_eq!(ports[0], ("1".to_owned(), vec!["http".to_owned(), "server".to_owned()]));
        assert_eq!(ports[1].0, "2");
        let place = read.all("listen")[0].directive.place;
        assert_eq!((read.file(place), place.line), (Path::new("/sites/a"), 2));
        assert!(read.problems.is_empty());
    }

    #[test]
    fn an_included_pool_is_no_part_of_the_global_section() {
        let folder = written(&[
            ("fpm.conf", "[global]\ninclude=/pool.d/*.conf\ndaemonize = no\n"),
            ("pool.d/www.conf", "[www]\npm.max_children = 1\n"),
        ]);
        let read = ini(&Files::below(folder.path()), Path::new("/fpm.conf"));
        assert_eq!(read.last("pm.max_children").expect("there").scope(), ["www"]);
        assert_eq!(read.last("daemonize").expect("there").scope(), ["global"]);
    }

    #[test]
    fn a_loop_of_includes_ends_and_is_told() {
        let folder = written(&[("postgresql.conf", "include 'postgresql.conf'\nport = 1\n")]);
        let read = assignments(&Files::below(folder.path()), Path::new("/postgresql.conf"));
        assert!(read.problems[0].contains("includes in one another"), "{:?}", read.problems);
        assert_eq!(read.last("port").expect("there").word(), "1");
    }
}
