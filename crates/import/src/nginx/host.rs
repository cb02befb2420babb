//! A server of nginx as a host of weir.

use super::actions::{self, Passed};
use super::context::Context;
use super::idle::{GUARDS, remedy};
use super::locations::{self, Location, Paths};
use super::rewrites::{self, Named};
use super::scope::Scope;
use super::settings::{self, Of};
use super::variables::Variables;
use crate::condition::Condition;
use crate::directive::Directive;
use crate::document::{Host, ROUTES_MAX, Table, inline, quoted};
use crate::files::join;
use crate::templates::Piece;

/// The host as far as it is made.
struct Draft<'t> {
    host: Host,
    root: Option<String>,
    locations: Vec<Location<'t>>,
    variables: Variables,
    named: Named,
    /// Paths of weir's own, which no client may ask for.
    inner: Vec<String>,
    /// Routes that end the scan for what no earlier one took.
    last: Vec<Table>,
    /// Locations that have a table with a password or with networks.
    closed: Vec<Paths>,
    /// Locations that are answered otherwise than by files of the host's root.
    elsewhere: Vec<Paths>,
}

/// Translates a server, but for its names and addresses.
pub(crate) fn read(context: &mut Context<'_>, scope: &Scope<'_>, variables: Variables) -> Host {
    let locations = locations::of_server(scope);
    let mut draft = Draft {
        host: Host::default(),
        root: None,
        locations,
        variables,
        named: Named::new(),
        inner: Vec::new(),
        last: Vec::new(),
        closed: Vec::new(),
        elsewhere: Vec::new(),
    };
    draft.root(context, scope);
    draft.site(context, scope);
    settings::write(context, scope, Of::Host, &draft.variables, &mut draft.host.table);
    draft.guards(context, scope, None);
    let mut variables = draft.variables.clone();
    let rewritten = rewrites::read(context, scope.innermost(), &Condition::default(), &mut variables, None);
    draft.host.routes.extend(rewritten.routes);
    if let Some(line) = rewritten.refused {
        draft.host.table.comment(format!("REFUSED, as this is not carried over: {line}"));
        draft.host.table.list("deny", &["all"]);
    }
    draft.variables = variables;
    if !rewritten.has_ended {
        draft.named(context);
        for number in locations::order(&draft.locations) {
            draft.location(context, number);
        }
        draft.server_try_files(context, scope);
    }
    draft.finish(context, scope)
}

