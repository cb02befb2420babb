//! Goes through the parts of a plan: controllers and samplers become steps.

use crate::jmeter::context::Walk;
use crate::jmeter::element::Element;
use crate::jmeter::names::{columns, data_name};
use crate::jmeter::sampler;
use crate::jmeter::scope::{Role, Scope, role};
use crate::model::{Choice, Data, Does, Plan, Step, name_of};
use regex::Regex;

/// The deepest controller.
const DEPTH_MAX: usize = 24;

impl Walk<'_> {
    /// What holds within a part: what held before, and what stands directly in it.
    pub(super) fn extended<'x>(&self, scope: &Scope<'x>, tree: Element<'x>) -> Scope<'x> {
        let mut scope = scope.clone();
        for (element, below) in tree.pairs() {
            match role(element) {
                Role::Defaults => scope.defaults.push(element),
                Role::Headers => scope.headers.push(element),
                Role::Cookies => {
                    scope.has_cookies = true;
                    if !element.items("CookieManager.cookies").is_empty() {
                        let what = format!("the cookies of {} are not carried over", element.shown());
                        self.report.lost(element.line(), what, "write a header Cookie");
                    }
                }
                Role::Authorization => scope.authorizations.push(element),
                Role::Timer => scope.timers.push(element),
                Role::Assertion => scope.assertions.push(element),
                Role::Extractor => scope.extractors.push(element),
                Role::Values | Role::Idle | Role::Other => {}
            }
            if role(element) != Role::Other && below.is_some_and(|below| !below.pairs().is_empty()) {
                self.report.lost(element.line(), format!("what stands below {}", element.shown()), "put it beside");
            }
        }
        scope
    }

    /// The steps of a part.
    pub(super) fn steps<'x>(&self, tree: Element<'x>, scope: &Scope<'x>, depth: usize) -> Vec<Step> {
        let ways = self.ways(tree, scope, depth);
        ways.into_iter().flatten().collect()
    }

    /// The steps of a part, those of each element apart.
    fn ways<'x>(&self, tree: Element<'x>, scope: &Scope<'x>, depth: usize) -> Vec<Vec<Step>> {
        let mut ways = Vec::new();
        for (element, below) in tree.pairs() {
            if role(element) != Role::Other {
                continue;
            }
            if depth > DEPTH_MAX {
                self.report.lost(element.line(), format!("{} lies too deep", element.shown()), "put it further out");
                continue;
            }
            let steps = match element.kind() {
                "HTTPSamplerProxy" | "HTTPSampler2" | "HTTPSampler" => self.sampled(element, below, scope),
                "TestAction" => self.paused(element),
                _ => self.controlled((element, below), scope, depth),
            };
            if !steps.is_empty() {
                ways.push(steps);
            }
        }
        ways
    }

    /// A request, with the pauses before it.
    fn sampled<'x>(&self, element: Element<'x>, below: Option<Element<'x>>, scope: &Scope<'x>) -> Vec<Step> {
        let scope = match below {
            Some(below) => {
                for (inner, _) in below.pairs().into_iter().filter(|(inner, _)| role(*inner) == Role::Other) {
                    self.not_known(inner);
                }
                self.extended(scope, below)
            }
            None => scope.clone(),
        };
        let Some(ask) = sampler::ask(self, element, &scope) else { return Vec::new() };
        let mut steps: Vec<Step> = scope.timers.iter().filter_map(|timer| self.timed(*timer)).collect();
        steps.push(Step::new(element.line(), Does::Ask(Box::new(ask))));
        steps
    }

    /// A timer as a time to think.
    fn timed(&self, timer: Element<'_>) -> Option<Step> {
        let ms = |name: &str| self.names.number(timer.value(name)).filter(|ms| (0.0..=8.64e7).contains(ms));
        let (delay, range) = (ms("ConstantTimer.delay"), ms("RandomTimer.range"));
        let time = |ms: f64| format!("{}us", (ms * 1e3).round());
        let think = match (timer.kind(), delay, range) {
            ("ConstantTimer", Some(delay), _) => Some(time(delay)),
            ("UniformRandomTimer", delay, Some(range)) => {
                let delay = delay.unwrap_or(0.0);
                Some(format!("{}..{}", time(delay), time(delay + range)))
            }
            ("GaussianRandomTimer", delay, Some(deviation)) => {
                Some(format!("normal {} {}", time(delay.unwrap_or(0.0)), time(deviation)))
            }
            // The deviation of a Poisson distribution is the root of its mean, and it is nearly normal.
            ("PoissonRandomTimer", delay, Some(mean)) => {
                Some(format!("normal {} {}", time(delay.unwrap_or(0.0) + mean), time(mean.sqrt())))
            }
            _ => None,
        };
        if think.is_none() {
            let what = format!("{}: its time is none that is known before a run", timer.shown());
            self.report.lost(timer.line(), what, "write think = \"...\"");
        }
        Some(Step::new(timer.line(), Does::Think(think?)))
    }

    /// A pause of its own.
    fn paused(&self, element: Element<'_>) -> Vec<Step> {
        let is_pause = element.value("ActionProcessor.action").trim() == "1";
        match self.names.number(element.value("ActionProcessor.duration")).filter(|ms| is_pause && *ms >= 0.0) {
            Some(ms) => vec![Step::new(element.line(), Does::Think(format!("{}us", (ms.min(8.64e7) * 1e3).round())))],
            None => {
                self.not_known(element);
                Vec::new()
            }
        }
    }

    /// A controller.
    fn controlled<'x>(
        &self,
        (element, below): (Element<'x>, Option<Element<'x>>),
        scope: &Scope<'x>,
        depth: usize,
    ) -> Vec<Step> {
        let kind = element.kind();
        let known = [
            "TransactionController",
            "GenericController",
            "RecordingController",
            "OnceOnlyController",
            "LoopController",
            "IfController",
            "ThroughputController",
            "RandomController",
            "InterleaveControl",
        ];
        let Some(tree) = below.filter(|_| known.contains(&kind)) else {
            self.not_known(element);
            return Vec::new();
        };
        let inner = self.extended(scope, tree);
        let line = element.line();
        let mut ways = self.ways(tree, &inner, depth + 1);
        if ways.is_empty() {
            return Vec::new();
        }
        if kind == "RandomController" || kind == "InterleaveControl" {
            if kind == "InterleaveControl" {
                self.report.lost(line, format!("{}: its turns are drawn by chance", element.shown()), "leave it so");
            }
            let choices = ways.into_iter().map(|steps| Choice { weight: 1, steps }).collect();
            return vec![Step::new(line, Does::Choose(choices))];
        }
        let steps: Vec<Step> = ways.drain(..).flatten().collect();
        let name = Some(element.name()).filter(|name| !name.is_empty()).map(str::to_owned);
        let mut step = Step::new(line, Does::Steps(name, steps));
        match kind {
            "OnceOnlyController" if !scope.is_once => {
                let what = format!("{} is done in each iteration", element.shown());
                self.report.lost(line, what, "put its steps into a scenario with iterations_each = 1, or into setup");
            }
            "LoopController" => match self.names.number(element.value("LoopController.loops")) {
                Some(loops) if (0.0..=1e6).contains(&loops) => step.repeat = Some(loops as u64),
                _ => {
                    let what = format!("{}: how often is not known, or endless; it is done once", element.shown());
                    self.report.lost(line, what, "write repeat");
                }
            },
            "IfController" => match self.condition(element.value("IfController.condition")) {
                Some(when) => step.when = Some(when),
                None => {
                    let what = format!("{} is left out: its condition is more than a comparison", element.shown());
                    self.report.lost(line, what, "write if = \"${name} = value\"");
                    return Vec::new();
                }
            },
            "ThroughputController" => return self.shared(element, step),
            _ => {}
        }
        vec![step]
    }

    /// A share of the iterations.
    fn shared(&self, element: Element<'_>, step: Step) -> Vec<Step> {
        let percent = self.names.number(element.value("ThroughputController.percentThroughput"));
        let is_percent = element.value("ThroughputController.style").trim() == "1";
        match percent.filter(|percent| is_percent && (0.0..=100.0).contains(percent)) {
            Some(percent) => {
                let weight = (percent * 100.0).round() as u32;
                match weight {
                    0 => Vec::new(),
                    10_000.. => vec![step],
                    _ => {
                        let nothing = Step::new(step.line, Does::Think("0s".to_owned()));
                        let line = step.line;
                        let ways = vec![
                            Choice { weight, steps: vec![step] },
                            Choice { weight: 10_000 - weight, steps: vec![nothing] },
                        ];
                        vec![Step::new(line, Does::Choose(ways))]
                    }
                }
            }
            None => {
                let what =
                    format!("{}: a number of executions is not carried over; it is always done", element.shown());
                self.report.lost(element.line(), what, "write choose with weights");
                vec![step]
            }
        }
    }

    /// A comparison of a variable, as a scenario writes it.
    fn condition(&self, text: &str) -> Option<String> {
        let mut inner = text.trim();
        for function in ["${__jexl3(", "${__jexl2(", "${__groovy("] {
            if let Some(rest) = inner.strip_prefix(function).and_then(|rest| rest.strip_suffix("}")) {
                inner = rest.trim().strip_suffix(')')?.trim().trim_end_matches(',').trim();
            }
        }
        let form =
            Regex::new(r#"^["']?\$\{([\w.-]+)\}["']?\s*(==|!=|<=|>=|<|>)\s*["']?([^"'&|$<>=!~]*)["']?$"#).ok()?;
        let found = form.captures(inner)?;
        let left = self.names.text(&format!("${{{}}}", &found[1])).ok()?.template();
        let sign = if &found[2] == "==" { "=" } else { &found[2] };
        let when = format!("{left} {sign} {}", found[3].trim());
        weir_scenario::form::Condition::parse(&when).map(|_| when)
    }

    /// A set of CSV data.
    pub(super) fn data(&self, element: Element<'_>, plan: &mut Plan) {
        let shown = element.shown();
        let lost = |what: String, remedy: &str| self.report.lost(element.line(), format!("{shown}: {what}"), remedy);
        let Some(file) = self.names.constant(element.value("filename")).filter(|file| !file.is_empty()) else {
            return lost("its file is only known in a run".to_owned(), "write [data.NAME] with file");
        };
        let own: Vec<String> = columns(element).iter().map(|name| name_of(name)).collect();
        let mut keys = Vec::new();
        if own.is_empty() {
            lost("its columns are named by its first line".to_owned(), "write the names as the variable names");
            return;
        }
        let quoted: Vec<String> = own.iter().map(|name| format!("\"{name}\"")).collect();
        keys.push(("columns", format!("[{}]", quoted.join(", "))));
        if element.is_true("ignoreFirstLine") {
            keys.push(("skip", "1".to_owned()));
        }
        match element.value("delimiter") {
            "" | "," => {}
            "\\t" | "\t" => keys.push(("separator", "\"\\t\"".to_owned())),
            other
                if other.chars().count() == 1
                    && !["\"", "\\"].contains(&other)
                    && !other.contains(char::is_control) =>
            {
                keys.push(("separator", format!("\"{other}\"")));
            }
            other => lost(format!("the delimiter {other:?} is no single letter"), "write separator"),
        }
        if element.property("recycle").is_some() && !element.is_true("recycle") {
            keys.push(("end", "\"stop\"".to_owned()));
        }
        if !["", "shareMode.all"].contains(&element.value("shareMode")) {
            lost("its rows are shared by all users".to_owned(), "write order = \"unique\", or leave it so");
        }
        plan.data.push(Data { name: data_name(element), file: file.replace('\\', "/"), keys });
    }

    /// Whether users forget their cookies at the end of an iteration.
    pub(super) fn clears_cookies(&self, tree: Element<'_>) -> bool {
        let managers = tree.pairs().into_iter().filter(|(element, _)| element.kind() == "CookieManager");
        managers.into_iter().any(|(element, _)| element.is_true("CookieManager.clearEachIteration"))
    }
}
