//! Advice for a terminal.

use super::finding::{Advice, Finding, Predicted, Setting};
use weir_report::{hanging, nanoseconds};

/// Columns of what stands at the left of a finding's lines.
const LABEL: usize = 13;
/// Lines of which something is copied stay whole, however long.
const WHOLE: [&str; 3] = ["   change ", "     and ", "   run "];

/// The whole as text, within so many columns.
pub fn text(advice: &Advice, width: usize) -> String {
    let lines = lines(advice);
    let shown = lines.iter().map(|line| match line {
        line if WHOLE.iter().any(|label| line.starts_with(label)) => hanging(line, usize::MAX, width),
        line if line.starts_with("   ") => hanging(line, LABEL, width),
        line if line.starts_with("  - ") => hanging(line, 4, width),
        line => hanging(line, 0, width),
    });
    shown.collect::<Vec<String>>().join("\n")
}

fn lines(advice: &Advice) -> Vec<String> {
    let mut lines = vec![advice.subject.clone()];
    let servers: Vec<String> = advice
        .servers
        .iter()
        .map(|server| format!("{}{}", server.kind, server.pid.map_or_else(String::new, |pid| format!(" ({pid})"))))
        .collect();
    lines.push(format!(
        "mean response {}; servers: {}",
        nanoseconds(advice.response_ns),
        if servers.is_empty() { "none was found".to_owned() } else { servers.join(", ") }
    ));
    for finding in &advice.findings {
        lines.push(String::new());
        lines.extend(of_finding(finding));
    }
    if let Some(reason) = &advice.none_because {
        lines.push(String::new());
        lines.push(format!("No finding: {reason}"));
    }
    section(&mut lines, "No setting changes", &advice.beyond_settings);
    section(&mut lines, "Not looked at", &advice.problems);
    if let Some(first) = advice.findings.iter().find(|finding| finding.can_try).filter(|_| advice.trial.is_none()) {
        lines.push(String::new());
        lines.push(format!("Prove it: weir advise {} --try {}", advice.run, first.number));
    }
    lines.push(String::new());
    lines
}

fn section(lines: &mut Vec<String>, title: &str, texts: &[String]) {
    if !texts.is_empty() {
        lines.push(String::new());
        lines.push(title.to_owned());
        lines.extend(texts.iter().map(|text| format!("  - {text}")));
    }
}

fn of_finding(finding: &Finding) -> Vec<String> {
    let share = finding.effect.share;
    let percent = |value: f64| format!("{:.0}", 100.0 * value);
    let mut lines = vec![format!("{}. {}", finding.number, finding.title)];
    lines.push(format!(
        "   expected  {} % less of the mean response, an estimate between {} and {} % ({} of {})",
        percent(share.likely_ns),
        percent(share.low_ns),
        percent(share.high_ns),
        nanoseconds(finding.effect.saved_ns.likely_ns),
        nanoseconds(finding.effect.saved_ns.likely_ns / share.likely_ns.max(1e-9)),
    ));
    match &finding.predicted {
        Some(Predicted::Response { now_ns, then_ns, low_ns, high_ns }) => lines.push(format!(
            "   predicted a mean response of {} in place of {}, between {} and {}, by a queueing model of the run (weir predict)",
            nanoseconds(*then_ns),
            nanoseconds(*now_ns),
            nanoseconds(*low_ns),
            nanoseconds(*high_ns)
        )),
        Some(Predicted::NoneBecause(reason)) => lines.push(format!("   predicted nothing: {reason}")),
        None => {}
    }
    lines.extend(finding.evidence.iter().map(|evidence| format!("   evidence  {}", evidence.text)));
    lines.extend(finding.facts.iter().map(|fact| format!("             {fact}")));
    lines.extend(finding.settings.iter().enumerate().map(|(index, setting)| of_setting(setting, index == 0)));
    lines.extend(finding.commands.iter().map(|command| format!("   run       {command}")));
    lines.push(format!("   because   {}", finding.reasoning));
    lines.push(format!("   reckoned  {}", finding.effect.basis));
    lines.extend(finding.against.iter().map(|text| format!("   against   {text}")));
    if let Some(reason) = &finding.cannot_try_because {
        lines.push(format!("   no trial  {reason}"));
    }
    lines
}

fn of_setting(setting: &Setting, first: bool) -> String {
    let head = if first { "   change  " } else { "     and   " };
    let file = setting.file.as_ref().map_or_else(|| "its configuration".to_owned(), |file| file.display().to_string());
    let scope = if setting.scope.is_empty() { String::new() } else { format!(" in {}", setting.scope.join(" > ")) };
    match setting.line {
        Some(line) => format!("{head}  {file}:{line}{scope}: {}   (now {})", setting.text, setting.now),
        None => format!("{head}  {file}{scope}: add {}   (not said; the default is {})", setting.text, setting.now),
    }
}
