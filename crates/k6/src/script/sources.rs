//! The files of a script: how their names are resolved, and their code, compiled once for all users.

use super::builtin;
use rquickjs::module::Declared;
use rquickjs::{Ctx, Error, Module, Result, WriteOptions};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The longest file that is read, in bytes.
pub(super) const FILE_MAX: u64 = 1 << 30;

/// Why a module, or a file, cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("{0}")]
    Refused(String),
    #[error(
        "module {0} is refused: only jslib's url, k6-utils and k6-summary come with the program; save the file beside the script and import it from there"
    )]
    Remote(String),
    #[error("module {name:?} is not there: {words}")]
    Unread { name: String, words: String },
    #[error("module {0:?}: a file is named by ./name.js, ../name.js or /path/name.js")]
    Bare(String),
    #[error("module {0:?}: TypeScript is not read; turn it into JavaScript first (tsc or esbuild)")]
    TypeScript(String),
    #[error("file {name:?} cannot be read: {words}")]
    File { name: String, words: String },
}

/// Code of modules, and contents of files, by their names.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    compiled: Mutex<HashMap<String, Arc<[u8]>>>,
    files: Mutex<HashMap<PathBuf, Arc<[u8]>>>,
    /// What was wrong with the last module that could not be had, in which file, and its name there.
    wrong: Mutex<Option<(SourceError, String, String)>>,
}

impl Sources {
    /// The content of a file, read once.
    pub(crate) fn file(&self, path: &Path) -> std::result::Result<Arc<[u8]>, SourceError> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = files.get(path) {
            return Ok(content.clone());
        }
        let unread = |words: String| SourceError::File { name: path.display().to_string(), words };
        let length = std::fs::metadata(path).map_err(|wrong| unread(wrong.to_string()))?.len();
        if length > FILE_MAX {
            return Err(unread(format!("{length} bytes are more than {FILE_MAX}")));
        }
        let content: Arc<[u8]> = std::fs::read(path).map_err(|wrong| unread(wrong.to_string()))?.into();
        files.insert(path.to_owned(), content.clone());
        Ok(content)
    }

    /// What was wrong with the last module that could not be had.
    pub(crate) fn take_wrong(&self) -> Option<(SourceError, String, String)> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn note(&self, wrong: SourceError, base: &str, name: &str) {
        let mut place = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        // The first one is that which the importing file names.
        place.get_or_insert_with(|| (wrong, base.to_owned(), name.to_owned()));
    }

    fn source_of(&self, name: &str) -> std::result::Result<String, SourceError> {
        if let Some(source) = builtin::source(name) {
            return Ok(source.to_owned());
        }
        if name.ends_with(".ts") || name.ends_with(".tsx") {
            return Err(SourceError::TypeScript(name.to_owned()));
        }
        let unread = |words: String| SourceError::Unread { name: name.to_owned(), words };
        let content = self.file(Path::new(name)).map_err(|wrong| match wrong {
            SourceError::File { words, .. } => unread(words),
            other => other,
        })?;
        let text = std::str::from_utf8(&content).map_err(|wrong| unread(format!("it is no UTF-8: {wrong}")))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Ok(if name.ends_with(".json") {
            format!("export default JSON.parse({});", serde_json::Value::from(text))
        } else if is_common(text) {
            as_module(text)
        } else {
            text.to_owned()
        })
    }

    /// A module's code for a runtime: compiled by the first one, and read by the others.
    pub(super) fn module<'js>(&self, ctx: &Ctx<'js>, name: &str) -> Result<Module<'js, Declared>> {
        let known = self.compiled.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(code) = known {
            // SAFETY: this version of the engine wrote these bytes, and they are not changed.
            return unsafe { Module::load(ctx.clone(), &code) };
        }
        let source = match self.source_of(name) {
            Ok(source) => source,
            Err(wrong) => {
                let error = Error::new_loading_message(name, wrong.to_string());
                self.note(wrong, name, "");
                return Err(error);
            }
        };
        let module = Module::declare(ctx.clone(), name, source)?;
        // Places in modules of the program tell users nothing, and every user's runtime would hold them.
        let strip_debug = builtin::source(name).is_some();
        let code = module.write(WriteOptions { strip_source: true, strip_debug, ..WriteOptions::default() })?;
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), code.into());
        Ok(module)
    }

    /// The name of a module that another imports.
    pub(crate) fn resolve(&self, base: &str, name: &str) -> std::result::Result<String, SourceError> {
        // Modules of the program's own are for each other.
        let is_own = name.starts_with("weir:") && builtin::source(base).is_none();
        if builtin::source(name).is_some() && !is_own {
            return Ok(name.to_owned());
        }
        if let Some(words) = builtin::refusal(name) {
            return Err(SourceError::Refused(words));
        }
        if let Some(ours) = builtin::of_jslib(name) {
            return Ok(ours.to_owned());
        }
        if name.starts_with("https://") || name.starts_with("http://") {
            return Err(SourceError::Remote(name.to_owned()));
        }
        let path = name.strip_prefix("file://").unwrap_or(name);
        if !(path.starts_with("./") || path.starts_with("../") || path.starts_with('/')) {
            return Err(SourceError::Bare(name.to_owned()));
        }
        let found = beside(base, path);
        if !found.is_file() {
            let words = format!("there is no file {}", found.display());
            return Err(SourceError::Unread { name: name.to_owned(), words });
        }
        Ok(found.display().to_string())
    }
}

