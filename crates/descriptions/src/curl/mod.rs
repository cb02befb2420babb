//! Command lines of curl, as browsers copy them and as people write them into files.

mod options;
mod request;
mod said;
mod sent;
mod words;

use crate::files::Files;
use crate::model::{Does, Group, Plan, Step, name_of};
use crate::report::Report;
use request::Commands;

/// The plan of the commands of a text; what is wrong is told.
pub(crate) fn plan(text: &str, files: &dyn Files, report: &Report) -> Option<Plan> {
    if let Some(line) = text.lines().position(|line| line.trim_end().ends_with(" ^") || line.trim_end() == "^") {
        report.wrong((line + 1, 1), "this is a command line for cmd of Windows", "copy it as cURL (bash)");
        return None;
    }
    let commands = words::commands(text, report)?;
    let mut made = Commands::new(files, report);
    for command in &commands {
        made.take(command);
    }
    let steps: Vec<Step> = made.asks.into_iter().map(|(line, ask)| Step::new(line, Does::Ask(Box::new(ask)))).collect();
    let group = Group { line: 1, name: "curl".to_owned(), steps, ..Group::default() };
    let original = |name: &str| match name.strip_suffix('_').filter(|own| name_of(own) == name) {
        Some(own) => own.to_owned(),
        None => name.to_owned(),
    };
    let env = made.variables.into_iter().map(|name| (name.clone(), original(&name))).collect();
    Some(Plan { env, groups: vec![group], ..Plan::default() })
}
