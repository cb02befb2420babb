//! A script in a state of its own: what it defines, and how that is called.

use super::figures::Figures;
use super::pipeline::NoRequest;
use super::thread::{Handle, Thread, add_addresses};
use super::watchdog::{Part, Watchdog, Watched};
use crate::system::{error_text, monotonic_ns};
use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, LuaOptions, StdLib, Table, Value};
use std::sync::Arc;

const PRELUDE: &str = include_str!("prelude.lua");

/// Why a script cannot be run, or not on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScriptError {
    /// Its file cannot be read.
    #[error("{file}: cannot be read ({cause}); -s takes a file with a script for LuaJIT")]
    Unreadable {
        /// As it was given.
        file: String,
        /// What the kernel said.
        cause: String,
    },
    /// It is no Lua, or what it does fails.
    #[error("{told}; correct the script there")]
    Failed {
        /// File, line, and what is wrong.
        told: String,
    },
    /// `request` gave no text.
    #[error("{place} gave {kind}; it must give a request as text, as wrk.format() does")]
    NoText {
        /// File, line and function.
        place: String,
        /// What it gave.
        kind: &'static str,
    },
    /// What `request` gave cannot be sent.
    #[error("{place} gave what is no request: {wrong}; wrk.format() puts one together")]
    NoRequest {
        /// File, line and function.
        place: String,
        /// What is wrong with it.
        wrong: NoRequest,
    },
    /// `delay` gave no time.
    #[error("{place} gave {given}; it must give a number of milliseconds from 0 to a day")]
    NoDelay {
        /// File, line and function.
        place: String,
        /// What it gave.
        given: String,
    },
}

/// What is loaded, in a script's words.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) scheme: &'static str,
    pub(super) host: String,
    /// As the URL has it, if it has one.
    pub(super) port: Option<String>,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
}

/// A script's text and the name of its file.
#[derive(Debug, Clone, Default)]
pub(super) struct Source {
    file: String,
    text: Vec<u8>,
}

impl Source {
    /// Reads a file; without one there is a script that does nothing.
    pub(super) fn read(file: Option<&str>) -> Result<Self, ScriptError> {
        let Some(file) = file else { return Ok(Self::default()) };
        let unreadable =
            |cause: std::io::Error| ScriptError::Unreadable { file: file.to_owned(), cause: error_text(&cause) };
        let mut text = std::fs::read(file).map_err(unreadable)?;
        if text.starts_with(b"#") {
            // A line for the shell; the numbers of the others stay.
            let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
            text[..end].fill(b' ');
        }
        Ok(Self { file: file.to_owned(), text })
    }
}

/// A script that was loaded.
#[derive(Debug)]
pub(super) struct Script {
    lua: Lua,
    wrk: Table,
    request: Function,
    response: Function,
    delay: Function,
    watched: Arc<Watched>,
    file: String,
}