impl Draft<'_> {
    fn root(&mut self, context: &Context<'_>, scope: &Scope<'_>) {
        let root = |directive: &Directive| Some(join(&context.folder, directive.argument(0)));
        let own = scope.of_host("root").pop();
        let of_slash = || {
            let slash = self.locations.iter().find(|location| location.paths == Paths::Prefix("/".to_owned()))?;
            let is_passed =
                slash.scope.innermost().iter().any(|one| actions::PASSES.iter().any(|(name, _)| one.name == *name));
            if is_passed { None } else { slash.scope.one("root") }
        };
        let found = own.or_else(of_slash);
        self.root = found.filter(|directive| !directive.argument(0).contains('$')).and_then(|directive| {
            directive.told();
            root(directive)
        });
        self.variables.root.clone_from(&self.root);
    }

    /// What belongs to a root.
    fn site(&mut self, context: &mut Context<'_>, scope: &Scope<'_>) {
        let Some(root) = self.root.clone() else { return };
        self.host.table.text("root", &root);
        write_site(context, scope, &mut self.host.table);
        if self.host.table.has("listing") {
            return;
        }
        let slash = self.locations.iter().find(|location| location.paths == Paths::Prefix("/".to_owned()));
        let lists = slash.is_some_and(|slash| slash.scope.is_on("autoindex"));
        self.host.table.raw("listing", lists.to_string());
        slash.iter().for_each(|slash| write_index(context, &slash.scope, &mut self.host.table));
    }

    /// Where paths lead that nginx hands to a location by its name.
    fn named(&mut self, context: &mut Context<'_>) {
        for number in 0..self.locations.len() {
            let location = self.locations[number].clone();
            let Paths::Named(name) = &location.paths else { continue };
            match actions::passed(context, &location.scope, &self.variables) {
                Some(Some(passed)) => self.named_passed(context, &location, name, passed),
                Some(None) | None => self.named_rewritten(context, &location, name),
            }
        }
    }

    fn named_passed(&mut self, context: &mut Context<'_>, location: &Location<'_>, name: &str, passed: Passed) {
        let mut table = Table::default();
        let target = if let Some(script) = passed.script.clone().filter(|_| passed.key != "proxy") {
            table.text("exact", &script);
            vec![Piece::Text(script)]
        } else {
            let inner = context.inner_path(name);
            table.text("prefix", &inner);
            self.inner.push(inner.clone());
            vec![Piece::Text(inner), Piece::Path]
        };
        settings::write(context, &location.scope, Of::Location, &self.variables, &mut table);
        self.write_passed(&mut table, passed, Some("/"), location.directive);
        self.host.paths.push(table);
        self.named.insert(name.to_owned(), target);
    }

    fn named_rewritten(&mut self, context: &mut Context<'_>, location: &Location<'_>, name: &str) {
        let rewrite = location.scope.innermost().iter().find(|directive| directive.name == "rewrite");
        let pieces = rewrite.and_then(|rewrite| {
            let mut variables = self.variables.clone();
            variables.first_is_path = crate::patterns::captures_all(rewrite.argument(0));
            let pieces = variables.pieces(rewrite.argument(1).trim_end_matches('?')).ok()?;
            let captures = pieces.iter().any(|piece| matches!(piece, Piece::Capture(_)));
            (!captures && rewrite.argument(2) != "permanent").then_some(pieces)
        });
        match (pieces, rewrite) {
            (Some(mut pieces), Some(rewrite)) => {
                rewrite.told();
                let target = rewrite.argument(1);
                if target.contains('?') && !target.ends_with('?') && !target.contains("$args") {
                    pieces.extend([Piece::Text("&".to_owned()), Piece::Args]);
                }
                self.named.insert(name.to_owned(), pieces);
            }
            _ => {
                let what = format!("`location {name}`: weir cannot lead to it; 404 is answered");
                context.report.lost(location.directive, what, "give what it does a path, and name that in try_files");
            }
        }
    }

    /// A location: routes, and a table for each pattern of its paths.
    fn location(&mut self, context: &mut Context<'_>, number: usize) {
        let location = self.locations[number].clone();
        if let Paths::Unknown(text) = &location.paths {
            return self.unknown(context, &location, text);
        }
        let Some(condition) = locations::condition(number, &self.locations) else {
            return self.unknown(context, &location, location.paths.text().unwrap_or_default());
        };
        let block = location.scope.innermost();
        if let Some(internal) = block.iter().find(|directive| directive.name == "internal") {
            return self.internal(context, &location, &condition, internal);
        }
        let mut table = Table::default();
        settings::write(context, &location.scope, Of::Location, &self.variables, &mut table);
        self.guards(context, &location.scope, Some((&mut table, &condition)));
        let breaks = |directive: &&Directive| directive.name == "rewrite" && directive.argument(2) == "break";
        let is_passed = |one: &Directive| actions::PASSES.iter().any(|(name, _)| one.name == *name);
        let inner =
            (block.iter().any(|one| breaks(&one)) && block.iter().any(is_passed)).then(|| context.inner_path("kept"));
        let mut variables = Variables { root: self.effective_root(context, &location), ..self.variables.clone() };
        let rewritten = rewrites::read(context, block, &condition, &mut variables, inner.as_deref());
        self.host.routes.extend(rewritten.routes);
        if let Some(line) = rewritten.refused {
            table.comment(format!("REFUSED, as this is not carried over: {line}"));
            table.entries.retain(|(key, _)| key != "allow");
            table.list("deny", &["all"]);
        }
        for directive in block.iter().filter(|directive| directive.name == "try_files") {
            let route = rewrites::try_files(context, directive, &condition, &variables, &self.named);
            self.last.extend(route);
        }
        if rewritten.has_ended && block.iter().any(|one| one.name == "return") {
            // The route answers, so that nothing else counts.
            return self.push(context, &location, &condition, table);
        }
        match actions::passed(context, &location.scope, &variables) {
            Some(passed) => self.passed(context, &location, &condition, (table, inner), passed),
            None => self.files(context, &location, &condition, table),
        }
    }

    /// A location whose paths weir cannot tell from others.
    fn unknown(&mut self, context: &mut Context<'_>, location: &Location<'_>, text: &str) {
        let what = format!("`location {}`: weir cannot read the expression", location.directive.arguments.join(" "));
        let remedy = "write it without look-around and back references";
        let block = location.scope.innermost();
        // Names that begin with a dot, but for /.well-known/, are served by no root of weir.
        let is_of_dots = text.starts_with("/\\.(?!well-known") && !text.contains('|');
        let denies = |one: &Directive| one.name == "deny" && one.argument(0) == "all";
        if is_of_dots && block.iter().any(denies) {
            block.iter().for_each(tell_all);
            location.directive.fate.set(crate::directive::Fate::Open);
            return context.report.idle(location.directive);
        }
        let guards = |one: &Directive| {
            ["deny", "allow", "auth_basic", "internal", "return"].contains(&one.name.as_str())
                || GUARDS.contains(&one.name.as_str())
        };
        block.iter().for_each(tell_all);
        if block.iter().any(guards) || actions::PASSES.iter().any(|(name, _)| block.iter().any(|one| one.name == *name))
        {
            context.report.refused(location.directive, what, remedy);
            self.host.table.comment(format!("REFUSED, as paths of `{text}` cannot be told from others"));
            self.host.table.list("deny", &["all"]);
        } else {
            context.report.lost(location.directive, what, remedy);
        }
    }

    fn internal(
        &mut self,
        context: &mut Context<'_>,
        location: &Location<'_>,
        condition: &Condition,
        internal: &Directive,
    ) {
        let is_page = self.locations.iter().all(|one| one.paths.text() != location.paths.text())
            || matches!(location.paths, Paths::Exact(_));
        if is_page {
            context.report.idle(internal);
        } else {
            let what = format!("`location {}` is for nginx alone", location.directive.arguments.join(" "));
            context.report.lost(internal, what, "weir knows no X-Accel-Redirect to it: let the application send files");
        }
        location.scope.innermost().iter().for_each(tell_all);
        let mut route = condition.route();
        route.raw("fail", "404");
        self.host.routes.push(route);
    }

    /// Adds what a location hands on.
    fn passed(
        &mut self,
        context: &mut Context<'_>,
        location: &Location<'_>,
        condition: &Condition,
        (mut table, inner): (Table, Option<String>),
        passed: Option<Passed>,
    ) {
        self.elsewhere.push(location.paths.clone());
        let Some(passed) = passed else {
            table.raw("status", "503");
            return self.push(context, location, condition, table);
        };
        let path = passed.path.clone();
        if let (Some(path), Some(text)) = (&path, location.paths.text())
            && path.ends_with('/') != text.ends_with('/')
        {
            let what = format!("`{path}` stands for `{text}`: weir joins paths with one slash, nginx as they are");
            context.report.lost(location.directive, what, "end both with a slash, or neither");
        }
        if let Some(inner) = inner {
            self.inner.push(inner.clone());
            let mut own = table.clone();
            own.entries.insert(0, ("prefix".to_owned(), quoted(&inner)));
            self.write_passed(&mut own, passed, Some("/"), location.directive);
            self.host.paths.push(own);
            return self.push(context, location, condition, table);
        }
        let patterns = location.paths.tables(path.is_some());
        if patterns.is_none() && passed.key != "proxy" {
            let what = format!("`location {}`: its paths are no pattern", location.directive.arguments.join(" "));
            context.report.refused(location.directive, what, "write a glob such as \"**.php\" for its scripts");
            let mut route = condition.route();
            route.raw("fail", "403");
            return self.host.routes.push(route);
        }
        if let Some((_, false)) = patterns
            && matches!(location.paths, Paths::Regex { .. })
        {
            // Names in other letters would be sent as files.
            let mut route = condition.route();
            let lower = location.paths.tables(false).map(|(patterns, _)| patterns).unwrap_or_default();
            for (kind, text) in lower {
                let own = inline(std::iter::once((kind.to_owned(), quoted(&text))));
                let not = Condition { not: vec![own], ..condition.clone() };
                route = Condition { not: [condition.not.clone(), not.not].concat(), ..condition.clone() }.route();
            }
            route.raw("fail", "403");
            self.host.routes.push(route);
        }
        if patterns.is_none() {
            let inner = context.inner_path("passed");
            self.inner.push(inner.clone());
            let mut route = condition.route();
            route.text("map", &format!("{inner}$path"));
            self.last.insert(0, route);
            let mut own = table.clone();
            own.entries.insert(0, ("prefix".to_owned(), quoted(&inner)));
            self.write_passed(&mut own, passed, Some("/"), location.directive);
            self.host.paths.push(own);
            return;
        }
        self.write_passed(&mut table, passed, path.as_deref(), location.directive);
        self.push(context, location, condition, table);
    }

    fn write_passed(&self, table: &mut Table, passed: Passed, path: Option<&str>, directive: &Directive) {
        let mut upstream = passed.upstream;
        if passed.key == "proxy"
            && let Some(path) = path
        {
            upstream.key("path", quoted(path));
        }
        if passed.key == "fastcgi"
            && let (None, Some(root)) = (&self.root, &self.variables.root)
        {
            upstream.key("root", quoted(root));
        }
        if passed.is_refused {
            settings::refuse(table, directive);
        }
        if passed.key == "fastcgi" && self.root.is_none() && self.variables.root.is_none() {
            upstream.key("endings", "[]".to_owned());
        }
        table.raw(passed.key, upstream.toml());
    }

    fn effective_root(&self, context: &Context<'_>, location: &Location<'_>) -> Option<String> {
        match location.scope.own("root").pop() {
            Some(directive) if !directive.argument(0).contains('$') => {
                directive.told();
                Some(join(&context.folder, directive.argument(0)))
            }
            _ => self.root.clone(),
        }
    }

    /// Adds a location whose files are served.
    fn files(&mut self, context: &mut Context<'_>, location: &Location<'_>, condition: &Condition, mut table: Table) {
        let alias = location.scope.own("alias").pop();
        let root = self.effective_root(context, location);
        let covered = self.elsewhere.iter().any(|other| match (other.text(), location.paths.text()) {
            (Some(other), Some(own)) => own.starts_with(other),
            (Some(_), None) => true,
            (None, _) => false,
        });
        let own_site = !location.scope.own("index").is_empty() || !location.scope.own("autoindex").is_empty();
        let is_slash = location.paths == Paths::Prefix("/".to_owned());
        let is_own = alias.is_some() || covered || root != self.root || own_site && !is_slash;
        // Where all are refused, no file is looked for.
        let is_closed =
            table.entries.iter().any(|(key, value)| key == "deny" && value == "[\"all\"]") && !table.has("allow");
        if !is_own || is_closed {
            return self.push(context, location, condition, table);
        }
        self.elsewhere.push(location.paths.clone());
        let text = location.paths.text().unwrap_or_default().to_owned();
        let directory = match (alias, &root) {
            (Some(alias), _) => {
                alias.told();
                let path = alias.argument(0);
                let is_plain = !path.contains('$') && location.paths.text().is_some();
                is_plain.then(|| join(&context.folder, path))
            }
            (None, Some(root)) => Some(join(root, text.trim_start_matches('/'))),
            (None, None) => None,
        };
        let is_exact = matches!(location.paths, Paths::Exact(_));
        if let Some(stem) =
            alias.and_then(|alias| alias.argument(0).strip_suffix("/$1")).filter(|stem| !stem.contains('$'))
            && matches!(&location.paths, Paths::Regex { expression, .. } if crate::patterns::groups(expression) > 0)
        {
            let place = join(&context.folder, stem);
            let inner = context.inner_path("files");
            self.lead(condition, &format!("{inner}/$1"), inner, &place);
            return self.push(context, location, condition, table);
        }
        let Some(directory) = directory else {
            let what =
                format!("`location {}`: weir cannot say where its files lie", location.directive.arguments.join(" "));
            context.report.lost(
                alias.unwrap_or(location.directive),
                what,
                "give them a [[host.path]] with prefix and root",
            );
            table.raw("status", "404");
            return self.push(context, location, condition, table);
        };
        if location.paths.text().is_some() && !is_exact {
            table.text("root", &directory);
            write_site(context, &location.scope, &mut table);
            return self.push(context, location, condition, table);
        }
        // An expression and a single file are no place for a root: a path within the server is.
        let inner = context.inner_path("files");
        let (target, place) = match (is_exact, root.filter(|_| alias.is_none())) {
            (_, Some(root)) => (format!("{inner}$path"), root),
            (true, None) => {
                let (folder, name) = directory.rsplit_once('/').unwrap_or(("", &directory));
                (format!("{inner}/{}", name.replace('$', "$$")), format!("{folder}/"))
            }
            (false, None) => (format!("{inner}$path"), directory),
        };
        self.lead(condition, &target, inner, &place);
        self.push(context, location, condition, table);
    }

    /// Leads paths to a path of the server's own, for which a directory stands.
    fn lead(&mut self, condition: &Condition, target: &str, inner: String, place: &str) {
        let mut route = condition.route();
        route.text("map", target);
        self.last.insert(0, route);
        let mut own = Table::default();
        own.text("prefix", &inner);
        own.text("root", place);
        self.host.paths.push(own);
        self.inner.push(inner);
    }

    /// Adds a table for each pattern of a location, if it says something.
    fn push(&mut self, context: &mut Context<'_>, location: &Location<'_>, condition: &Condition, mut table: Table) {
        let below = |outer: &Paths| match (outer.text(), location.paths.text()) {
            (Some(outer), Some(own)) => own.len() > outer.len() && own.starts_with(outer),
            _ => false,
        };
        // nginx asks a location within another one only what it says itself.
        if self.closed.iter().any(below) {
            if !table.has("auth") && location.scope.all("auth_basic").is_empty() {
                table.raw("auth", "false");
            }
            if !table.has("allow") && !table.has("deny") && location.scope.own("deny").is_empty() {
                table.list("allow", &["all"]);
            }
        }
        if table.has("auth") || table.has("deny") || table.has("allow") {
            self.closed.push(location.paths.clone());
        }
        if table.entries.is_empty() {
            return;
        }
        let is_mount =
            table.has("root") || table.entries.iter().any(|(key, value)| key == "proxy" && value.contains("path = "));
        let only_fields = table.entries.iter().all(|(key, _)| key.ends_with("_headers"));
        // An expression in which letters have no case is a route's, if it only sets fields.
        match location.paths.tables(is_mount).filter(|(_, is_exact)| *is_exact || !only_fields) {
            Some((patterns, is_exact)) => {
                if !is_exact && table.has("deny") {
                    let mut route = condition.route();
                    route.raw("fail", "403");
                    self.host.routes.insert(0, route);
                }
                for (kind, text) in patterns {
                    let mut own = table.clone();
                    own.entries.insert(0, (kind.to_owned(), quoted(&text)));
                    self.host.paths.push(own);
                }
            }
            None => self.push_route(context, location, condition, &table),
        }
    }

    /// A location without a pattern: a route that sets fields or refuses.
    fn push_route(&mut self, context: &mut Context<'_>, location: &Location<'_>, condition: &Condition, table: &Table) {
        let mut route = condition.route();
        let name = location.directive.arguments.join(" ");
        let is_fully_denied =
            table.entries.iter().any(|(key, value)| key == "deny" && value == "[\"all\"]") && !table.has("allow");
        if is_fully_denied || table.has("auth") || table.has("allow") || table.has("deny") || table.has("status") {
            if !is_fully_denied {
                let what = format!("`location {name}`: its paths are no pattern, so that weir cannot say who may come");
                context.report.refused(location.directive, what, "write a glob, a prefix or an exact path for them");
            }
            route.raw("fail", if table.has("status") && !table.has("deny") { "503" } else { "403" });
            return self.host.routes.insert(0, route);
        }
        for (key, value) in &table.entries {
            if ["set_headers", "set_error_headers", "remove_headers"].contains(&key.as_str()) {
                route.raw(key, value.clone());
            } else {
                let what =
                    format!("`location {name}`: its paths are no pattern, so that `{key}` cannot be said for them");
                context.report.lost(location.directive, what, "write a glob, a prefix or an exact path for them");
            }
        }
        if ["set_headers", "set_error_headers", "remove_headers"].iter().any(|key| route.has(key)) {
            self.host.routes.insert(0, route);
        }
    }

    /// What keeps clients away, and weir cannot say.
    fn guards(&mut self, context: &mut Context<'_>, scope: &Scope<'_>, of: Option<(&mut Table, &Condition)>) {
        let is_host = of.is_none();
        let mut place = of;
        for name in GUARDS {
            let found = if is_host { scope.of_host(name) } else { scope.own(name) };
            for directive in found {
                if directive.argument(0) == "off" {
                    directive.told();
                    continue;
                }
                // Those of TLS hold for a whole host, which has them by now if it can.
                if name.starts_with("ssl_") && directive.is_told() {
                    continue;
                }
                if let (&"limit_except", Some((_, condition))) = (name, &place)
                    && let [only] = directive.children()
                    && (only.name.as_str(), only.argument(0)) == ("deny", "all")
                {
                    directive.told();
                    only.told();
                    let mut methods = directive.arguments.clone();
                    if methods.iter().any(|method| method == "GET") {
                        methods.push("HEAD".to_owned());
                    }
                    let mut route = condition.without("method", crate::document::list(&methods)).route();
                    route.raw("fail", "403");
                    self.host.routes.insert(0, route);
                    continue;
                }
                directive.children().iter().for_each(tell_all);
                let what = format!("`{}` keeps clients away, which weir cannot do so", directive.line());
                context.report.refused(directive, what, remedy(name));
                match &mut place {
                    Some((table, _)) => settings::refuse(table, directive),
                    None => settings::refuse(&mut self.host.table, directive),
                }
            }
        }
    }

    /// A `try_files` of the server holds where no location is.
    fn server_try_files(&mut self, context: &mut Context<'_>, scope: &Scope<'_>) {
        for directive in scope.innermost().iter().filter(|directive| directive.name == "try_files") {
            let mut condition = Condition::default();
            for location in &self.locations {
                match location.paths.condition() {
                    Some(Some((kind, text))) => {
                        condition.not.push(inline(std::iter::once((kind.to_owned(), quoted(&text)))));
                    }
                    // One for all paths takes its place.
                    Some(None) => return context.report.idle(directive),
                    None => {}
                }
            }
            let route = rewrites::try_files(context, directive, &condition, &self.variables, &self.named);
            self.last.extend(route);
        }
    }

    fn finish(mut self, context: &mut Context<'_>, scope: &Scope<'_>) -> Host {
        let mut guards = Vec::new();
        for inner in &self.inner {
            let mut route = Table::default();
            route.text("prefix", inner);
            route.raw("fail", "404");
            guards.push(route);
        }
        if let Some(first) = guards.first_mut() {
            first.comment("Paths of the server's own, for what nginx does within itself; no client may ask for them.");
        }
        let maps_inner = self.last.iter().any(|route| route.has("map"));
        // A path that was led to one of them stays there.
        for inner in self.inner.iter().filter(|_| maps_inner) {
            let at = self.last.iter().rposition(|route| {
                route.entries.iter().any(|(key, value)| {
                    key == "map"
                        && value.strip_prefix(&format!("\"{inner}")).is_some_and(|rest| rest.starts_with(['/', '$']))
                })
            });
            if let Some(at) = at {
                let mut route = Table::default();
                route.text("prefix", inner);
                route.raw("pass", "true");
                self.last.insert(at + 1, route);
            }
        }
        self.host.routes.splice(0..0, guards);
        self.host.routes.append(&mut self.last);
        if self.host.routes.len() > ROUTES_MAX {
            let over = self.host.routes.len() - ROUTES_MAX;
            self.host.table.comment(format!("REFUSED, as {over} routes are too many"));
            self.host.table.list("deny", &["all"]);
            self.host.routes.truncate(ROUTES_MAX);
            if let Some(first) = scope.innermost().first() {
                let what = format!("the server becomes more than {ROUTES_MAX} routes");
                context.report.refused(first, what, "divide it into hosts, or put its rewrites into the application");
            }
        }
        self.host
    }
}

