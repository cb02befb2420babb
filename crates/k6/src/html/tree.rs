//! The tree of a page. Elements without an end tag end where their neighbours say so, as browsers do in the usual cases;
//! `html`, `head` and `body` are there even where the page leaves them out.

use html5gum::{Token, Tokenizer};
use std::fmt::Write as _;

/// More nodes than these of a page are left out.
const NODES_MAX: usize = 1_000_000;
/// Deeper elements stand beside each other.
const DEPTH_MAX: usize = 512;

/// A node, by its place; 0 is the document.
pub(crate) type NodeId = usize;

/// What a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Document,
    Element { name: String, attributes: Vec<(String, String)> },
    Text(String),
    Comment(String),
}

#[derive(Debug)]
struct Place {
    node: Node,
    parent: Option<NodeId>,
    children: Vec<NodeId>,
}

/// A page.
#[derive(Debug)]
pub(crate) struct Dom {
    places: Vec<Place>,
}

const VOID: [&str; 14] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"];
const OF_HEAD: [&str; 7] = ["title", "meta", "link", "base", "style", "script", "noscript"];

/// The open elements that the start of one ends, and what hides them.
fn ends(name: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match name {
        "li" => (&["li"], &["ul", "ol", "menu"]),
        "dt" | "dd" => (&["dt", "dd"], &["dl"]),
        "option" => (&["option"], &["select", "datalist"]),
        "optgroup" => (&["option", "optgroup"], &["select"]),
        "tr" => (&["tr", "td", "th"], &["table"]),
        "td" | "th" => (&["td", "th"], &["tr", "table"]),
        "tbody" | "thead" | "tfoot" => (&["tbody", "thead", "tfoot", "tr", "td", "th"], &["table"]),
        "address" | "article" | "aside" | "blockquote" | "div" | "dl" | "fieldset" | "footer" | "form" | "h1"
        | "h2" | "h3" | "h4" | "h5" | "h6" | "header" | "hr" | "main" | "nav" | "ol" | "p" | "pre" | "section"
        | "table" | "ul" => (&["p"], &["button", "td", "th", "div", "body", "section", "article", "li"]),
        _ => (&[], &[]),
    }
}

impl Dom {
    /// Reads a page.
    pub(crate) fn parse(text: &str) -> Self {
        let mut dom = Self { places: vec![Place { node: Node::Document, parent: None, children: Vec::new() }] };
        let html = dom.add(0, element("html"));
        let head = dom.add(html, element("head"));
        let mut builder = Builder { dom, html, head, body: None, open: vec![head] };
        for Ok(token) in Tokenizer::new(text) {
            builder.take(token);
            if builder.dom.places.len() >= NODES_MAX {
                break;
            }
        }
        builder.body();
        builder.dom
    }

    fn add(&mut self, parent: NodeId, node: Node) -> NodeId {
        let at = self.places.len();
        self.places.push(Place { node, parent: Some(parent), children: Vec::new() });
        self.places[parent].children.push(at);
        at
    }

    pub(crate) fn node(&self, at: NodeId) -> Option<&Node> {
        self.places.get(at).map(|place| &place.node)
    }

    pub(crate) fn name(&self, at: NodeId) -> Option<&str> {
        match self.node(at) {
            Some(Node::Element { name, .. }) => Some(name),
            _ => None,
        }
    }

    pub(crate) fn attribute(&self, at: NodeId, wanted: &str) -> Option<&str> {
        self.attributes(at).iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn attributes(&self, at: NodeId) -> &[(String, String)] {
        match self.node(at) {
            Some(Node::Element { attributes, .. }) => attributes,
            _ => &[],
        }
    }

    pub(crate) fn parent(&self, at: NodeId) -> Option<NodeId> {
        self.places.get(at)?.parent
    }

    pub(crate) fn children(&self, at: NodeId) -> &[NodeId] {
        self.places.get(at).map(|place| &place.children[..]).unwrap_or_default()
    }

    /// The elements among the children.
    pub(crate) fn elements(&self, at: NodeId) -> impl DoubleEndedIterator<Item = NodeId> + '_ {
        self.children(at).iter().copied().filter(|child| self.name(*child).is_some())
    }

    /// All that a node holds, in the order of the page.
    pub(crate) fn descendants(&self, at: NodeId) -> Vec<NodeId> {
        let mut found = Vec::new();
        let mut rest: Vec<NodeId> = self.children(at).iter().rev().copied().collect();
        while let Some(next) = rest.pop() {
            found.push(next);
            rest.extend(self.children(next).iter().rev());
        }
        found
    }

