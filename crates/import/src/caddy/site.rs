//! The directives of a site of Caddy, in the order in which Caddy takes them, as routes and tables.

use super::matchers::{self, Matcher};
use super::proxies::{self, Proxied};
use crate::condition::Condition;
use crate::directive::Directive;
use crate::document::{Host, Table, inline, list, quoted};
use crate::files::{Files, join};
use crate::headers::Fields;
use crate::report::Report;
use crate::templates::{self, Piece};
use crate::upstreams::Speaks;
use crate::users;
use base64::Engine;
use std::collections::BTreeMap;

/// What weir does by itself.
const IDLE: [&str; 6] = ["encode", "bind", "log_skip", "skip_log", "metrics", "tracing"];
/// What keeps clients away in a way that weir has not.
const GUARDS: [&str; 5] = ["forward_auth", "authorize", "authenticate", "jwtauth", "rate_limit"];
/// The order of what answers: a later one is asked first, so that its tables say the last word.
const ANSWERS: [&str; 9] =
    ["file_server", "php_fastcgi", "reverse_proxy", "respond", "error", "abort", "route", "handle_path", "handle"];
const STATUSES: [u16; 6] = [403, 404, 410, 451, 500, 503];

/// A site that is being made.
pub(crate) struct Builder<'t> {
    pub(crate) host: Host,
    pub(crate) report: &'t mut Report,
    pub(crate) files: &'t dyn Files,
    pub(crate) folder: String,
    pub(crate) scheme: Option<&'static str>,
    pub(crate) named: BTreeMap<String, Matcher>,
    pub(crate) beside: Vec<(String, String)>,
    pub(crate) serial: usize,
    pub(crate) has_root: bool,
    last: Vec<Table>,
}

/// For which requests directives are.
#[derive(Debug, Clone)]
struct Scope {
    /// One of these holds.
    conditions: Vec<Condition>,
    root: Option<String>,
    /// A prefix that handlers do not see.
    stripped: Option<String>,
}

impl<'t> Builder<'t> {
    pub(crate) fn new(
        report: &'t mut Report,
        files: &'t dyn Files,
        folder: &str,
        scheme: Option<&'static str>,
    ) -> Self {
        Self {
            host: Host::default(),
            report,
            files,
            folder: folder.to_owned(),
            scheme,
            named: BTreeMap::new(),
            beside: Vec::new(),
            serial: 0,
            has_root: false,
            last: Vec::new(),
        }
    }

    /// Translates all directives of the site.
    pub(crate) fn site(&mut self, directives: &[Directive]) {
        self.named = matchers::named(directives);
        let scope = Scope { conditions: vec![Condition::default()], root: None, stripped: None };
        self.block(directives, &scope, 0);
        let mut last = std::mem::take(&mut self.last);
        self.host.routes.append(&mut last);
        if self.host.paths.iter().all(|path| !path.has("root")) && !self.has_root {
            self.host.table.entries.retain(|(key, _)| key != "listing" && key != "index");
        }
    }

    /// The arguments without the matcher, and the requests that it and the scope are for.
    fn matched(&mut self, directive: &Directive, scope: &Scope) -> (Vec<String>, Matcher) {
        let first = directive.argument(0);
        let rest = directive.arguments.get(1..).unwrap_or_default().to_vec();
        let is_path = first.starts_with('/')
            && !(["redir", "rewrite", "root", "try_files"].contains(&directive.name.as_str()) && rest.is_empty())
            && directive.name != "try_files"
            && directive.name != "php_fastcgi_address";
        let own: Matcher = if first == "*" {
            Some(vec![Condition::default()])
        } else if first.starts_with('@') {
            self.named.get(first).cloned().flatten()
        } else if is_path {
            matchers::path(first).map(|path| vec![Condition { path: Some(path), ..Condition::default() }])
        } else {
            return (directive.arguments.clone(), Some(scope.conditions.clone()));
        };
        let all = own.map(|own| {
            let of = |outer: &Condition| own.iter().map(|one| matchers::joined(outer, one)).collect::<Vec<_>>();
            scope.conditions.iter().flat_map(of).collect()
        });
        (rest, all)
    }

