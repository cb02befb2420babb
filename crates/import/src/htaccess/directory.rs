//! What the `.htaccess` of one directory says, as tables and routes.

use super::fields::{header, life_s, of_type};
use super::paths::{Paths, below};
use super::requires::{self, Admitted};
use super::rewrites::Rules;
use crate::directive::Directive;
use crate::document::{Table, inline, list, quoted};
use crate::files::{Entry, Files};
use crate::headers::Fields;
use crate::report::Report;
use crate::templates::{self, Piece};
use crate::{patterns, users};

const PAGES: [u16; 15] = [400, 401, 403, 404, 405, 410, 412, 414, 416, 429, 451, 500, 502, 503, 504];
/// What weir does by itself, or what is of Apache's own workings.
const IDLE: [&str; 29] = [
    "fileetag",
    "serversignature",
    "adddefaultcharset",
    "addcharset",
    "addoutputfilterbytype",
    "setoutputfilter",
    "addoutputfilter",
    "addinputfilter",
    "contentdigest",
    "enablesendfile",
    "enablemmap",
    "expiresactive",
    "browsermatch",
    "browsermatchnocase",
    "filterdeclare",
    "filterprovider",
    "filterchain",
    "addencoding",
    "addlanguage",
    "languagepriority",
    "forcelanguagepriority",
    "defaultlanguage",
    "indexoptions",
    "indexignore",
    "addicon",
    "adddescription",
    "authbasicprovider",
    "authbasicauthoritative",
    "deflatecompressionlevel",
];
/// Modules that Debian's Apache does not have by itself, whose sections are left out.
const ABSENT: [&str; 3] = ["mod_access_compat_only", "mod_php4", "mod_php3"];

/// One directory.
pub(crate) struct Directory<'t> {
    paths: Paths,
    root: String,
    files: &'t dyn Files,
    /// What the host says, for the top.
    pub(crate) site: Table,
    /// Routes that refuse.
    pub(crate) refusals: Vec<Table>,
    pub(crate) rules: Rules<'t>,
    pub(crate) tables: Vec<Table>,
    /// Of names of files, which count more than directories.
    pub(crate) file_tables: Vec<Table>,
}

impl<'t> Directory<'t> {
    pub(crate) fn new(path: &str, root: &str, files: &'t dyn Files) -> Self {
        Self {
            paths: Paths::of_directory(path),
            root: root.to_owned(),
            files,
            site: Table::default(),
            refusals: Vec::new(),
            rules: Rules::new(path),
            tables: Vec::new(),
            file_tables: Vec::new(),
        }
    }

    pub(crate) fn read(&mut self, tree: &'t [Directive], report: &mut Report) {
        let mut flat = Vec::new();
        in_force(tree, &mut flat, report);
        let paths = self.paths.clone();
        self.block(&flat, &paths, report);
        if let Some(line) = self.rules.refused.take() {
            let mut table = Table::default();
            table.comment(format!("REFUSED, as this is not carried over: {line}"));
            table.list("deny", &["all"]);
            self.push(&paths, table, report, None);
        }
        for directive in flat {
            sweep(directive, report);
        }
    }