/// What `done` is told of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Summary {
    pub(super) duration_us: u64,
    pub(super) requests: u64,
    pub(super) bytes: u64,
    /// connect, read, write, status, timeout
    pub(super) errors: [(&'static str, u64); 5],
}

impl Script {
    /// Makes a state and runs the script in it, which defines its functions.
    pub(super) fn load(source: &Source, target: &Target, watchdog: &Watchdog) -> Result<Self, ScriptError> {
        let file = source.file.as_str();
        let watched = watchdog.watch(file);
        let failed = |error: mlua::Error| ScriptError::Failed { told: told(&error, file) };
        // SAFETY: a script is a program of its user's, with all of the language's libraries, as it is for wrk.
        let lua = unsafe { Lua::unsafe_new_with(StdLib::ALL, LuaOptions::new().catch_rust_panics(false)) };
        let (wrk, calls) = lua.load(PRELUDE).set_name("=wrk").call::<(Table, Table)>(()).map_err(failed)?;
        let define = || {
            wrk.set("scheme", target.scheme)?;
            wrk.set("host", target.host.as_str())?;
            wrk.set("port", target.port.as_deref())?;
            wrk.set("path", target.path.as_str())?;
            let headers: Table = wrk.get("headers")?;
            target.headers.iter().try_for_each(|(name, value)| headers.set(name.as_str(), value.as_str()))?;
            add_addresses(&lua, &wrk)?;
            lua.globals().get::<Table>("package")?.get::<Table>("loaded")?.set("wrk", &wrk)?;
            lua.globals().set("wrk", &wrk)?;
            Ok((calls.get("request")?, calls.get("response")?, calls.get("delay")?))
        };
        let (request, response, delay) = define().map_err(failed)?;
        let script = Self { lua, wrk, request, response, delay, watched, file: source.file.clone() };
        let whole = script.lua.load(&source.text[..]).set_name(format!("@{file}")).into_function().map_err(failed)?;
        script.call::<()>(Part::Whole, &whole, ())?;
        script.find_lines();
        Ok(script)
    }

    /// Where the functions begin, for messages.
    fn find_lines(&self) {
        for part in Part::ALL {
            let function = part.function().and_then(|name| self.lua.globals().get::<Function>(name).ok());
            let line = function.and_then(|function| function.info().line_defined).unwrap_or(0);
            self.watched.set_line(part, u32::try_from(line).unwrap_or(0));
        }
    }

    /// Whether it defines a function.
    pub(super) fn defines(&self, part: Part) -> bool {
        let named = |name: &str| self.lua.globals().get::<Value>(name).is_ok_and(|value| value.is_function());
        part.function().is_some_and(named)
    }

    /// Calls a function; what it gave, and how long that took in nanoseconds.
    #[inline]
    fn call<R: FromLuaMulti>(
        &self,
        part: Part,
        function: &Function,
        arguments: impl IntoLuaMulti,
    ) -> Result<(R, u64), ScriptError> {
        let begin_ns = monotonic_ns();
        self.watched.begin(part, begin_ns);
        let result = function.call(arguments);
        self.watched.end();
        let took_ns = monotonic_ns().saturating_sub(begin_ns);
        result.map(|given| (given, took_ns)).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &mlua::Error) -> ScriptError {
        ScriptError::Failed { told: told(error, &self.file) }
    }

    /// A function of the table `wrk`.
    fn of_wrk(&self, part: Part, name: &str, arguments: impl IntoLuaMulti) -> Result<(), ScriptError> {
        let function: Function = self.wrk.get(name).map_err(|error| self.failed(&error))?;
        self.call::<()>(part, &function, arguments).map(|_| ())
    }

    /// Looks the server's addresses up and tries them; whether there is one that can be connected to.
    pub(super) fn resolve(&self, host: &str, service: &str) -> Result<bool, ScriptError> {
        self.of_wrk(Part::Setup, "resolve", (host, service))?;
        let reached: Table = self.wrk.get("addrs").map_err(|error| self.failed(&error))?;
        Ok(reached.raw_len() > 0)
    }

    /// Calls `setup` with a thread whose own script is `other`.
    pub(super) fn setup(&self, thread: &Arc<Thread>, other: &Self) -> Result<(), ScriptError> {
        let handle = Handle { thread: Arc::clone(thread), elsewhere: Some(other.lua.clone()) };
        self.of_wrk(Part::Setup, "setup", self.lua.create_userdata(handle).map_err(|error| self.failed(&error))?)
    }

    /// Calls `init` in a thread's script, with the URL as argument 0.
    pub(super) fn init(&self, thread: &Arc<Thread>, arguments: &[String]) -> Result<(), ScriptError> {
        let prepare = || {
            let handle = Handle { thread: Arc::clone(thread), elsewhere: None };
            self.wrk.set("thread", self.lua.create_userdata(handle)?)?;
            let table = self.lua.create_table()?;
            arguments.iter().enumerate().try_for_each(|(place, text)| table.raw_set(place, text.as_str()))?;
            Ok(table)
        };
        let table = prepare().map_err(|error| self.failed(&error))?;
        self.of_wrk(Part::Init, "init", table)?;
        // It may have given the others.
        self.find_lines();
        Ok(())
    }

    /// Calls `request`, which adds what it gives to `bytes`; how long that took.
    pub(super) fn request(&self, bytes: &mut Vec<u8>) -> Result<u64, ScriptError> {
        let (given, took_ns) = self.call::<Value>(Part::Request, &self.request, ())?;
        match &given {
            Value::String(text) => bytes.extend_from_slice(&text.as_bytes()),
            other => {
                return Err(ScriptError::NoText { place: self.place(Part::Request), kind: other.type_name() });
            }
        }
        Ok(took_ns)
    }

    /// Calls `delay`; milliseconds, and how long that took.
    pub(super) fn delay(&self) -> Result<(u64, u64), ScriptError> {
        let (given, took_ns) = self.call::<Value>(Part::Delay, &self.delay, ())?;
        let number = given.as_f64().or_else(|| given.as_i64().map(|number| number as f64));
        match number.filter(|number| (0.0..=86_400_000.0).contains(number)) {
            Some(number) => Ok((number as u64, took_ns)),
            None => {
                let given = number.map_or_else(|| given.type_name().to_owned(), |number| number.to_string());
                Err(ScriptError::NoDelay { place: self.place(Part::Delay), given })
            }
        }
    }

    /// Calls `response`; how long that took, the making of its arguments included.
    pub(super) fn response<'a>(
        &self,
        status: u16,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        body: &[u8],
    ) -> Result<u64, ScriptError> {
        let begin_ns = monotonic_ns();
        let arguments = || {
            let headers = self.lua.create_table()?;
            for (name, value) in fields {
                headers.raw_set(self.lua.create_string(name)?, self.lua.create_string(value)?)?;
            }
            Ok((status, headers, self.lua.create_string(body)?))
        };
        let arguments = arguments().map_err(|error| self.failed(&error))?;
        let before_ns = monotonic_ns().saturating_sub(begin_ns);
        let ((), took_ns) = self.call(Part::Response, &self.response, arguments)?;
        Ok(before_ns + took_ns)
    }

    /// Calls `done`.
    pub(super) fn done(&self, summary: &Summary, latency: Figures, rates: Figures) -> Result<(), ScriptError> {
        let prepare = || {
            let (table, errors) = (self.lua.create_table()?, self.lua.create_table()?);
            table.set("duration", summary.duration_us as f64)?;
            table.set("requests", summary.requests as f64)?;
            table.set("bytes", summary.bytes as f64)?;
            summary.errors.iter().try_for_each(|(name, count)| errors.set(*name, *count as f64))?;
            table.set("errors", errors)?;
            Ok((self.lua.globals().get::<Function>("done")?, table))
        };
        let (done, table) = prepare().map_err(|error| self.failed(&error))?;
        self.call::<()>(Part::Done, &done, (table, latency, rates)).map(|_| ())
    }

    /// File, line and name of a function.
    pub(super) fn place(&self, part: Part) -> String {
        match self.defines(part) {
            true => self.watched.place(part),
            false => format!("{}: wrk.{}()", self.file, part.function().unwrap_or_default()),
        }
    }
}

/// What an error says, with file and line.
fn told(error: &mlua::Error, file: &str) -> String {
    let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    match error {
        mlua::Error::RuntimeError(text) => first_line(text),
        mlua::Error::SyntaxError { message, .. } => first_line(message),
        mlua::Error::CallbackError { traceback, cause } => {
            let told = told(cause, file);
            match place_in(traceback, file) {
                Some(place) if !told.starts_with(file) => format!("{place}: {told}"),
                _ => told,
            }
        }
        mlua::Error::ExternalError(cause) => first_line(&cause.to_string()),
        other => first_line(&other.to_string()),
    }
}

/// The first place of a file that a trace of calls names.
fn place_in(traceback: &str, file: &str) -> Option<String> {
    traceback.lines().find_map(|line| {
        let behind = line.trim_start().strip_prefix(file)?.strip_prefix(':')?;
        let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
        (!digits.is_empty()).then(|| format!("{file}:{digits}"))
    })
}