    fn unmatched(&mut self, directive: &Directive) {
        let what = format!("`{}`: weir has no such matcher", directive.line());
        self.report.lost(directive, what, "write a [[host.route]] or [[host.path]] for the requests that are meant");
        directive.children().iter().for_each(tell_all);
    }

    fn block(&mut self, directives: &[Directive], scope: &Scope, depth: usize) {
        if depth > 16 {
            return directives.iter().for_each(|one| self.report.lost(one, "it is nested too deep", "write it flat"));
        }
        let mut scope = scope.clone();
        for directive in directives.iter().filter(|directive| directive.name == "root") {
            directive.told();
            let path = directive.arguments.last().map_or("", String::as_str);
            if path.contains('{') || directive.argument(0).starts_with('@') {
                self.report.lost(directive, "a root is a fixed directory", "give it a [[host.path]] or [[host]]");
            } else {
                scope.root = Some(join(&self.folder, path));
            }
        }
        if let Some(root) = scope.root.clone().filter(|_| depth == 0) {
            self.host.table.text("root", &root);
            self.host.table.raw("listing", "false");
            self.has_root = true;
        }
        for name in ["header", "basicauth", "basic_auth", "redir", "rewrite", "uri", "try_files"] {
            for directive in directives.iter().filter(|directive| directive.name == name) {
                self.changed(directive, &scope);
            }
        }
        for name in ANSWERS {
            let mut own: Vec<&Directive> = directives.iter().filter(|directive| directive.name == name).collect();
            // Of paths the longest is asked first, and so is the first of those without one.
            own.sort_by_key(
                |one| if one.argument(0).starts_with(['/', '@']) { (1, one.argument(0).len()) } else { (0, 0) },
            );
            for directive in own {
                self.answer(directive, directives, &scope, depth);
            }
        }
        for directive in directives.iter().filter(|directive| !directive.is_told()) {
            self.other(directive, &scope);
        }
    }

    fn other(&mut self, directive: &Directive, scope: &Scope) {
        let name = directive.name.as_str();
        if name.starts_with('@') {
            return directive.told();
        }
        if IDLE.contains(&name) {
            self.report.idle(directive);
            return directive.children().iter().for_each(tell_all);
        }
        directive.children().iter().for_each(tell_all);
        let what = format!("`{}` is not carried over", directive.line());
        if GUARDS.contains(&name) {
            self.report.refused(directive, what, "let the application decide who may come, or use `auth` or `rate`");
            return self.refuse(directive, &scope.conditions.clone());
        }
        let remedy = match name {
            "log" => "add [log] with file = \"FILE\" in a directory that the server's user may write",
            "handle_errors" => "name pages in error_pages",
            "tls" => "see [tls] and [acme] in docs/reference/configuration.md",
            "request_body" => "weir streams bodies of any size to upstreams: bound them in the application",
            "templates" => "weir assembles .shtml files: `includes`",
            _ => "see docs/reference/configuration.md for what weir can say",
        };
        self.report.lost(directive, what, remedy);
    }

    fn refuse(&mut self, directive: &Directive, conditions: &[Condition]) {
        for condition in conditions {
            let mut route = condition.route();
            route.comment(format!("REFUSED, as this is not carried over: {}: {}", directive.place, directive.line()));
            route.raw("fail", "403");
            self.host.routes.insert(0, route);
        }
    }

    /// What changes requests and responses.
    fn changed(&mut self, directive: &Directive, scope: &Scope) {
        let (words, matcher) = self.matched(directive, scope);
        let Some(conditions) = matcher else {
            self.unmatched(directive);
            if directive.name.starts_with("basic") {
                self.report.refused(directive, "its password cannot be asked for there", users::REMEDY);
                self.refuse(directive, &scope.conditions.clone());
            }
            return;
        };
        directive.told();
        match directive.name.as_str() {
            "header" => self.header(directive, &words, &conditions),
            "basicauth" | "basic_auth" => self.auth(directive, &conditions),
            "redir" => self.redirect(directive, &words, &conditions),
            "rewrite" => self.rewrite(directive, &words, &conditions),
            "uri" => self.uri(directive, &words, &conditions),
            _ => self.try_files(directive, &words, &conditions),
        }
    }

