//! Applying settings to a configuration.

use crate::configuration::{Configuration, Directive, Entry, Place, Syntax};
use crate::finding::Setting;

/// A place that no file has, for what is added.
pub(super) const NOWHERE: Place = Place { file: usize::MAX, line: 0 };

/// Applies a setting: where it stands, else in the section that it belongs in.
pub(super) fn apply(configuration: &mut Configuration, setting: &Setting) {
    if let Some(place) = setting.place {
        for entry in &mut configuration.entries {
            if let Entry::Set(directive) = entry
                && directive.place == place
                && directive.name == setting.name
            {
                directive.raw.clone_from(&setting.proposed);
            }
        }
        return;
    }
    add(configuration, &setting.scope, &setting.name, &setting.proposed);
}

/// Adds a directive to a section, which is made if it is not there.
pub(super) fn add(configuration: &mut Configuration, scope: &[String], name: &str, raw: &str) {
    let entry = Entry::Set(Directive { name: name.to_owned(), raw: raw.to_owned(), place: NOWHERE });
    if scope.is_empty() {
        // nginx and Apache read the top level wherever it stands, but php-fpm's last section is never over.
        let at = if configuration.syntax == Syntax::Apache { configuration.entries.len() } else { 0 };
        configuration.entries.insert(at, entry);
        return;
    }
    match begin(configuration, scope) {
        Some(at) => configuration.entries.insert(at + 1, entry),
        None => {
            let section = scope.last().cloned().unwrap_or_default();
            let (name, raw) = section.split_once(' ').unwrap_or((&section, ""));
            let open = Directive { name: name.to_owned(), raw: raw.to_owned(), place: NOWHERE };
            configuration.entries.extend([Entry::Open(open), entry, Entry::Close]);
        }
    }
}

/// The index of the entry that opens a section.
fn begin(configuration: &Configuration, scope: &[String]) -> Option<usize> {
    let mut path: Vec<String> = Vec::new();
    for (at, entry) in configuration.entries.iter().enumerate() {
        match entry {
            Entry::Open(directive) => {
                path.push(format!("{} {}", directive.name, directive.raw).trim().to_owned());
                if path == scope {
                    return Some(at);
                }
            }
            Entry::Close => drop(path.pop()),
            Entry::Set(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::{ini, nginx};

    #[test]
    fn a_setting_is_changed_where_it_stands() {
        let entries = ini::parse("[a]\npm.max_children = 1\n[b]\npm.max_children = 2\n", 0).expect("ours");
        let mut configuration = Configuration { files: vec!["f".into()], entries, ..Configuration::empty(Syntax::Ini) };
        let setting = {
            let found = configuration.all("pm.max_children");
            Setting::of(0, &configuration, &found[1], "9")
        };
        apply(&mut configuration, &setting);
        assert_eq!(configuration.text(), "[a]\npm.max_children = 1\n\n[b]\npm.max_children = 9\n\n");
        add(&mut configuration, &["global".to_owned()], "daemonize", "no");
        assert!(configuration.text().ends_with("[global]\ndaemonize = no\n\n"));
    }

    #[test]
    fn a_setting_that_is_not_there_goes_into_its_section() {
        let entries = nginx::parse("events { } http { server { listen 1; } }", 0).expect("ours");
        let mut configuration =
            Configuration { files: vec!["f".into()], entries, ..Configuration::empty(Syntax::Nginx) };
        let setting = Setting::added(0, &configuration, "sendfile", &["http".to_owned()], "off", "on");
        assert_eq!((setting.line, setting.text.as_str()), (None, "sendfile on;"));
        apply(&mut configuration, &setting);
        assert!(configuration.text().contains("http {\nsendfile on;\nserver {"), "{}", configuration.text());
    }
}
