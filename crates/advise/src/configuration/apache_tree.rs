//! Following Apache's includes and conditions: what counts is what the server itself would read.

use super::{Configuration, Directive, Entry, Files, Syntax, apache};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Includes within includes.
const MOST_DEPTH: usize = 20;
/// Entries of a configuration.
const MOST_ENTRIES: usize = 500_000;
/// Modules that every build has within itself.
const BUILT_IN: [&str; 10] = [
    "core.c",
    "http_core.c",
    "mod_so.c",
    "mod_watchdog.c",
    "mod_log_config.c",
    "mod_logio.c",
    "mod_version.c",
    "mod_unixd.c",
    "core_module",
    "so_module",
];

/// What a server was started with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Start {
    /// The main file.
    pub(crate) main: PathBuf,
    /// Against which relative paths count, until the configuration says otherwise.
    pub(crate) server_root: PathBuf,
    /// Names given by `-D`.
    pub(crate) defines: Vec<String>,
    /// The environment, for `${NAME}`.
    pub(crate) environment: Vec<(String, String)>,
}

/// Reads Apache's configuration: conditions decided, variables filled in.
pub(crate) fn read(files: &Files, start: &Start) -> Configuration {
    let mut reader = Reader {
        files,
        root: start.server_root.clone(),
        defined: start.defines.iter().cloned().collect(),
        variables: start.environment.iter().cloned().collect(),
        modules: BUILT_IN.iter().map(|&name| name.to_owned()).collect(),
        configuration: Configuration::empty(Syntax::Apache),
    };
    reader.file(&start.main, 0);
    reader.configuration
}