    fn header(&mut self, directive: &Directive, words: &[String], conditions: &[Condition]) {
        let mut fields = Fields::default();
        let value = |words: &[String]| words.get(1).cloned().unwrap_or_default();
        if let Some(name) = words.first() {
            proxies::response_field(directive, name, &value(words), &mut fields, self.report);
        }
        for child in directive.children() {
            child.told();
            if child.name != "defer" {
                proxies::response_field(child, &child.name, child.argument(0), &mut fields, self.report);
            }
        }
        if fields.is_empty() {
            return;
        }
        for condition in conditions {
            match (condition.is_any(), table_of(condition)) {
                (true, _) => {
                    let mut own = Table::default();
                    fields.write(&mut own);
                    merge(&mut self.host.table, &own);
                }
                (false, Some(mut table)) => {
                    fields.write(&mut table);
                    self.host.paths.push(table);
                }
                (false, None) => {
                    let mut route = condition.route();
                    fields.write(&mut route);
                    self.host.routes.push(route);
                }
            }
        }
    }

    fn auth(&mut self, directive: &Directive, conditions: &[Condition]) {
        let mut lines = String::new();
        let mut is_good = !directive.arguments.iter().any(|word| word == "scrypt");
        for child in directive.children() {
            child.told();
            let hash = child.argument(0);
            let decoded = base64::engine::general_purpose::STANDARD.decode(hash).ok();
            let hash = match decoded.and_then(|bytes| String::from_utf8(bytes).ok()) {
                Some(decoded) if !hash.starts_with('$') => decoded,
                _ => hash.to_owned(),
            };
            is_good &= !child.name.contains([':', '\n']) && !hash.contains(char::is_whitespace);
            lines.push_str(&format!("{}:{hash}\n", child.name));
        }
        let why = if is_good {
            users::problem(&lines)
        } else {
            Some("the hashes are of a kind that weir has not".to_owned())
        };
        if let Some(why) = why {
            let what = format!("`{}`: no password can be asked for: {why}", directive.line());
            self.report.refused(directive, what, users::REMEDY);
            return self.refuse(directive, conditions);
        }
        self.serial += 1;
        let file = format!("weir-users-{}", self.serial);
        let realm = directive.arguments.last().filter(|_| directive.arguments.len() > 2);
        let realm = users::realm(realm.map_or("restricted", String::as_str));
        let value = inline([("realm".to_owned(), quoted(&realm)), ("users".to_owned(), quoted(&file))].into_iter());
        self.beside.push((file, lines));
        for condition in conditions {
            match (condition.is_any(), table_of(condition)) {
                (true, _) => self.host.table.raw("auth", value.clone()),
                (false, Some(mut table)) => {
                    table.raw("auth", value.clone());
                    self.host.paths.push(table);
                }
                (false, None) => {
                    let what = format!("`{}`: weir asks for passwords by paths only", directive.line());
                    self.report.refused(directive, what, "give the paths a [[host.path]] with auth");
                    self.refuse(directive, std::slice::from_ref(condition));
                }
            }
        }
    }

    fn pieces(&self, text: &str) -> Option<Vec<Piece>> {
        matchers::pieces(text, self.scheme, &|name| self.files.variable(name))
    }

