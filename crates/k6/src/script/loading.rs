//! Modules for a runtime, out of the sources of its world.

use super::world::World;
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{Ctx, Error, Module, Result};
use std::sync::Arc;

/// Resolves and loads for one runtime.
#[derive(Debug, Clone)]
pub(super) struct OfWorld(pub(super) Arc<World>);

impl Resolver for OfWorld {
    fn resolve<'js>(
        &mut self,
        _: &Ctx<'js>,
        base: &str,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> Result<String> {
        self.0.sources.resolve(base, name).map_err(|wrong| {
            let error = Error::new_resolving_message(base, name, wrong.to_string());
            self.0.sources.note(wrong, base, name);
            error
        })
    }
}

impl Loader for OfWorld {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> Result<Module<'js, Declared>> {
        self.0.sources.module(ctx, name)
    }
}
