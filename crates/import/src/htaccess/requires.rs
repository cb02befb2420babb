//! Who may come, as `.htaccess` says it: `Require`, and `Order`, `Allow` and `Deny` of Apache 2.2.

use crate::access::{Network, Rule, first_counts};
use crate::directive::Directive;

/// Who may come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// `allow` and `deny` of weir; none if nothing is said of networks.
    pub(crate) networks: Option<(Vec<String>, Vec<String>)>,
    /// Who has a password of the file of users.
    pub(crate) has_password: bool,
}

/// What cannot be said, so that all are refused: a directive and why.
#[derive(Debug)]
pub(crate) struct Unsaid<'t> {
    pub(crate) directive: &'t Directive,
    pub(crate) why: &'static str,
}

fn is(directive: &Directive, name: &str) -> bool {
    directive.name.eq_ignore_ascii_case(name)
}

const NAMES: [&str; 10] = [
    "require",
    "order",
    "allow",
    "deny",
    "satisfy",
    "<requireall>",
    "<requireany>",
    "<requirenone>",
    "sslrequiressl",
    "sslrequire",
];

/// Whether a directive is about who may come.
pub(crate) fn is_about(directive: &Directive) -> bool {
    NAMES.iter().any(|name| is(directive, name))
}

/// Reads all of a block; none if it says nothing.
///
/// # Errors
///
/// Something that weir cannot say.
pub(crate) fn read<'t>(block: &[&'t Directive]) -> Result<Option<Admitted>, Unsaid<'t>> {
    let about: Vec<&Directive> = block.iter().copied().filter(|directive| is_about(directive)).collect();
    about.iter().for_each(|directive| tell_all(directive));
    let has_old = about.iter().any(|one| ["order", "allow", "deny"].iter().any(|name| is(one, name)));
    let requires: Vec<&Directive> = about.iter().copied().filter(|one| is_require(one)).collect();
    if let Some(other) = about.iter().find(|one| is(one, "sslrequire") || is(one, "<requirenone>")) {
        return Err(Unsaid { directive: other, why: "weir has no such condition" });
    }
    let is_any = |one: &&&Directive| is(one, "satisfy") && one.argument(0).eq_ignore_ascii_case("any");
    if let Some(satisfy) = about.iter().find(is_any).filter(|_| has_old && !requires.is_empty()) {
        return Err(Unsaid { directive: satisfy, why: "weir asks for the network and for the password" });
    }
    let old = if has_old { Some(by_order(&about)?) } else { None };
    let new = if requires.is_empty() { None } else { Some(any(&requires)?) };
    Ok(match (old, new) {
        (None, None) => None,
        (Some(networks), None) => Some(Admitted { networks: Some(networks), has_password: false }),
        (None, Some(admitted)) => Some(admitted),
        (Some(networks), Some(admitted)) if admitted.networks.is_none() => {
            Some(Admitted { networks: Some(networks), ..admitted })
        }
        (Some(_), Some(_)) => {
            let first = about.first().copied();
            return match first {
                Some(directive) => Err(Unsaid { directive, why: "networks are said in two ways" }),
                None => Ok(None),
            };
        }
    })
}

fn tell_all(directive: &Directive) {
    directive.told();
    directive.children().iter().for_each(tell_all);
}

fn is_require(directive: &Directive) -> bool {
    ["require", "<requireall>", "<requireany>"].iter().any(|name| is(directive, name))
}

/// `Order`: of `deny,allow` the networks that are allowed come first, and others are let in.
fn by_order<'t>(about: &[&'t Directive]) -> Result<(Vec<String>, Vec<String>), Unsaid<'t>> {
    let order = about.iter().rev().find(|one| is(one, "order"));
    let order = order.map(|one| one.arguments.join("").to_ascii_lowercase());
    let allow_last = order.as_deref().is_none_or(|order| order == "deny,allow");
    let rules = |name: &str| -> Result<Vec<Rule>, Unsaid<'t>> {
        let mut rules = Vec::new();
        for directive in about.iter().filter(|one| is(one, name)) {
            let words = directive.arguments.iter().filter(|word| !word.eq_ignore_ascii_case("from"));
            for word in words {
                for network in networks(word).ok_or(Unsaid { directive, why: "weir knows networks, and no names" })? {
                    rules.push(Rule { lets_in: name == "allow", network });
                }
            }
        }
        Ok(rules)
    };
    let (allowed, denied) = (rules("allow")?, rules("deny")?);
    Ok(if allow_last {
        first_counts(&[allowed, denied].concat(), true)
    } else {
        first_counts(&[denied, allowed].concat(), false)
    })
}

/// The networks of a word; none if it is none.
fn networks(word: &str) -> Option<Vec<Network>> {
    if word.eq_ignore_ascii_case("localhost") {
        return Some(vec![Network::read("127.0.0.0/8")?, Network::read("::1")?]);
    }
    Network::read(word).map(|network| vec![network])
}