    fn redirect(&mut self, directive: &Directive, words: &[String], conditions: &[Condition]) {
        let status = match words.get(1).map_or("", String::as_str) {
            "permanent" => Some(301),
            "temporary" | "" => Some(302),
            code => code.parse().ok().filter(|code| [301, 302, 303, 307, 308].contains(code)),
        };
        let address = words.first().and_then(|word| self.pieces(word)).and_then(|pieces| templates::address(&pieces));
        let (Some(status), Some(address)) = (status, address) else {
            let what = format!("`{}` cannot be said by a route", directive.line());
            return self.report.lost(directive, what, "write a [[host.route]] with redirect");
        };
        for condition in conditions {
            let mut route = condition.route();
            route.text("redirect", &address);
            if status != 301 {
                route.raw("status", status.to_string());
            }
            self.host.routes.push(route);
        }
    }

    fn rewrite(&mut self, directive: &Directive, words: &[String], conditions: &[Condition]) {
        let path = words.first().and_then(|word| self.pieces(word)).and_then(|pieces| templates::path(&pieces));
        let Some(path) = path else {
            let what = format!("`{}` cannot be said by a route", directive.line());
            return self.report.lost(directive, what, "write a [[host.route]] with map");
        };
        for condition in conditions {
            let mut route = condition.route();
            route.text("map", &path);
            self.host.routes.push(route);
        }
    }

    fn uri(&mut self, directive: &Directive, words: &[String], conditions: &[Condition]) {
        let prefix = words.get(1).filter(|_| words.first().is_some_and(|word| word == "strip_prefix"));
        match prefix.filter(|prefix| matches!(matchers::path(prefix), Some(("exact", _)))) {
            Some(prefix) => {
                for condition in conditions {
                    let mut route = condition.with_path("prefix", prefix.trim_end_matches('/')).route();
                    route.text("map", "/$rest");
                    self.host.routes.push(route);
                }
            }
            None => {
                let what = format!("`{}` cannot be said by a route", directive.line());
                self.report.lost(directive, what, "write a [[host.route]] with regex and map");
            }
        }
    }

    fn try_files(&mut self, directive: &Directive, words: &[String], conditions: &[Condition]) {
        let mut tried: Vec<String> = Vec::new();
        for word in words {
            let candidate = match word.strip_prefix('=') {
                Some(code) => {
                    code.parse().ok().filter(|code| STATUSES.contains(code)).map(|code: u16| format!("={code}"))
                }
                None => {
                    let word = if word.starts_with(['/', '{']) { word.clone() } else { format!("/{word}") };
                    self.pieces(&word).and_then(|pieces| templates::path(&pieces))
                }
            };
            match candidate {
                Some(candidate) if !tried.contains(&candidate) => tried.push(candidate),
                Some(_) => {}
                None => {
                    let what = format!("`{word}` of `{}` cannot be said", directive.line());
                    self.report.lost(directive, what, "write a path with $path, or a status such as =404");
                }
            }
        }
        // Without any of them Caddy leaves the path as it is.
        if tried.last().is_none_or(|last| last.contains('$')) {
            tried.push("=404".to_owned());
        }
        directive
            .children()
            .iter()
            .for_each(|child| self.report.lost(child, "it is not carried over", "leave it away"));
        self.push_tried(&tried, conditions);
    }

    fn push_tried(&mut self, tried: &[String], conditions: &[Condition]) {
        for condition in conditions {
            let mut route = condition.route();
            route.raw("try_files", list(tried));
            self.last.push(route);
        }
    }

    /// What answers: files, servers, fixed answers, or a block with these.
    fn answer(&mut self, directive: &Directive, around: &[Directive], scope: &Scope, depth: usize) {
        let (words, matcher) = self.matched(directive, scope);
        let Some(conditions) = matcher else { return self.unmatched(directive) };
        directive.told();
        match directive.name.as_str() {
            "handle" | "handle_path" | "route" => self.handle(directive, around, scope, conditions, depth),
            "reverse_proxy" => {
                let proxied = proxies::read(directive, &words, Speaks::Http, self.report);
                self.push_proxied(directive, proxied, scope, &conditions, Speaks::Http);
            }
            "php_fastcgi" => self.php(directive, &words, around, scope, &conditions),
            "file_server" => self.file_server(directive, &words, scope, &conditions),
            _ => self.fixed(directive, &words, &conditions),
        }
    }

