//! The server that operations go to.

use crate::openapi::document::{Document, Version};
use crate::tree::Node;

/// What addresses begin with, without a slash at its end: of the first server, with the defaults of its variables.
/// Relative ones begin with a slash; none where nothing is said.
pub(super) fn base(document: &Document<'_>, servers: &[Node]) -> Option<String> {
    base_or_path(document, servers).filter(|base| base.contains("://"))
}

/// The path of a server that says none: relative addresses begin with it.
pub(super) fn prefix(document: &Document<'_>) -> String {
    let base = base_or_path(document, document.root.list_of("servers"));
    base.filter(|base| !base.contains("://")).unwrap_or_default()
}

/// Of a path or an operation that has servers of its own, the first; none otherwise.
pub(super) fn own(document: &Document<'_>, nodes: [&Node; 2]) -> Option<String> {
    let servers = nodes.into_iter().map(|node| node.list_of("servers")).find(|servers| !servers.is_empty())?;
    of_first(document, servers)
}

fn base_or_path(document: &Document<'_>, servers: &[Node]) -> Option<String> {
    match document.version {
        Version::Three => of_first(document, servers),
        Version::Two => of_two(document.root),
    }
}

/// Swagger 2.0: scheme, host and path apart.
fn of_two(root: &Node) -> Option<String> {
    let path = root.text_of("basePath").unwrap_or_default().trim_end_matches('/');
    let Some(host) = root.text_of("host") else { return Some(path.to_owned()) };
    let schemes: Vec<&str> = root.list_of("schemes").iter().filter_map(Node::text).collect();
    let scheme = ["https", "http"].into_iter().find(|scheme| schemes.contains(scheme)).unwrap_or("http");
    Some(format!("{scheme}://{host}{path}"))
}

fn of_first(document: &Document<'_>, servers: &[Node]) -> Option<String> {
    let first = servers.first()?;
    let mut url = first.text_of("url")?.to_owned();
    for (name, line, variable) in first.entries_of("variables") {
        let set = document.wanted.set.get(name).cloned();
        let default = variable.get("default").and_then(Node::scalar);
        let first_of = || variable.list_of("enum").first().and_then(Node::scalar);
        match set.or(default).or_else(first_of) {
            Some(value) => url = url.replace(&format!("{{{name}}}"), &value),
            None => {
                let remedy = format!("write default: below it, or give --set {name}=VALUE");
                document.report.wrong((*line, 1), format!("the variable {name} of the server has no default"), remedy);
            }
        }
    }
    if let Some((_, rest)) = url.split_once('{') {
        let name = rest.split('}').next().unwrap_or_default();
        let what = format!("the server's URL has a variable {name} that is not defined");
        document.report.wrong(first.at(), what, "define it below variables:");
        return None;
    }
    Some(url.trim_end_matches('/').to_owned())
}