/// One of these is enough.
fn any<'t>(requires: &[&'t Directive]) -> Result<Admitted, Unsaid<'t>> {
    let each: Vec<Admitted> = requires.iter().map(|one| single(one)).collect::<Result<_, _>>()?;
    if let [one] = each.as_slice() {
        return Ok(one.clone());
    }
    let lets_all_in = |one: &Admitted| *one == Admitted::default();
    if each.iter().any(lets_all_in) {
        return Ok(Admitted::default());
    }
    if each.iter().all(|one| one.has_password && one.networks.is_none()) {
        return Ok(Admitted { networks: None, has_password: true });
    }
    let mut allow: Vec<String> = Vec::new();
    for (one, directive) in each.iter().zip(requires) {
        let plain = one.networks.as_ref().filter(|_| !one.has_password);
        let Some((own, denied)) = plain else {
            return Err(Unsaid { directive, why: "weir asks for the network and for the password" });
        };
        if denied.iter().any(|network| network != "all") {
            return Err(Unsaid { directive, why: "it excepts networks from others" });
        }
        allow.extend(own.iter().filter(|network| !allow.contains(network)).cloned().collect::<Vec<_>>());
    }
    let deny = if allow.is_empty() { vec!["all".to_owned()] } else { Vec::new() };
    Ok(Admitted { networks: Some((allow, deny)), has_password: false })
}

/// All of these are asked for.
fn all<'t>(of: &'t Directive) -> Result<Admitted, Unsaid<'t>> {
    let mut whole = Admitted::default();
    let mut denied: Vec<Rule> = Vec::new();
    for directive in of.children() {
        if is(directive, "require") && directive.argument(0).eq_ignore_ascii_case("not") {
            if !directive.argument(1).eq_ignore_ascii_case("ip") {
                return Err(Unsaid { directive, why: "weir has no such condition" });
            }
            for word in &directive.arguments[2..] {
                let network = Network::read(word).ok_or(Unsaid { directive, why: "it names no network" })?;
                denied.push(Rule { lets_in: false, network });
            }
            continue;
        }
        if !is_require(directive) {
            return Err(Unsaid { directive, why: "weir has no such condition" });
        }
        let one = single(directive)?;
        whole.has_password |= one.has_password;
        match (&whole.networks, one.networks) {
            (_, None) => {}
            (None, networks) => whole.networks = networks,
            (Some(_), Some(_)) => return Err(Unsaid { directive, why: "two lists of networks must hold" }),
        }
    }
    if !denied.is_empty() {
        let Some((allow, deny)) = whole.networks.take() else {
            whole.networks = Some(first_counts(&denied, true));
            return Ok(whole);
        };
        // Those that are let in, but for those that are not.
        let mut rules = denied;
        rules.extend(allow.iter().filter_map(|one| Network::read(one)).map(|network| Rule { lets_in: true, network }));
        if deny.iter().any(|network| network != "all") {
            return Err(Unsaid { directive: of, why: "two lists of networks must hold" });
        }
        whole.networks = Some(first_counts(&rules, false));
    }
    Ok(whole)
}

fn single(directive: &Directive) -> Result<Admitted, Unsaid<'_>> {
    if is(directive, "<requireall>") {
        return all(directive);
    }
    if is(directive, "<requireany>") {
        let children: Vec<&Directive> = directive.children().iter().collect();
        if children.is_empty() || !children.iter().all(|one| is_require(one)) {
            return Err(Unsaid { directive, why: "weir has no such condition" });
        }
        return any(&children);
    }
    let unsaid = |why| Err(Unsaid { directive, why });
    let words: Vec<String> = directive.arguments.iter().map(|word| word.to_ascii_lowercase()).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["all", "granted"] => Ok(Admitted::default()),
        ["all", "denied"] => Ok(denied_to_all()),
        ["valid-user"] => Ok(Admitted { networks: None, has_password: true }),
        ["local"] => {
            let near = vec!["127.0.0.0/8".to_owned(), "::1".to_owned()];
            Ok(Admitted { networks: Some((near, Vec::new())), has_password: false })
        }
        ["ip", networks @ ..] if !networks.is_empty() => {
            let read: Option<Vec<String>> =
                networks.iter().map(|word| Network::read(word).map(|network| network.text())).collect();
            match read {
                Some(allow) => Ok(Admitted { networks: Some((allow, Vec::new())), has_password: false }),
                None => unsaid("it names no network"),
            }
        }
        ["user" | "group" | "file-owner" | "file-group", ..] => {
            unsaid("weir lets in all users of a file: give those a file of their own")
        }
        _ => unsaid("weir has no such condition"),
    }
}

/// No client is let in.
pub(crate) fn denied_to_all() -> Admitted {
    Admitted { networks: Some((Vec::new(), vec!["all".to_owned()])), has_password: false }
}
