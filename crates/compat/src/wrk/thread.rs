//! What scripts see of a thread: its address, its globals, and how it is stopped.

use super::address::{connect, lookup};
use mlua::{FromLua, Lua, MetaMethod, Table, UserData, UserDataFields, UserDataMethods, Value};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Tables within tables that are handed over: deeper ones are refused, as are those that hold themselves.
const DEPTH_MAX: u32 = 100;

/// A thread, as its own script and the first one share it.
#[derive(Debug, Default)]
pub(super) struct Thread {
    address: Mutex<Option<SocketAddr>>,
    running: AtomicBool,
    stopped: AtomicBool,
}

impl Thread {
    pub(super) fn address(&self) -> Option<SocketAddr> {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether it can be stopped.
    pub(super) fn set_running(&self, running: bool) {
        self.running.store(running, Ordering::Relaxed);
    }

    /// Whether its script has stopped it.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// A thread in a script.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) thread: Arc<Thread>,
    /// The state of the thread's own script, if that is another than the one which has this.
    pub(super) elsewhere: Option<Lua>,
}

/// An address in a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address(pub(super) SocketAddr);

impl UserData for Address {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(this.0.to_string()));
    }
}

impl FromLua for Address {
    fn from_lua(value: Value, _: &Lua) -> mlua::Result<Self> {
        let address = value.as_userdata().and_then(|data| data.borrow::<Self>().ok().map(|address| *address));
        address.ok_or_else(|| refused("an address is one that wrk.lookup gave"))
    }
}

impl UserData for Handle {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("addr", |_, this| Ok(this.thread.address().map(Address)));
        fields.add_field_method_set("addr", |_, this, Address(address): Address| {
            *this.thread.address.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
            Ok(())
        });
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get", |lua, this, name: mlua::String| match &this.elsewhere {
            Some(other) => copied(&other.globals().get(carried(other, &name)?)?, lua, 0),
            None => lua.globals().get(name),
        });
        methods.add_method("set", |lua, this, (name, value): (mlua::String, Value)| match &this.elsewhere {
            Some(other) => other.globals().set(carried(other, &name)?, copied(&value, other, 0)?),
            None => lua.globals().set(name, value),
        });
        methods.add_method("stop", |_, this, ()| {
            if !this.thread.running.load(Ordering::Relaxed) {
                return Err(refused(
                    "a thread can be stopped only while it runs: call stop() in request() or response()",
                ));
            }
            this.thread.stopped.store(true, Ordering::Relaxed);
            Ok(())
        });
    }
}

/// `wrk.lookup` and `wrk.connect`.
pub(super) fn add_addresses(lua: &Lua, wrk: &Table) -> mlua::Result<()> {
    let find = |_: &Lua, (host, service): (String, String)| {
        let found = lookup(&host, &service).map_err(mlua::Error::external)?;
        Ok(found.into_iter().map(Address).collect::<Vec<_>>())
    };
    wrk.set("lookup", lua.create_function(find)?)?;
    wrk.set("connect", lua.create_function(|_, Address(address): Address| Ok(connect(address).is_ok()))?)
}

fn refused(words: &str) -> mlua::Error {
    mlua::Error::RuntimeError(words.to_owned())
}

/// A text of one state in another.
fn carried(to: &Lua, text: &mlua::String) -> mlua::Result<mlua::String> {
    to.create_string(text.as_bytes())
}

/// A value of one state in another.
fn copied(value: &Value, to: &Lua, depth: u32) -> mlua::Result<Value> {
    Ok(match value {
        Value::Nil => Value::Nil,
        Value::Boolean(is) => Value::Boolean(*is),
        Value::Integer(number) => Value::Integer(*number),
        Value::Number(number) => Value::Number(*number),
        Value::String(text) => Value::String(carried(to, text)?),
        Value::Table(_) if depth == DEPTH_MAX => {
            return Err(refused(
                "a table that holds itself, or tables within tables within tables, cannot be handed over",
            ));
        }
        Value::Table(table) => {
            let copy = to.create_table()?;
            for pair in table.pairs::<Value, Value>() {
                let (key, value) = pair?;
                copy.raw_set(copied(&key, to, depth + 1)?, copied(&value, to, depth + 1)?)?;
            }
            Value::Table(copy)
        }
        other => {
            let kind = other.type_name();
            return Err(refused(&format!(
                "cannot transfer '{kind}' to thread: hand texts, numbers, booleans or tables over"
            )));
        }
    })
}
