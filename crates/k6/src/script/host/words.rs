//! What a script threw, in words.

use rquickjs::{Ctx, Value};

/// The most lines of a stack that are told.
const LINES_MAX: usize = 20;

/// What was thrown, and where.
pub(crate) fn words_of<'js>(ctx: &Ctx<'js>, thrown: &Value<'js>) -> String {
    if let Some(exception) = thrown.as_exception() {
        let object = exception.as_object();
        let name = object.get::<_, Option<String>>("name").ok().flatten().unwrap_or_else(|| "Error".to_owned());
        let message = exception.message().unwrap_or_default();
        let first = if message.is_empty() { name } else { format!("{name}: {message}") };
        return format!("{first}{}", stack_of(thrown));
    }
    if let Some(text) = thrown.as_string().and_then(|text| text.to_string().ok()) {
        return text;
    }
    match ctx.json_stringify(thrown.clone()) {
        Ok(Some(text)) => text.to_string().unwrap_or_default(),
        _ => thrown.type_name().to_owned(),
    }
}

/// Where it was thrown: ` at FILE:LINE:COLUMN`, or nothing.
pub(crate) fn place_of(thrown: &Value<'_>) -> String {
    let stack = stack_of(thrown);
    let line = stack.lines().find(|line| line.contains(".js:"));
    line.map(|line| format!(" ({})", line.trim())).unwrap_or_default()
}

/// The stack below the first line, without the modules that come with the program.
fn stack_of(thrown: &Value<'_>) -> String {
    let stack = thrown.as_exception().and_then(rquickjs::Exception::stack).unwrap_or_default();
    let inner = ["(native)", "weir:entry", "<null>", "(k6"];
    let own = |line: &&str| !line.is_empty() && !inner.iter().any(|words| line.contains(words));
    let lines = stack.lines().map(str::trim).filter(own).take(LINES_MAX);
    lines.map(|line| format!("\n\t{}", without_column(line))).collect()
}

/// The place of a syntax error without its column, which this version of the engine takes from a token before; other
/// places stand behind the name of a function.
fn without_column(line: &str) -> &str {
    match line.rsplit_once(':') {
        Some((place, column)) if line.starts_with("at /") && column.bytes().all(|byte| byte.is_ascii_digit()) => place,
        _ => line,
    }
}