    fn handle(
        &mut self,
        directive: &Directive,
        around: &[Directive],
        scope: &Scope,
        conditions: Vec<Condition>,
        depth: usize,
    ) {
        let mut inner = Scope { conditions, ..scope.clone() };
        if directive.name == "handle_path" {
            let path = directive.argument(0).trim_end_matches('*').trim_end_matches('/');
            inner.stripped = Some(path.to_owned());
        }
        // Without a matcher it is for what no other one is for.
        if directive.arguments.is_empty() && directive.name == "handle" {
            for other in around.iter().filter(|other| other.name.starts_with("handle") && !other.arguments.is_empty()) {
                let (_, matcher) = self.matched(other, scope);
                for one in matcher.unwrap_or_default() {
                    let mut entries: Vec<(String, String)> =
                        one.path.iter().map(|(kind, text)| ((*kind).to_owned(), quoted(text))).collect();
                    entries.extend(one.keys.clone());
                    if one.not.is_empty() && !entries.is_empty() {
                        let not = inline(entries.into_iter());
                        inner.conditions.iter_mut().for_each(|condition| condition.not.push(not.clone()));
                    }
                }
            }
        }
        let named = matchers::named(directive.children());
        self.named.extend(named);
        self.block(directive.children(), &inner, depth + 1);
    }

    /// Adds tables for the paths of conditions; those on anything else cannot choose what answers.
    fn push_tables(&mut self, directive: &Directive, table: &Table, conditions: &[Condition]) {
        for condition in conditions {
            // What is excepted has later tables, which say the last word.
            let bare = Condition { not: Vec::new(), ..condition.clone() };
            let is_simple = condition.not.iter().all(|not| !not.contains("not = "));
            match (bare.is_any(), table_of(&bare)) {
                (true, _) if is_simple => {
                    let mut own = Table::default();
                    own.text("prefix", "/");
                    merge(&mut own, table);
                    self.host.paths.push(own);
                }
                (_, Some(mut own)) if is_simple => {
                    merge(&mut own, table);
                    self.host.paths.push(own);
                }
                _ => {
                    let what = format!("`{}`: weir chooses who answers by paths and hosts only", directive.line());
                    self.report.lost(directive, what, "give it a prefix, a glob or an exact path; 503 is answered");
                    let mut route = condition.route();
                    route.raw("fail", "503");
                    self.host.routes.push(route);
                }
            }
        }
    }

    fn push_proxied(
        &mut self,
        directive: &Directive,
        proxied: Option<Proxied>,
        scope: &Scope,
        conditions: &[Condition],
        speaks: Speaks,
    ) {
        let mut table = Table::default();
        match proxied {
            None => table.raw("status", "503"),
            Some(mut proxied) => {
                proxied.fields.write(&mut table);
                if proxied.is_refused {
                    table.comment(format!("REFUSED, as this is not carried over: {}", directive.place));
                    table.list("deny", &["all"]);
                }
                if speaks == Speaks::Http && scope.stripped.is_some() {
                    proxied.upstream.key("path", quoted("/"));
                }
                table.raw(speaks.key(), proxied.upstream.toml());
            }
        }
        let conditions: Vec<Condition> = match &scope.stripped {
            // The path stands for the prefix.
            Some(stripped) => vec![Condition { path: Some(("prefix", stripped.clone())), ..Condition::default() }],
            None => conditions.to_vec(),
        };
        self.push_tables(directive, &table, &conditions);
    }