    /// All text that a node holds.
    pub(crate) fn text(&self, at: NodeId) -> String {
        if let Some(Node::Text(text)) = self.node(at) {
            return text.clone();
        }
        let texts = self.descendants(at).into_iter().filter_map(|node| match self.node(node) {
            Some(Node::Text(text)) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// What a node holds, as HTML.
    pub(crate) fn inner_html(&self, at: NodeId) -> String {
        let mut text = String::new();
        self.children(at).iter().for_each(|child| self.write(*child, &mut text));
        text
    }

    fn write(&self, at: NodeId, text: &mut String) {
        match self.node(at) {
            Some(Node::Element { name, attributes }) => {
                let _ = write!(text, "<{name}");
                for (key, value) in attributes {
                    let _ = write!(text, " {key}=\"{}\"", value.replace('&', "&amp;").replace('"', "&#34;"));
                }
                text.push('>');
                if VOID.contains(&name.as_str()) {
                    return;
                }
                self.children(at).iter().for_each(|child| self.write(*child, text));
                let _ = write!(text, "</{name}>");
            }
            Some(Node::Text(own)) => {
                let is_raw = self
                    .parent(at)
                    .and_then(|parent| self.name(parent))
                    .is_some_and(|name| matches!(name, "script" | "style" | "noscript"));
                if is_raw {
                    text.push_str(own);
                } else {
                    text.push_str(&own.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"));
                }
            }
            Some(Node::Comment(own)) => {
                let _ = write!(text, "<!--{own}-->");
            }
            Some(Node::Document) | None => {}
        }
    }
}

fn element(name: &str) -> Node {
    Node::Element { name: name.to_owned(), attributes: Vec::new() }
}

/// A tree that grows.
struct Builder {
    dom: Dom,
    html: NodeId,
    head: NodeId,
    body: Option<NodeId>,
    /// The open elements, the innermost last.
    open: Vec<NodeId>,
}

impl Builder {
    /// The body, which begins now if it has not.
    fn body(&mut self) -> NodeId {
        match self.body {
            Some(body) => body,
            None => {
                let body = self.dom.add(self.html, element("body"));
                self.body = Some(body);
                self.open = vec![body];
                body
            }
        }
    }

    fn innermost(&self) -> NodeId {
        self.open.last().copied().unwrap_or(self.body.unwrap_or(self.head))
    }

    fn take(&mut self, token: Token) {
        match token {
            Token::StartTag(tag) => {
                let name = String::from_utf8_lossy(&tag.name).into_owned();
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let attributes = tag.attributes.iter().map(|(name, value)| (text(name), text(value))).collect();
                self.start(name, attributes, tag.self_closing);
            }
            Token::EndTag(tag) => self.end(&String::from_utf8_lossy(&tag.name)),
            Token::String(text) => self.text(&String::from_utf8_lossy(&text)),
            Token::Comment(text) => {
                let at = self.innermost();
                self.dom.add(at, Node::Comment(String::from_utf8_lossy(&text).into_owned()));
            }
            Token::Doctype(_) | Token::Error(_) => {}
        }
    }

    fn start(&mut self, name: String, attributes: Vec<(String, String)>, closes: bool) {
        let takes = match name.as_str() {
            "html" => Some(self.html),
            "head" => Some(self.head),
            "body" => Some(self.body()),
            _ => None,
        };
        if let Some(at) = takes {
            if let Node::Element { attributes: own, .. } = &mut self.dom.places[at].node {
                own.extend(attributes);
            }
            return;
        }
        if self.body.is_none() && !OF_HEAD.contains(&name.as_str()) {
            self.body();
        }
        let (ended, hide) = ends(&name);
        while let Some(at) = self
            .open
            .iter()
            .rposition(|at| self.dom.name(*at).is_some_and(|open| ended.contains(&open) || hide.contains(&open)))
        {
            if !self.dom.name(self.open[at]).is_some_and(|open| ended.contains(&open)) {
                break;
            }
            self.open.truncate(at);
        }
        if name == "tr" && self.dom.name(self.innermost()) == Some("table") {
            let at = self.innermost();
            let body = self.dom.add(at, element("tbody"));
            self.open.push(body);
        }
        let at = self.innermost();
        let is_void = closes || VOID.contains(&name.as_str());
        let at = self.dom.add(at, Node::Element { name, attributes });
        if !is_void && self.open.len() < DEPTH_MAX {
            self.open.push(at);
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "head" | "html" | "body" => {
                if name == "head" {
                    self.open.truncate(1);
                }
            }
            _ => {
                // The first of the open ones is the head or the body, which ends with the page.
                let found = self.open.iter().skip(1).rposition(|at| self.dom.name(*at) == Some(name));
                if let Some(at) = found {
                    self.open.truncate(at + 1);
                }
            }
        }
    }

    fn text(&mut self, text: &str) {
        let in_head = self.body.is_none() && self.open.len() <= 1;
        if in_head && !text.trim_ascii().is_empty() {
            self.body();
        }
        let at = self.innermost();
        if let Some(last) = self.dom.places[at].children.last().copied()
            && let Node::Text(before) = &mut self.dom.places[last].node
        {
            before.push_str(text);
            return;
        }
        self.dom.add(at, Node::Text(text.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_a_tree() {
        let dom = Dom::parse("<!doctype html><title>a &amp; b</title><p class=x>one<p>two<ul><li>1<li>2</ul><br>end");
        assert_eq!(
            dom.inner_html(0),
            "<html><head><title>a &amp; b</title></head><body><p class=\"x\">one</p><p>two</p><ul><li>1</li><li>2</li>\
             </ul><br>end</body></html>"
        );
        assert_eq!(dom.text(0), "a & bonetwo12end");
    }

    #[test]
    fn rows_of_a_table_are_in_its_body() {
        let dom = Dom::parse("<table><tr><td>a<td>b<tr><th>c</table>d");
        let table = "<table><tbody><tr><td>a</td><td>b</td></tr><tr><th>c</th></tr></tbody></table>d";
        assert_eq!(dom.inner_html(0), format!("<html><head></head><body>{table}</body></html>"));
    }
}