/// A path as seen from the file `base`, without `.` and `..`.
pub(super) fn beside(base: &str, path: &str) -> PathBuf {
    let path = path.strip_prefix("file://").unwrap_or(path);
    let joined = Path::new(base).parent().unwrap_or(Path::new("")).join(path);
    let mut plain = PathBuf::new();
    for part in joined.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// Whether a file is a CommonJS module: it exports as such, and neither imports nor exports as ES modules do.
fn is_common(text: &str) -> bool {
    let mut exports = false;
    for line in text.lines() {
        let line = line.trim_start();
        let is_word =
            |word: &str| line.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', '{', '*', '"', '\'', '\t']));
        if is_word("import") || is_word("export") {
            return false;
        }
        exports |= line.starts_with("exports.") || line.contains("module.exports") || line.contains("require(");
        exports |= line.starts_with("exports[");
    }
    exports
}

/// A CommonJS module as an ES module: on one line before and after, so that the lines' numbers stay.
fn as_module(text: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (at, _) in text.match_indices("exports.") {
        let rest = &text[at + "exports.".len()..];
        let end = rest.find(|sign: char| !(sign.is_ascii_alphanumeric() || sign == '_' || sign == '$'));
        let name = &rest[..end.unwrap_or(rest.len())];
        let is_set = rest[name.len()..].trim_start().strip_prefix('=').is_some_and(|rest| !rest.starts_with('='));
        if is_set && !name.is_empty() && name != "default" && !names.contains(&name) {
            names.push(name);
        }
    }
    let mut module = format!(
        "const module = {{ exports: {{}} }}; (function (module, exports) {{ {text}\n}})(module, module.exports); \
         export default module.exports; export const __common = true;"
    );
    for (at, name) in names.iter().enumerate() {
        // Writing to a text cannot fail.
        let _ = write!(module, " const __e{at} = module.exports.{name}; export {{ __e{at} as {name} }};");
    }
    module
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_resolved_from_the_importing_file() {
        let sources = Sources::default();
        assert_eq!(beside("/a/b/main.js", "../c/./x.js"), Path::new("/a/c/x.js"));
        assert_eq!(beside("/a/main.js", "file:///t/x.js"), Path::new("/t/x.js"));
        assert!(matches!(sources.resolve("/a/main.js", "./none.js"), Err(SourceError::Unread { .. })));
        assert_eq!(sources.resolve("/a/main.js", "k6/http").unwrap(), "k6/http");
        let jslib = "https://jslib.k6.io/k6-utils/1.4.0/index.js";
        assert_eq!(sources.resolve("/a/main.js", jslib).unwrap(), "weir:jslib/k6-utils");
        assert!(matches!(sources.resolve("/a/main.js", "k6/net/grpc"), Err(SourceError::Refused(_))));
        assert!(matches!(sources.resolve("/a/main.js", "https://x/y.js"), Err(SourceError::Remote(_))));
        assert!(matches!(sources.resolve("/a/main.js", "lodash"), Err(SourceError::Bare(_))));
        assert!(matches!(sources.resolve("/a/main.js", "weir:sockets"), Err(SourceError::Bare(_))));
        assert_eq!(sources.resolve("k6/ws", "weir:sockets").unwrap(), "weir:sockets");
    }

    #[test]
    fn common_modules_are_told_from_others() {
        assert!(is_common("const x = require('k6');\nexports.default = function () {};"));
        assert!(!is_common("import http from 'k6/http';\nmodule.exports = 1"));
        assert!(!is_common("function f() {}"));
        assert!(as_module("exports.a = 1; if (exports.a == 1) {}").matches("export {").count() == 1);
    }
}