    fn php(
        &mut self,
        directive: &Directive,
        words: &[String],
        around: &[Directive],
        scope: &Scope,
        conditions: &[Condition],
    ) {
        let proxied = proxies::read(directive, words, Speaks::FastCgi, self.report);
        let root = proxied.as_ref().and_then(|proxied| proxied.root.clone()).map(|root| join(&self.folder, &root));
        let root = root.or_else(|| scope.root.clone());
        let mut proxied = proxied;
        if let (Some(proxied), Some(root)) = (&mut proxied, &root)
            && !self.has_root
        {
            proxied.upstream.key("root", quoted(root));
        }
        if let (Some(proxied), None) = (&mut proxied, &root) {
            proxied.upstream.key("endings", "[]".to_owned());
        }
        let mut routed = conditions.to_vec();
        for other in around.iter().filter(|other| ["reverse_proxy", "respond"].contains(&other.name.as_str())) {
            if let Some((kind, text)) = matchers::path(other.argument(0)).filter(|_| other.argument(0).starts_with('/'))
            {
                let not = inline(std::iter::once((kind.to_owned(), quoted(&text))));
                routed.iter_mut().for_each(|condition| condition.not.push(not.clone()));
            }
        }
        let tried = ["$path", "$path/index.php", "/index.php"].map(str::to_owned);
        self.push_tried(&tried, &routed);
        for glob in ["**.php", "**.php/**"] {
            let own: Vec<Condition> = match conditions {
                [one] if one.path.is_none() && one.keys.is_empty() => {
                    vec![Condition { path: Some(("glob", glob.to_owned())), ..Condition::default() }]
                }
                other => other
                    .iter()
                    .map(|one| match &one.path {
                        Some(("prefix", prefix)) => {
                            let glob = format!("{}/{glob}", prefix.trim_end_matches('/'));
                            Condition { path: Some(("glob", glob)), ..one.clone() }
                        }
                        _ => one.with_path("glob", glob),
                    })
                    .collect(),
            };
            let own_proxied = proxied.as_ref().map(|proxied| Proxied {
                upstream: proxied.upstream.clone(),
                fields: proxied.fields.clone(),
                is_refused: proxied.is_refused,
                root: None,
            });
            self.push_proxied(
                directive,
                own_proxied,
                &Scope { stripped: None, ..scope.clone() },
                &own,
                Speaks::FastCgi,
            );
        }
    }

    fn file_server(&mut self, directive: &Directive, words: &[String], scope: &Scope, conditions: &[Condition]) {
        let lists =
            words.iter().chain(directive.children().iter().map(|child| &child.name)).any(|word| word == "browse");
        let mut root = scope.root.clone();
        let mut index = None;
        for child in directive.children() {
            child.told();
            match child.name.as_str() {
                "root" => root = Some(join(&self.folder, child.argument(0))),
                "index" => index = Some(child.arguments.clone()),
                "browse" | "precompressed" => {}
                "hide" => self.hidden(child),
                _ => self.report.lost(child, format!("`{}` is not carried over", child.line()), "see `root`"),
            }
        }
        let is_all = conditions.iter().all(Condition::is_any);
        let is_plain = index.is_none() && !lists && root == scope.root;
        if is_plain && self.serves_files_of(scope) {
            return;
        }
        let Some(root) = root else {
            return self.report.lost(
                directive,
                "it has no root; Caddy takes the directory in which it is started",
                "add root",
            );
        };
        let mut table = Table::default();
        table.text("root", &root);
        table.raw("listing", lists.to_string());
        if let Some(index) = index {
            table.list("index", &index);
        }
        if is_all {
            self.has_root = true;
            return merge(&mut self.host.table, &table);
        }
        for condition in conditions {
            let bare = Condition { not: Vec::new(), ..condition.clone() };
            let mut own = table.clone();
            let place = match (&bare.path, &scope.stripped) {
                (_, Some(stripped)) => Some(stripped.clone()),
                (None, None) if bare.keys.is_empty() => Some("/".to_owned()),
                (Some(("prefix", prefix)), None) => {
                    own.text("root", &join(&root, prefix.trim_start_matches('/')));
                    Some(prefix.clone())
                }
                _ => None,
            };
            let is_host = self.host.table.entries.iter().any(|(key, value)| key == "root" && *value == quoted(&root));
            match place.filter(|_| bare.keys.is_empty()) {
                Some(prefix) => {
                    own.entries.insert(0, ("prefix".to_owned(), quoted(&prefix)));
                    self.host.paths.push(own);
                }
                None if is_host => {}
                None => {
                    let what = format!("`{}`: weir gives a root to a prefix", directive.line());
                    self.report.lost(directive, what, "write a [[host.path]] with prefix and root");
                }
            }
        }
    }