    /// The directives of the directory, or of files of it.
    fn block(&mut self, block: &[&'t Directive], paths: &Paths, report: &mut Report) {
        let mut table = Table::default();
        let mut fields = Fields::default();
        self.access(block, &mut table, report);
        for directive in block {
            let is_taken = paths.names.is_none() && self.rules.take(directive, report);
            if is_taken || directive.is_told() {
                continue;
            }
            match directive.name.to_ascii_lowercase().as_str() {
                "header" => header(directive, &mut fields, report),
                "expiresdefault" => match life_s(&directive.arguments.join(" ")) {
                    Some(seconds) => {
                        directive.told();
                        fields.set("Cache-Control", &format!("max-age={seconds}"));
                    }
                    None => not_a_life(directive, report),
                },
                "expiresbytype" => self.expires_by_type(directive, paths, report),
                "<files>" | "<filesmatch>" => self.files(directive, paths, report),
                "redirect" | "redirectpermanent" | "redirecttemp" | "redirectmatch" => self.redirect(directive, report),
                _ => self.site_directive(directive, &mut table, paths, report),
            }
        }
        fields.write(&mut table);
        self.push(paths, table, report, block.first().copied());
    }

    /// Adds a table for each pattern, or a route where there is none.
    fn push(&mut self, paths: &Paths, table: Table, report: &mut Report, of: Option<&Directive>) {
        if table.entries.is_empty() {
            return;
        }
        if paths.is_all() {
            for (key, value) in &table.entries {
                self.site.raw(key, value.clone());
            }
            return self.site.comments.extend(table.comments);
        }
        if let Some(patterns) = paths.tables() {
            for (kind, text) in patterns {
                let mut own = table.clone();
                own.entries.insert(0, (kind.to_owned(), quoted(&text)));
                if paths.names.is_some() { self.file_tables.push(own) } else { self.tables.push(own) }
            }
            return;
        }
        let mut route = Table { comments: table.comments.clone(), ..Table::default() };
        route.text("regex", &paths.expression());
        let is_closed = table.has("deny") || table.has("allow") || table.has("auth");
        let lets_all_in = table.entries.iter().any(|(key, value)| key == "allow" && value == "[\"all\"]");
        if is_closed && !lets_all_in {
            let is_whole = table.entries.iter().any(|(key, value)| key == "deny" && value == "[\"all\"]");
            if let (false, Some(of)) = (is_whole, of) {
                let what = "names of files that are no pattern: weir cannot say who may come".to_owned();
                report.refused(of, what, "write a glob for them in a [[host.path]]");
            }
            route.raw("fail", "403");
            return self.refusals.push(route);
        }
        for (key, value) in &table.entries {
            if ["set_headers", "set_error_headers", "remove_headers"].contains(&key.as_str()) {
                route.raw(key, value.clone());
            }
        }
        if route.entries.len() > 1 {
            self.refusals.push(route);
        } else if let Some(of) = of {
            let what = "names of files that are no pattern cannot have this".to_owned();
            report.lost(of, what, "write a glob for them in a [[host.path]]");
        }
    }

    fn access(&mut self, block: &[&Directive], table: &mut Table, report: &mut Report) {
        if let Some(tls) = block.iter().find(|one| one.name.eq_ignore_ascii_case("sslrequiressl")) {
            tls.told();
            let mut route = Table::default();
            route.text("regex", &self.paths.expression());
            route.text("scheme", "http");
            route.raw("fail", "403");
            self.refusals.push(route);
        }
        match requires::read(block) {
            Ok(None) => {}
            Ok(Some(admitted)) => self.admit(block, &admitted, table, report),
            Err(unsaid) => {
                let what = format!("`{}`: {}", unsaid.directive.line(), unsaid.why);
                report.refused(unsaid.directive, what, "write `allow`, `deny` and `auth` for who may come");
                refuse(table, unsaid.directive);
            }
        }
        for directive in block {
            let name = directive.name.to_ascii_lowercase();
            let is_of_auth = name.starts_with("auth") && !IDLE.contains(&name.as_str());
            if is_of_auth {
                directive.told();
            }
        }
    }

    fn admit(&mut self, block: &[&Directive], admitted: &Admitted, table: &mut Table, report: &mut Report) {
        match &admitted.networks {
            Some((allow, deny)) => {
                if !allow.is_empty() {
                    table.list("allow", allow);
                }
                let is_all_others = deny == &["all"] && !allow.is_empty();
                if !deny.is_empty() && !is_all_others {
                    table.list("deny", deny);
                }
            }
            None if !admitted.has_password => table.list("allow", &["all"]),
            None => {}
        }
        if !admitted.has_password {
            return;
        }
        let one = |name: &str| block.iter().find(|directive| directive.name.eq_ignore_ascii_case(name));
        let Some(asked) = block.iter().find(|directive| requires::is_about(directive)) else { return };
        let is_basic = one("AuthType").is_some_and(|kind| kind.argument(0).eq_ignore_ascii_case("basic"));
        let file = one("AuthUserFile").map(|file| file.argument(0).to_owned());
        let why = match &file {
            _ if !is_basic => Some("weir knows AuthType Basic only".to_owned()),
            _ if one("AuthGroupFile").is_some() => Some("weir knows no groups".to_owned()),
            None => Some("it names no file of users".to_owned()),
            Some(path) if !path.starts_with('/') => Some("the name of the file of users is relative".to_owned()),
            Some(path) => match self.files.read(path) {
                None => Some(format!("{path} cannot be read")),
                Some(text) => users::problem(&text).map(|why| format!("{path}: {why}")),
            },
        };
        match (why, file) {
            (None, Some(path)) => {
                let realm = one("AuthName").map_or("", |name| name.argument(0));
                let entries = [("realm".to_owned(), quoted(&users::realm(realm))), ("users".to_owned(), quoted(&path))];
                table.raw("auth", inline(entries.into_iter()));
            }
            (why, _) => {
                let what = format!("`{}`: no password can be asked for: {}", asked.line(), why.unwrap_or_default());
                report.refused(asked, what, users::REMEDY);
                refuse(table, asked);
            }
        }
    }

    fn expires_by_type(&mut self, directive: &Directive, paths: &Paths, report: &mut Report) {
        let life = life_s(&directive.arguments.get(1..).unwrap_or_default().join(" "));
        let Some(seconds) = life else { return not_a_life(directive, report) };
        let Some(each) = of_type(directive.argument(0), paths).filter(|_| paths.names.is_none()) else {
            let what = format!("`{}`: weir knows names of files, and no types", directive.line());
            return report.lost(directive, what, "write a [[host.path]] with a glob such as \"**.xyz\"");
        };
        directive.told();
        for own in each {
            let mut table = Table::default();
            let field = ("Cache-Control".to_owned(), format!("max-age={seconds}"));
            table.fields("set_headers", &[field]);
            self.push(&own, table, report, Some(directive));
        }
    }

    fn files(&mut self, directive: &'t Directive, paths: &Paths, report: &mut Report) {
        directive.told();
        let is_match = directive.name.eq_ignore_ascii_case("<FilesMatch>") || directive.argument(0) == "~";
        let text = directive.arguments.last().map_or("", String::as_str);
        let own = if is_match { paths.matching(text) } else { paths.like(text) };
        let mut flat = Vec::new();
        in_force(directive.children(), &mut flat, report);
        match own.filter(|_| paths.names.is_none()) {
            Some(own) => self.block(&flat, &own, report),
            None => {
                let what = format!("`{} {text}`: weir cannot read the expression", directive.name);
                if flat.iter().any(|one| requires::is_about(one)) {
                    report.refused(directive, what, "write a glob for these files in a [[host.path]]");
                    let mut table = Table::default();
                    refuse(&mut table, directive);
                    self.push(&self.paths.clone(), table, report, None);
                } else {
                    report.lost(directive, what, "write a glob for these files in a [[host.path]]");
                }
                flat.iter().for_each(|one| one.told());
            }
        }
        for one in flat {
            sweep(one, report);
        }
    }

    fn redirect(&mut self, directive: &Directive, report: &mut Report) {
        let mut words: Vec<&str> = directive.arguments.iter().map(String::as_str).collect();
        let name = directive.name.to_ascii_lowercase();
        let mut status = if name == "redirectpermanent" { 301 } else { 302 };
        let code = |word: &str| match word.to_ascii_lowercase().as_str() {
            "permanent" => Some(301),
            "temp" => Some(302),
            "seeother" => Some(303),
            "gone" => Some(410),
            number => number.parse::<u16>().ok().filter(|number| (300..600).contains(number)),
        };
        if let Some(code) = words.first().and_then(|word| code(word)) {
            status = code;
            words.remove(0);
        }
        let from = words.first().copied().unwrap_or_default();
        let target = words.get(1).copied().unwrap_or_default();
        let made = if name == "redirectmatch" { matched(from, target, status) } else { moved(from, target, status) };
        match made {
            Some(route) => {
                directive.told();
                self.rules.routes.push(route);
            }
            None if status >= 400 => {
                report.refused(directive, format!("`{}` cannot be said", directive.line()), "write a [[host.route]]");
                self.rules.refused.get_or_insert_with(|| format!("{}: {}", directive.place, directive.line()));
            }
            None => {
                let what = format!("`{}` cannot be said by a route", directive.line());
                report.lost(directive, what, "write a [[host.route]] with regex and redirect");
            }
        }
    }

    /// What belongs to a root, and pages.
    fn site_directive(&mut self, directive: &Directive, table: &mut Table, paths: &Paths, report: &mut Report) {
        let name = directive.name.to_ascii_lowercase();
        let of_top = paths.is_all();
        match name.as_str() {
            "directoryindex" if of_top => {
                directive.told();
                let (good, other): (Vec<&String>, Vec<&String>) =
                    directive.arguments.iter().partition(|word| !word.contains('/') && *word != "disabled");
                if good.is_empty() {
                    table.raw("index", "[]");
                } else {
                    table.list("index", &good);
                }
                if other.iter().any(|word| *word != "disabled") {
                    let what = format!("`{}`: an index is a name of a file", directive.line());
                    report.lost(directive, what, "write a [[host.route]] with try_files for another place");
                }
            }
            "options" => options(directive, of_top, table, report),
            "errordocument" => self.page(directive, table, report),
            "addtype" if of_top => media_types(directive, table, report),
            "setenv" => {
                let what = format!("`{}`: parameters are those of a table with fastcgi", directive.line());
                report.lost(directive, what, "add params = { NAME = \"VALUE\" } to it");
            }
            "setenvif" | "setenvifnocase"
                if directive.arguments.iter().any(|word| word.starts_with("HTTP_AUTHORIZATION")) =>
            {
                report.idle(directive);
            }
            "php_value" | "php_flag" | "php_admin_value" | "php_admin_flag" => {
                let what = format!("`{}` is for PHP within Apache", directive.line());
                report.lost(directive, what, "set it in the pool of php-fpm, or in .user.ini");
            }
            "addhandler" | "sethandler" | "removehandler" | "removetype" | "forcetype" => {
                let is_php = directive.arguments.iter().any(|word| word.contains("php"));
                if is_php && name != "sethandler" {
                    return report.idle(directive);
                }
                let what = format!("`{}`: weir has no handlers", directive.line());
                report.lost(directive, what, "give these names a [[host.path]] with fastcgi, or media_types");
            }
            "<limit>" | "<limitexcept>" | "<if>" | "<elseif>" | "<else>" => self.conditional(directive, report),
            _ if IDLE.contains(&name.as_str()) => report.idle(directive),
            _ => {}
        }
    }

    /// A section on methods or on an expression: what it keeps away is refused for all.
    fn conditional(&mut self, directive: &'_ Directive, report: &mut Report) {
        let children: Vec<&Directive> = directive.children().iter().collect();
        let what = format!("`{} {}`: weir has no such section", directive.name, directive.arguments.join(" "));
        if children.iter().any(|child| requires::is_about(child)) {
            let is_denied =
                matches!(requires::read(&children), Ok(Some(admitted)) if admitted == requires::denied_to_all());
            let name = directive.name.to_ascii_lowercase();
            if is_denied && name != "<if>" && !directive.arguments.is_empty() {
                directive.told();
                children.iter().for_each(|child| child.told());
                let mut route = Table::default();
                route.text("regex", &self.paths.expression());
                let methods = list(&directive.arguments);
                if name == "<limit>" {
                    route.raw("method", methods);
                } else {
                    route.raw("not", inline(std::iter::once(("method".to_owned(), methods))));
                }
                route.raw("fail", "403");
                return self.refusals.push(route);
            }
            report.refused(directive, what, "write a [[host.route]] with these conditions and fail = 403");
            self.rules.refused.get_or_insert_with(|| format!("{}: {}", directive.place, directive.line()));
            children.iter().for_each(|child| child.told());
        } else {
            report.lost(directive, what, "write a [[host.route]] with these conditions");
        }
    }

    fn page(&mut self, directive: &Directive, table: &mut Table, report: &mut Report) {
        let status = directive.argument(0).parse::<u16>().ok().filter(|status| PAGES.contains(status));
        let target = directive.argument(1);
        let file = below(&self.root, target).filter(|file| self.files.entry(file) == Some(Entry::File));
        match (status, file) {
            (Some(status), Some(file)) if !target.ends_with(".php") => {
                directive.told();
                let known = table.entries.iter().find(|(key, _)| key == "error_pages").map(|(_, value)| value.clone());
                let own = format!("{status} = {}", quoted(&file));
                let all = match known.as_deref().and_then(|value| value.strip_suffix(" }")) {
                    Some(begin) if !begin.contains(&format!("{status} = ")) => format!("{begin}, {own} }}"),
                    _ => format!("{{ {own} }}"),
                };
                table.raw("error_pages", all);
            }
            _ => {
                let what = format!("`{}`: the page of an error is a file", directive.line());
                report.lost(directive, what, "name one in error_pages; try_files has a page in place of a missing one");
            }
        }
    }
}

fn refuse(table: &mut Table, directive: &Directive) {
    table.comment(format!("REFUSED, as this is not carried over: {}: {}", directive.place, directive.line()));
    table.entries.retain(|(key, _)| key != "allow");
    table.list("deny", &["all"]);
}

fn not_a_life(directive: &Directive, report: &mut Report) {
    let what = format!("`{}`: weir counts from the request", directive.line());
    report.lost(directive, what, "write set_headers = { Cache-Control = \"max-age=SECONDS\" }");
}

fn options(directive: &Directive, of_top: bool, table: &mut Table, report: &mut Report) {
    directive.told();
    for word in &directive.arguments {
        let (is_on, name) = match word.strip_prefix('-') {
            Some(name) => (false, name),
            None => (true, word.strip_prefix('+').unwrap_or(word)),
        };
        match name.to_ascii_lowercase().as_str() {
            "indexes" | "all" if of_top => table.raw("listing", is_on.to_string()),
            "none" if of_top => table.raw("listing", "false"),
            "includes" | "includesnoexec" if of_top => table.raw("includes", is_on.to_string()),
            // weir lists no directory by itself below a host that lists none.
            "indexes" | "none" | "includes" | "includesnoexec" | "multiviews" | "execcgi" | "all" if !is_on => {}
            "followsymlinks" | "symlinksifownermatch" | "none" => {}
            _ => {
                let what = format!("`Options {word}` is not carried over");
                report.lost(directive, what, "see `listing` and `symlinks`; scripts are for fastcgi");
            }
        }
    }
}

fn media_types(directive: &Directive, table: &mut Table, report: &mut Report) {
    let (media_type, endings) = (directive.argument(0), directive.arguments.get(1..).unwrap_or_default());
    if media_type.contains("php") {
        return report.idle(directive);
    }
    let token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    let is_type = media_type.split_once('/').is_some_and(|(one, other)| token(one) && token(other));
    let is_ending = |ending: &String| {
        let bare = ending.trim_start_matches('.');
        !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+-".contains(&byte))
    };
    if !is_type || endings.is_empty() || !endings.iter().all(is_ending) {
        let what = format!("`{}` cannot be said", directive.line());
        return report.lost(directive, what, "write media_types = { ENDING = \"TYPE\" }");
    }
    directive.told();
    let known = table.entries.iter().find(|(key, _)| key == "media_types").map(|(_, value)| value.clone());
    let mut all = known.as_deref().and_then(|value| value.strip_suffix(" }")).unwrap_or("{").to_owned();
    for ending in endings {
        let ending = ending.trim_start_matches('.').to_ascii_lowercase();
        if all.contains(&format!(" {ending} = ")) {
            continue;
        }
        let comma = if all.len() > 1 { "," } else { "" };
        all.push_str(&format!("{comma} {ending} = {}", quoted(media_type)));
    }
    table.raw("media_types", all + " }");
}

/// `RedirectMatch`.
fn matched(from: &str, target: &str, status: u16) -> Option<Table> {
    let expression = patterns::expression(from, false)?;
    let mut route = Table::default();
    route.text("regex", &expression);
    if status >= 400 {
        return failed(route, status);
    }
    let groups = patterns::groups(&expression);
    let mut pieces = Vec::new();
    let mut rest = target;
    while let Some((before, after)) = rest.split_once('$') {
        pieces.push(Piece::Text(before.to_owned()));
        let digit = after.chars().next().and_then(|letter| letter.to_digit(10))? as usize;
        match digit {
            0 => pieces.push(Piece::Path),
            number if number <= groups => pieces.push(Piece::Capture(number)),
            _ => {}
        }
        rest = &after[1..];
    }
    pieces.push(Piece::Text(rest.to_owned()));
    if !target.contains('?') {
        pieces.push(Piece::Query);
    }
    redirected(route, &pieces, status)
}

/// `Redirect`: the path and all below it.
fn moved(from: &str, target: &str, status: u16) -> Option<Table> {
    if !from.starts_with('/') || from.contains("//") || from.contains(['%', '?', '*']) {
        return None;
    }
    let mut route = Table::default();
    if status >= 400 {
        route.text("prefix", from);
        return failed(route, status);
    }
    let bare = from.trim_end_matches('/');
    let literal = patterns::literal(bare);
    let mut pieces = vec![Piece::Text(target.to_owned())];
    if from.ends_with('/') {
        route.text("regex", &format!("^{literal}/(.*)$"));
        if !target.ends_with('/') && target.matches('/').count() == 2 {
            pieces.push(Piece::Text("/".to_owned()));
        }
    } else {
        route.text("regex", &format!("^{literal}(|/.*)$"));
    }
    pieces.push(Piece::Capture(1));
    if !target.contains('?') {
        pieces.push(Piece::Query);
    }
    redirected(route, &pieces, status)
}

fn failed(mut route: Table, status: u16) -> Option<Table> {
    let is_known = [403, 404, 410, 451, 500, 503].contains(&status);
    route.raw("fail", status.to_string());
    is_known.then_some(route)
}

fn redirected(mut route: Table, pieces: &[Piece], status: u16) -> Option<Table> {
    if ![301, 302, 303, 307, 308].contains(&status) {
        return None;
    }
    route.text("redirect", &templates::address(&templates::tidy(pieces))?);
    if status != 301 {
        route.raw("status", status.to_string());
    }
    Some(route)
}

/// The directives that hold with the modules of Debian's Apache 2.4, those of sections on modules included.
fn in_force<'t>(tree: &'t [Directive], flat: &mut Vec<&'t Directive>, report: &mut Report) {
    for directive in tree {
        match directive.name.to_ascii_lowercase().as_str() {
            "<ifmodule>" => {
                let module = directive.argument(0).to_ascii_lowercase();
                let is_absent = module.starts_with('!') || ABSENT.contains(&module.as_str());
                if is_absent {
                    report.idle(directive);
                    directive.children().iter().for_each(tell_all);
                } else {
                    directive.told();
                    in_force(directive.children(), flat, report);
                }
            }
            "<ifversion>" => {
                let is_newer = directive.argument(0) == ">=" || directive.argument(0) == ">";
                if is_newer {
                    directive.told();
                    in_force(directive.children(), flat, report);
                } else {
                    report.idle(directive);
                    directive.children().iter().for_each(tell_all);
                }
            }
            _ => flat.push(directive),
        }
    }
}

fn tell_all(directive: &Directive) {
    directive.told();
    directive.children().iter().for_each(tell_all);
}

/// Lists what no translation has looked at.
fn sweep(directive: &Directive, report: &mut Report) {
    if directive.is_told() {
        return;
    }
    let what = format!("`{}` is not carried over", directive.line());
    report.lost(directive, what, "see docs/reference/configuration.md for what weir can say");
    directive.children().iter().for_each(tell_all);
}