struct Reader<'f> {
    files: &'f Files,
    root: PathBuf,
    defined: BTreeSet<String>,
    variables: BTreeMap<String, String>,
    modules: BTreeSet<String>,
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
        match apache::parse(&text, file) {
            Ok(entries) => self.entries(entries, depth),
            Err(error) => self.configuration.problems.push(format!("{name}: {error}")),
        }
    }

    fn entries(&mut self, entries: Vec<Entry>, depth: usize) {
        // Of each open section: whether it is kept as one. A condition that holds is not, only its contents are.
        let mut kept: Vec<bool> = Vec::new();
        let mut skipped = 0usize;
        for entry in entries {
            if self.configuration.entries.len() >= MOST_ENTRIES {
                self.configuration.problems.push(format!("more than {MOST_ENTRIES} directives"));
                return;
            }
            match entry {
                Entry::Open(_) if skipped > 0 => skipped += 1,
                Entry::Close if skipped > 0 => skipped -= 1,
                Entry::Set(_) if skipped > 0 => {}
                Entry::Open(directive) => {
                    let directive = self.filled(directive);
                    match self.condition(&directive) {
                        Some(false) => skipped = 1,
                        Some(true) => kept.push(false),
                        None => {
                            kept.push(true);
                            self.configuration.entries.push(Entry::Open(directive));
                        }
                    }
                }
                Entry::Close => {
                    if kept.pop() == Some(true) {
                        self.configuration.entries.push(Entry::Close);
                    }
                }
                Entry::Set(directive) => {
                    let directive = self.filled(directive);
                    self.set(directive, depth);
                }
            }
        }
    }

    fn set(&mut self, directive: Directive, depth: usize) {
        let words = apache::words(&directive.raw);
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        match directive.name.to_ascii_lowercase().as_str() {
            "include" | "includeoptional" => {
                let optional = directive.name.eq_ignore_ascii_case("includeoptional");
                return self.include(word(0), optional, depth);
            }
            "define" => {
                self.defined.insert(word(0).to_owned());
                if words.len() > 1 {
                    self.variables.insert(word(0).to_owned(), word(1).to_owned());
                }
            }
            "undefine" => {
                self.defined.remove(word(0));
                self.variables.remove(word(0));
            }
            "serverroot" => self.root = word(0).into(),
            "loadmodule" => {
                self.modules.insert(word(0).to_owned());
                let stem = Path::new(word(1)).file_stem().map(|stem| stem.to_string_lossy().into_owned());
                self.modules.extend(stem.map(|stem| format!("{stem}.c")));
            }
            _ => {}
        }
        self.configuration.entries.push(Entry::Set(directive));
    }

    fn include(&mut self, target: &str, optional: bool, depth: usize) {
        let path = self.root.join(target);
        for path in self.files.matching(&path) {
            if self.files.is_folder(&path) {
                for inner in self.files.folder(&path) {
                    self.file(&inner, depth + 1);
                }
            } else if !optional || self.files.exists(&path) {
                self.file(&path, depth + 1);
            }
        }
    }

    /// Whether a section is a condition, and then whether it holds.
    fn condition(&self, directive: &Directive) -> Option<bool> {
        let words = apache::words(&directive.raw);
        let word = words.first().map_or("", String::as_str);
        let (negated, name) = word.strip_prefix('!').map_or((false, word), |name| (true, name));
        let holds = match directive.name.to_ascii_lowercase().as_str() {
            "ifdefine" => self.defined.contains(name),
            "ifmodule" => self.modules.contains(name),
            "iffile" => self.files.exists(&self.root.join(name)),
            _ => return None,
        };
        Some(holds != negated)
    }

    /// `${NAME}` filled in, where the name is known.
    fn filled(&self, mut directive: Directive) -> Directive {
        if !directive.raw.contains("${") {
            return directive;
        }
        let mut text = String::with_capacity(directive.raw.len());
        let mut rest = directive.raw.as_str();
        while let Some((before, after)) = rest.split_once("${") {
            text.push_str(before);
            match after.split_once('}').and_then(|(name, after)| Some((self.variables.get(name)?, after))) {
                Some((value, after)) => {
                    text.push_str(value);
                    rest = after;
                }
                None => {
                    text.push_str("${");
                    rest = after;
                }
            }
        }
        text.push_str(rest);
        directive.raw = text;
        directive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_variables_and_includes_as_the_server_reads_them() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        write(
            "apache.conf",
            "ServerRoot \"/\"\nLoadModule ssl_module /m/mod_ssl.so\nDefine port 81\n<IfModule mod_ssl.c>\nInclude *.part\n</IfModule>\n\
             <IfModule !ssl_module>\nNever here\n</IfModule>\n<IfDefine X>\nListen ${port}\n</IfDefine>\nPidFile ${RUN}/a.pid\n\
             Left ${unknown}\nIncludeOptional none.conf\n",
        );
        write("one.part", "<VirtualHost *:80>\nKeepAlive Off\n</VirtualHost>\n");
        let start = Start {
            main: "/apache.conf".into(),
            server_root: "/etc".into(),
            defines: vec!["X".to_owned()],
            environment: vec![("RUN".to_owned(), "/run".to_owned())],
        };
        let read = read(&Files::below(folder.path()), &start);
        assert_eq!(read.problems, Vec::<String>::new());
        assert_eq!(read.last("KeepAlive").expect("there").scope(), ["VirtualHost *:80"]);
        assert_eq!(read.last("Listen").expect("there").word(), "81");
        assert_eq!(read.last("PidFile").expect("there").word(), "/run/a.pid");
        assert_eq!(read.last("Left").expect("there").word(), "${unknown}");
        assert!(read.last("Never").is_none());
    }

    #[test]
    fn a_missing_file_is_told_and_the_rest_is_read() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(folder.path().join("a.conf"), "Include /none.conf\nListen 80\n").expect("written");
        let read = read(&Files::below(folder.path()), &Start { main: "/a.conf".into(), ..Start::default() });
        assert!(read.problems[0].starts_with("/none.conf: "), "{:?}", read.problems);
        assert!(read.last("Listen").is_some());
    }
}
