//! Apache's `.htaccess`, with those of the directories below it.
//!
//! `tree.rs` reads the text, `paths.rs` says for which paths a section is, `requires.rs` who may come, `rewrites.rs`
//! makes routes of rules, `fields.rs` sets fields. Files that PHP runs are handed to FastCGI, as they would be shown as
//! text otherwise.

mod conditions;
mod directory;
mod fields;
mod paths;
mod requires;
mod rewrites;
mod tree;

use crate::document::{Document, Host, Table, quoted};
use crate::files::{Files, folder_of};
use crate::report::Report;
use crate::{BYTES_MAX, ImportError, Wanted};
use directory::Directory;

/// Where PHP of Debian answers.
const PHP: &str = "unix:/run/php/php-fpm.sock";
const DIRECTORIES_MAX: usize = 256;

/// Translates a file for the directory in which it lies.
pub(crate) fn import(
    name: &str,
    text: &str,
    wanted: &Wanted,
    files: &dyn Files,
) -> Result<(Document, Report), ImportError> {
    let mut report = Report::default();
    let root = wanted.root.clone().unwrap_or_else(|| wanted.folder.clone());
    let mut trees = vec![("/".to_owned(), tree::read(name, text)?)];
    let mut bytes = text.len();
    for path in files.below(&root, ".htaccess").into_iter().take(DIRECTORIES_MAX) {
        let Some(inner) = folder_of(&path).strip_prefix(root.trim_end_matches('/')).filter(|inner| !inner.is_empty())
        else {
            continue;
        };
        let Some(text) = files.read(&path) else { continue };
        bytes += text.len();
        if bytes > BYTES_MAX {
            break;
        }
        let directory = format!("{inner}/");
        trees.push((directory, tree::read(&path, &text)?));
    }
    trees.sort_by_key(|(directory, _)| directory.len());
    let mut host = Host::default();
    host.table.text("root", &root);
    php(wanted, &mut host);
    let mut directories = Vec::new();
    for (path, tree) in &trees {
        let mut directory = Directory::new(path, &root, files);
        directory.read(tree, &mut report);
        directories.push(directory);
    }
    // Rules of a directory take the place of those above it.
    for directory in directories.iter_mut().rev() {
        host.routes.append(&mut directory.refusals);
        host.routes.append(&mut directory.rules.routes);
    }
    let (mut of_directories, mut of_files) = (Vec::new(), Vec::new());
    for directory in &mut directories {
        of_directories.append(&mut directory.tables);
        of_files.append(&mut directory.file_tables);
    }
    if let Some(top) = directories.first() {
        for (key, value) in &top.site.entries {
            host.table.raw(key, value.clone());
        }
        host.table.comments.extend(top.site.comments.clone());
    }
    if !host.table.has("listing") {
        host.table.raw("listing", "false");
    }
    host.paths.extend(of_directories);
    host.paths.extend(of_files);
    let mut document = Document { hosts: vec![host], ..Document::default() };
    document.top.comment(format!("{name} says how {root} is served; where to listen and TLS are the server's."));
    document.top.list("listen", &["127.0.0.1:8080"]);
    Ok((document, report))
}

/// Scripts go to PHP; names that Debian's PHP takes as well are refused, as weir would send them as they are.
fn php(wanted: &Wanted, host: &mut Host) {
    let address = wanted.php.as_deref().unwrap_or(PHP);
    for glob in ["**.php", "**.php/**"] {
        let mut table = Table::default();
        if glob == "**.php" {
            table.comment("Scripts of PHP, which Apache runs itself, go to php-fpm.");
        }
        table.text("glob", glob);
        table.text("fastcgi", address);
        host.paths.push(table);
    }
    let mut route = Table::default();
    route.comment("Apache runs or hides these; as files they would show their source.");
    route.raw("regex", quoted("(?i)\\.(phtml|phar|phps|php[3-8]?)$"));
    route.raw("not", "{ glob = \"**.php\" }");
    route.raw("fail", "403");
    host.routes.push(route);
}
