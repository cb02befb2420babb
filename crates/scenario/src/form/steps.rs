//! Steps one after the other, in groups, by weight, under conditions, again and again; as instructions.

use crate::form::condition::Condition;
use crate::form::document::{Table, Value};
use crate::form::place::Place;
use crate::form::program::{Op, Program};
use crate::form::step;
use crate::form::think::Think;
use std::sync::Arc;

/// How deep steps may lie within each other.
const DEPTH_MAX: usize = 32;
/// The most instructions.
const OPS_MAX: usize = 100_000;

/// Reads steps into a program.
pub(crate) fn program(steps: &[Value<'_, '_>], place: &Place<'_>) -> Program {
    let mut program = Program::default();
    read(steps, place, &mut program);
    program
}

fn read(steps: &[Value<'_, '_>], place: &Place<'_>, program: &mut Program) {
    for value in steps {
        if program.ops.len() > OPS_MAX {
            return value.wrong(format!("there are more than {OPS_MAX} steps"), "give fewer");
        }
        if place.depth > DEPTH_MAX {
            return value.wrong(format!("steps lie more than {DEPTH_MAX} deep"), "put them side by side");
        }
        if let Some(table) = value.table("a step", "a step") {
            one(&table, place, program);
            table.finish();
        }
    }
}

fn one(table: &Table<'_, '_>, place: &Place<'_>, program: &mut Program) {
    let condition = table.get("if").and_then(|value| condition(value, place));
    let unless = condition.map(|condition| {
        program.ops.push(Op::Unless(condition, 0));
        program.ops.len() - 1
    });
    let repeat = table.number("repeat", 0, 1_000_000);
    let again = repeat.map(|times| {
        let counter = program.counters;
        program.counters += 1;
        program.ops.push(Op::Count(counter, times));
        program.ops.push(Op::Done(counter, 0));
        program.ops.len() - 1
    });
    let within = Place { depth: place.depth + 1, ..place.clone() };
    what(table, &within, program);
    if let Some(begin) = again {
        program.ops.push(Op::Jump(begin));
        let end = program.ops.len();
        if let Op::Done(_, place) = &mut program.ops[begin] {
            *place = end;
        }
    }
    let otherwise = table.list("else");
    if unless.is_none() && table.get("else").is_some() {
        table.wrong("else without if", "write if = \"...\", too");
    }
    let Some(unless) = unless else { return };
    let mut end = program.ops.len();
    if !otherwise.is_empty() {
        program.ops.push(Op::Jump(0));
        let jump = end;
        end = program.ops.len();
        read(&otherwise, &within, program);
        program.ops[jump] = Op::Jump(program.ops.len());
    }
    if let Op::Unless(_, place) = &mut program.ops[unless] {
        *place = end;
    }
}

/// What a step does, apart from whether and how often.
fn what(table: &Table<'_, '_>, place: &Place<'_>, program: &mut Program) {
    let before = program.ops.len();
    let is_request = step::is_request(table);
    if is_request && let Some(step) = step::step(table, place) {
        program.ops.push(Op::Ask(Box::new(step)));
    }
    let choices = table.list("choose");
    let steps = table.list("steps");
    let kinds = usize::from(is_request) + usize::from(!choices.is_empty()) + usize::from(!steps.is_empty());
    let group = table.text("group");
    if group.is_some() && steps.is_empty() {
        table.wrong("group without steps", "write steps = [ ... ], too");
    }
    let think = table.text("think");
    if kinds > 1 || kinds == 0 && think.is_none() && before == program.ops.len() {
        table.wrong(
            "a step is one of a request, a think time, a group of steps, or a choice",
            "write get = \"/path\", think = \"1s..3s\", steps = [ ... ], or choose = [ ... ]",
        );
        return;
    }
    if !choices.is_empty() {
        choose(&choices, place, program);
    }
    if !steps.is_empty() {
        let name = group.map_or("", |(name, _)| name);
        let inner: Arc<str> = match (&*place.group, name) {
            (outer, "") => outer.into(),
            ("", name) => name.into(),
            (outer, name) => format!("{outer} / {name}").into(),
        };
        read(&steps, &Place { group: inner, ..place.clone() }, program);
    }
    if let Some((text, at)) = think {
        match Think::parse(text) {
            Some(think) => program.ops.push(Op::Think(think)),
            None => table.document.wrong(
                at,
                format!("think = {text:?} is no time to think"),
                "write \"2s\", \"1s..3s\", \"exp 2s\", \"normal 2s 500ms\", \"lognormal 2s 0.5\" or \"pareto 1s 1.5\"",
            ),
        }
    }
}

fn choose(choices: &[Value<'_, '_>], place: &Place<'_>, program: &mut Program) {
    let at = program.ops.len();
    program.ops.push(Op::Choose(Vec::new()));
    let (mut ways, mut ends) = (Vec::new(), Vec::new());
    for value in choices {
        let Some(table) = value.table("a choice", "a choice") else { continue };
        let weight = table.number("weight", 1, 1_000_000).unwrap_or(1) as u32;
        ways.push((weight, program.ops.len()));
        let steps = table.list("steps");
        if steps.is_empty() {
            table.wrong("a choice without steps", "write steps = [ ... ], with a think = \"0s\" where nothing is done");
        }
        read(&steps, place, program);
        table.finish();
        ends.push(program.ops.len());
        program.ops.push(Op::Jump(0));
    }
    let behind = program.ops.len();
    ends.into_iter().for_each(|end| program.ops[end] = Op::Jump(behind));
    program.ops[at] = if ways.is_empty() { Op::Jump(behind) } else { Op::Choose(ways) };
}

fn condition(value: Value<'_, '_>, place: &Place<'_>) -> Option<Condition> {
    let text = value.text("if")?;
    let condition = Condition::parse(text);
    match &condition {
        Some(condition) => condition.names().for_each(|name| place.known.uses(name, value.at)),
        None => value.wrong(
            format!("if = {text:?} is no condition"),
            "write \"status = 200\", \"${name} = value\", \"${name} ~ REGEX\", \"${n} > 3\" or \"${name}\"",
        ),
    }
    condition
}
