//! `k6/html`: pages as trees, whose nodes scripts hold by numbers.

use super::giving::{give, thrown};
use crate::html::{Dom, Node, NodeId, Selector};
use crate::script::state::State;
use rquickjs::{Ctx, Object, Result};
use std::rc::Rc;

/// The most pages of an iteration.
const PAGES_MAX: usize = 1000;

pub(super) fn install<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let own = state.clone();
    give!(ctx, host, "htmlParse", move |ctx: Ctx<'js>, text: String| -> Result<u64> {
        let mut pages = own.pages.borrow_mut();
        if pages.1.len() >= PAGES_MAX {
            return Err(thrown(&ctx, format!("an iteration reads at most {PAGES_MAX} pages of HTML")));
        }
        pages.1.push(Rc::new(Dom::parse(&text)));
        Ok(pages.0 + pages.1.len() as u64 - 1)
    });
    let own = state.clone();
    give!(ctx, host, "htmlFind", move |ctx: Ctx<'js>,
                                       page: u64,
                                       nodes: Vec<NodeId>,
                                       selector: String|
          -> Result<Vec<NodeId>> {
        let (dom, selector) = (page_of(&ctx, &own, page)?, read(&ctx, &selector)?);
        let mut found: Vec<NodeId> = Vec::new();
        for node in nodes {
            found.extend(dom.descendants(node).into_iter().filter(|at| selector.matches(&dom, *at)));
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    });
    let own = state.clone();
    give!(ctx, host, "htmlFilter", move |ctx: Ctx<'js>,
                                         page: u64,
                                         nodes: Vec<NodeId>,
                                         selector: String|
          -> Result<Vec<NodeId>> {
        let (dom, selector) = (page_of(&ctx, &own, page)?, read(&ctx, &selector)?);
        Ok(nodes.into_iter().filter(|at| selector.matches(&dom, *at)).collect())
    });
    let own = state.clone();
    give!(ctx, host, "htmlMove", move |ctx: Ctx<'js>, page: u64, node: NodeId, way: String| -> Result<Vec<NodeId>> {
        let dom = page_of(&ctx, &own, page)?;
        Ok(moved(&dom, node, &way))
    });
    let own = state.clone();
    give!(ctx, host, "htmlTell", move |ctx: Ctx<'js>,
                                       page: u64,
                                       node: NodeId,
                                       what: String,
                                       name: String|
          -> Result<Option<String>> {
        let dom = page_of(&ctx, &own, page)?;
        Ok(told(&dom, node, &what, &name))
    });
    let own = state.clone();
    give!(ctx, host, "htmlAttributes", move |ctx: Ctx<'js>, page: u64, node: NodeId| -> Result<Vec<Vec<String>>> {
        let dom = page_of(&ctx, &own, page)?;
        Ok(dom.attributes(node).iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect())
    });
    Ok(())
}

fn page_of(ctx: &Ctx<'_>, state: &State, page: u64) -> Result<Rc<Dom>> {
    let pages = state.pages.borrow();
    let found = page.checked_sub(pages.0).and_then(|at| pages.1.get(usize::try_from(at).ok()?).cloned());
    found.ok_or_else(|| thrown(ctx, "the page was read in an earlier iteration, and is there no more"))
}

fn read(ctx: &Ctx<'_>, selector: &str) -> Result<Selector> {
    Selector::parse(selector).map_err(|wrong| thrown(ctx, wrong))
}

/// Where one gets from a node.
fn moved(dom: &Dom, node: NodeId, way: &str) -> Vec<NodeId> {
    let siblings: Vec<NodeId> = dom.parent(node).map(|parent| dom.elements(parent).collect()).unwrap_or_default();
    let at = siblings.iter().position(|other| *other == node);
    match (way, at) {
        ("children", _) => dom.elements(node).collect(),
        ("contents", _) => dom.children(node).to_vec(),
        ("parent", _) => dom.parent(node).filter(|parent| dom.name(*parent).is_some()).into_iter().collect(),
        ("parents", _) => std::iter::successors(dom.parent(node), |parent| dom.parent(*parent))
            .filter(|parent| dom.name(*parent).is_some())
            .collect(),
        ("next", Some(at)) => siblings.get(at + 1).copied().into_iter().collect(),
        ("nextAll", Some(at)) => siblings[at + 1..].to_vec(),
        ("prev", Some(at)) => at.checked_sub(1).map(|at| siblings[at]).into_iter().collect(),
        ("prevAll", Some(at)) => siblings[..at].iter().rev().copied().collect(),
        ("siblings", Some(_)) => siblings.into_iter().filter(|other| *other != node).collect(),
        _ => Vec::new(),
    }
}

/// What a node is, in a text.
fn told(dom: &Dom, node: NodeId, what: &str, name: &str) -> Option<String> {
    match what {
        "text" => Some(dom.text(node)),
        "html" => Some(dom.inner_html(node)),
        "name" => dom.name(node).map(str::to_owned),
        "attr" => dom.attribute(node, name).map(str::to_owned),
        "kind" => Some(
            match dom.node(node)? {
                Node::Document => "document",
                Node::Element { .. } => "element",
                Node::Text(_) => "text",
                Node::Comment(_) => "comment",
            }
            .to_owned(),
        ),
        _ => None,
    }
}
