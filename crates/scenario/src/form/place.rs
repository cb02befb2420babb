//! Where steps stand, and what they have if they do not say.

use crate::form::document::Value;
use crate::form::scopes::Known;
use crate::form::template::Template;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weir_load::Statuses;

/// The most bytes of a file that is a body.
const BODY_FILE_MAX: u64 = 16 << 20;

/// What steps have if they do not say.
#[derive(Debug, Clone)]
pub(crate) struct Defaults {
    pub(crate) headers: Vec<(String, Template)>,
    pub(crate) timeout: Duration,
    pub(crate) redirects_max: u32,
    pub(crate) ok: Option<Arc<Statuses>>,
    /// Tags of the scenario.
    pub(crate) tags: Vec<(String, String)>,
}

/// Where steps stand.
#[derive(Debug, Clone)]
pub(crate) struct Place<'k> {
    pub(crate) known: &'k Known,
    pub(crate) defaults: &'k Defaults,
    /// The text of the file, and the folder that relative paths begin at.
    pub(crate) text: &'k str,
    pub(crate) folder: &'k Path,
    /// The group, with those around it before it and ` / ` between.
    pub(crate) group: Arc<str>,
    pub(crate) depth: usize,
}

impl Place<'_> {
    pub(crate) fn line_of(&self, at: usize) -> usize {
        self.text.get(..at).unwrap_or_default().matches('\n').count() + 1
    }

    /// The group and those around it.
    pub(crate) fn groups(&self) -> Vec<String> {
        let parts: Vec<&str> = self.group.split(" / ").collect();
        (1..=parts.len()).map(|count| parts[..count].join(" / ")).collect()
    }

    /// The text of a file that a value names.
    pub(crate) fn file(&self, value: Value<'_, '_>, name: &str) -> Option<String> {
        match text_of(&self.folder.join(name), BODY_FILE_MAX) {
            Ok(text) => Some(text),
            Err(error) => {
                value.wrong(format!("{name}: {error}"), "give a file of text that can be read, relative to this one");
                None
            }
        }
    }
}

/// The text of a file, within a bound.
pub(crate) fn text_of(path: &Path, most: u64) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(std::io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(text)
}