/// `index`, `autoindex` and compression, of a table with a root.
fn write_site(context: &mut Context<'_>, scope: &Scope<'_>, table: &mut Table) {
    write_index(context, scope, table);
    if let Some(directive) = scope.one("autoindex") {
        directive.told();
        table.raw("listing", (directive.argument(0) == "on").to_string());
    }
    if let Some(directive) = scope.one("gzip") {
        directive.told();
        let neighbours = scope.one("gzip_static").is_some_and(|one| one.argument(0) != "off");
        let mut keys = vec![("neighbours".to_owned(), neighbours.to_string())];
        let is_on = directive.argument(0) == "on";
        keys.push(("on_the_fly".to_owned(), is_on.to_string()));
        if let Some(least) = scope.one("gzip_min_length").filter(|_| is_on) {
            least.told();
            if let Some(bytes) = crate::units::bytes(least.argument(0)).filter(|bytes| *bytes <= 1 << 20) {
                keys.push(("min".to_owned(), bytes.to_string()));
            }
        }
        table.raw("compression", inline(keys.into_iter()));
    }
    for name in ["gzip_static", "gzip_min_length"] {
        scope.one(name).iter().for_each(|directive| context.report.idle(directive));
    }
}

fn write_index(context: &mut Context<'_>, scope: &Scope<'_>, table: &mut Table) {
    let Some(directive) = scope.one("index") else { return };
    directive.told();
    let (good, bad): (Vec<&String>, Vec<&String>) =
        directive.arguments.iter().partition(|name| !name.contains(['/', '$']) && !name.is_empty());
    if !good.is_empty() {
        table.list("index", &good);
    }
    if !bad.is_empty() {
        let what = format!("`{}`: an index is a name of a file", directive.line());
        context.report.lost(directive, what, "write a [[host.route]] with try_files for another place");
    }
}

fn tell_all(directive: &Directive) {
    directive.told();
    directive.children().iter().for_each(tell_all);
}