    /// Whether the host answers with files of this root where no table says otherwise.
    fn serves_files_of(&self, scope: &Scope) -> bool {
        let is_passed = |path: &Table| {
            let is_whole = path.entries.iter().any(|(key, value)| key == "prefix" && value == "\"/\"");
            is_whole && (path.has("proxy") || path.has("status"))
        };
        let of_host = scope.root.as_ref().is_some_and(|root| {
            self.host.table.entries.iter().any(|(key, value)| key == "root" && *value == quoted(root))
        });
        of_host && scope.stripped.is_none() && !self.host.paths.iter().any(is_passed)
    }

    fn hidden(&mut self, child: &Directive) {
        for name in &child.arguments {
            let is_name = !name.contains(['/', '*', '?', '{', '%']) && !name.is_empty() && name != "." && name != "..";
            if !is_name {
                self.report.refused(
                    child,
                    format!("`{name}` cannot be hidden"),
                    "write a [[host.path]] with status = 404",
                );
                let all = [Condition::default()];
                self.refuse(child, &all);
                continue;
            }
            for glob in [format!("**/{name}"), format!("**/{name}/**")] {
                let mut table = Table::default();
                table.text("glob", &glob);
                table.raw("status", "404");
                self.host.paths.push(table);
            }
        }
    }

    fn fixed(&mut self, directive: &Directive, words: &[String], conditions: &[Condition]) {
        let code =
            words.iter().rev().find_map(|word| word.parse::<u16>().ok().filter(|code| (200..600).contains(code)));
        let code = code.unwrap_or(match directive.name.as_str() {
            "error" => 500,
            "abort" => 403,
            _ => 200,
        });
        let status = match code {
            code if STATUSES.contains(&code) => code,
            400..=499 => 403,
            _ => 503,
        };
        let has_text = directive.name == "respond" && words.iter().any(|word| word.parse::<u16>().is_err());
        if status != code || has_text || directive.name == "abort" || !directive.children().is_empty() {
            directive.children().iter().for_each(tell_all);
            let what =
                format!("`{}`: weir answers with statuses and their pages; {status} is answered", directive.line());
            self.report.lost(directive, what, "serve a file for a text");
        }
        for condition in conditions {
            let mut route = condition.route();
            route.raw("fail", status.to_string());
            self.host.routes.push(route);
        }
    }
}

/// A table for the paths of a condition on nothing else.
fn table_of(condition: &Condition) -> Option<Table> {
    let (kind, text) = condition.path.as_ref()?;
    if *kind == "regex" || !condition.keys.is_empty() || !condition.not.is_empty() {
        return None;
    }
    let mut table = Table::default();
    table.text(kind, text);
    Some(table)
}

/// Adds what another table says; fields are put together.
fn merge(table: &mut Table, other: &Table) {
    table.comments.extend(other.comments.clone());
    for (key, value) in &other.entries {
        let known = table.entries.iter().find(|(own, _)| own == key).map(|(_, value)| value.clone());
        let both = match known {
            Some(known) if key.ends_with("_headers") && known.starts_with('{') => {
                let begin = known.strip_suffix(" }").unwrap_or(&known);
                let end = value.strip_prefix("{ ").unwrap_or(value);
                let name = end.split(" = ").next().unwrap_or_default();
                // Of one name the later word counts; a key stands once.
                if known.contains(&format!("{name} = ")) { value.clone() } else { format!("{begin}, {end}") }
            }
            Some(known) if key == "remove_headers" => {
                format!("{}, {}", known.trim_end_matches(']'), value.trim_start_matches('['))
            }
            _ => value.clone(),
        };
        table.raw(key, both);
    }
}

fn tell_all(directive: &Directive) {
    directive.told();
    directive.children().iter().for_each(tell_all);
}
