//! What is taken of answers and what is checked of them.

use crate::jmeter::element::Element;
use crate::jmeter::names::{Names, extracted};
use crate::model::{Ask, Take, name_of};
use crate::report::Report;

/// Adds what an extractor takes to a request.
pub(super) fn take(element: Element<'_>, ask: &mut Ask, report: &Report) {
    let names = extracted(element);
    let whats: Vec<Option<String>> = match element.kind() {
        "RegexExtractor" => vec![regex(element)],
        "BoundaryExtractor" => vec![boundary(element)],
        "HtmlExtractor" => vec![css(element)],
        _ => {
            let numbers = element.value("JSONPostProcessor.match_numbers");
            let is_first = numbers.split(';').all(|number| ["", "1", "0"].contains(&number.trim()));
            let paths = element.value("JSONPostProcessor.jsonPathExprs").split(';');
            paths.map(|path| json_path(path).filter(|_| is_first).map(|path| format!("json {path}"))).collect()
        }
    };
    for (place, name) in names.iter().enumerate() {
        let what = whats.get(place).cloned().flatten();
        let what = what.filter(|what| weir_scenario::form::Take::parse(what).is_some());
        let own = name_of(name);
        match what {
            Some(what) => {
                ask.takes.retain(|take| take.name != own);
                ask.takes.push(Take { name: own, what, must: false });
            }
            None => {
                let words =
                    format!("{}: what it takes for {name} is not carried over, so {name} is empty", element.shown());
                report.lost(element.line(), words, "write take with json, css or regex");
                // The name must be known, as texts may use it.
                if !ask.takes.iter().any(|take| take.name == own) {
                    ask.takes.push(Take { name: own, what: "header x-not-carried-over".to_owned(), must: false });
                }
            }
        }
    }
}

/// A regular expression whose first group is taken from the body.
fn regex(element: Element<'_>) -> Option<String> {
    let is_of_body =
        ["", "false", "true_body", "as_document", "unescaped"].contains(&element.value("RegexExtractor.useHeaders"));
    let is_first_group = ["", "$1$"].contains(&element.value("RegexExtractor.template").trim());
    let is_first = ["", "0", "1"].contains(&element.value("RegexExtractor.match_number").trim());
    let pattern = element.value("RegexExtractor.regex");
    (is_of_body && is_first_group && is_first && !pattern.is_empty()).then(|| format!("regex {pattern}"))
}

fn boundary(element: Element<'_>) -> Option<String> {
    let (left, right) = (element.value("BoundaryExtractor.lboundary"), element.value("BoundaryExtractor.rboundary"));
    let is_first = ["", "0", "1"].contains(&element.value("BoundaryExtractor.match_number").trim());
    let is_of_body = ["", "false"].contains(&element.value("BoundaryExtractor.useHeaders"));
    let fits = is_first && is_of_body && !left.is_empty() && !right.is_empty();
    fits.then(|| format!("regex (?s){}(.*?){}", regex::escape(left), regex::escape(right)))
}

fn css(element: Element<'_>) -> Option<String> {
    let attribute = element.value("HtmlExtractor.attribute").trim();
    let attribute = if attribute.is_empty() { String::new() } else { format!(" @{attribute}") };
    let is_first = ["", "0", "1"].contains(&element.value("HtmlExtractor.match_number").trim());
    is_first.then(|| format!("css {}{attribute}", element.value("HtmlExtractor.expr").trim()))
}

/// A path of JSON as a scenario writes it: `$.items[0].id` is `.items[0].id`. None of one that selects several.
fn json_path(path: &str) -> Option<String> {
    let rest = path.trim().strip_prefix('$')?.replace("['", "[\"").replace("']", "\"]");
    let several = ["..", "*", "?(", "@", ":"].iter().any(|sign| rest.contains(sign));
    (!several).then(|| if rest.is_empty() { ".".to_owned() } else { rest })
}

/// Adds what an assertion asks for to a request.
pub(super) fn check(element: Element<'_>, ask: &mut Ask, names: &Names<'_>, report: &Report) {
    let checks = match element.kind() {
        "JSONPathAssertion" => json(element, names),
        _ => response(element, names),
    };
    let fits = |check: &String| check.parse::<weir_load::Check>().is_ok_and(|check| check.scope().is_none());
    match checks.filter(|checks| !checks.is_empty() && checks.iter().all(fits)) {
        Some(checks) => ask.checks.extend(checks),
        None => {
            let what = format!("{} is not carried over", element.shown());
            report.lost(element.line(), what, "write check = [...] into the step");
        }
    }
}

fn json(element: Element<'_>, names: &Names<'_>) -> Option<Vec<String>> {
    let path = json_path(element.value("JSON_PATH"))?;
    if element.is_true("INVERT") || element.is_true("EXPECT_NULL") {
        return None;
    }
    if !element.is_true("JSONVALIDATION") {
        return Some(vec![format!("json {path}")]);
    }
    let wanted = names.constant(element.value("EXPECTED_VALUE"))?;
    let is_regex = element.property("ISREGEX").is_none() || element.is_true("ISREGEX");
    // JMeter compares a whole value with an expression.
    Some(vec![if is_regex { format!("json {path}~^(?:{wanted})$") } else { format!("json {path}={wanted}") }])
}

/// The kinds of comparison of a response assertion.
const EQUALS: u32 = 8;
const MATCH: u32 = 1;
const SUBSTRING: u32 = 16;
const NOT: u32 = 4;
const OR: u32 = 32;

fn response(element: Element<'_>, names: &Names<'_>) -> Option<Vec<String>> {
    let kind: u32 = element.value("Assertion.test_type").trim().parse().ok()?;
    let patterns: Option<Vec<String>> =
        element.items("Asserion.test_strings").iter().map(|item| names.constant(item.text())).collect();
    let patterns = patterns?;
    let (is_not, is_or) = (kind & NOT != 0, kind & OR != 0 && patterns.len() > 1);
    let scope = element.value("Assertion.scope");
    if !["", "main", "all"].contains(&scope) {
        return None;
    }
    let field = element.value("Assertion.test_field");
    if field == "Assertion.response_code" {
        // Statuses are compared as numbers: several of them in one check are alternatives.
        let are_statuses = patterns.iter().all(|one| one.len() == 3 && one.bytes().all(|byte| byte.is_ascii_digit()));
        return (are_statuses && !is_not && (is_or || patterns.len() == 1))
            .then(|| vec![format!("status={}", patterns.join(","))]);
    }
    if field != "Assertion.response_data" && field != "Assertion.response_data_as_document" {
        return None;
    }
    let expression = |text: &String| match kind & !(NOT | OR) {
        EQUALS => format!("^(?s:{})$", regex::escape(text)),
        SUBSTRING => regex::escape(text),
        MATCH => format!("^(?s:{text})$"),
        _ => text.clone(),
    };
    let expressions: Vec<String> = patterns.iter().map(expression).collect();
    let sign = if is_not { "!~" } else { "~" };
    if is_or && is_not {
        return None;
    }
    if is_or {
        let ways: Vec<String> = expressions.iter().map(|one| format!("(?:{one})")).collect();
        return Some(vec![format!("body~{}", ways.join("|"))]);
    }
    Some(expressions.iter().map(|one| format!("body{sign}{one}")).collect())
}
