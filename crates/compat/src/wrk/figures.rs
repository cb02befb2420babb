//! What `done` is given: the latencies and the rates.

use super::distribution::Distribution;
use mlua::{MetaMethod, UserData, UserDataFields, UserDataMethods};

/// A distribution in a script.
#[derive(Debug)]
pub(super) struct Figures(pub(super) Distribution);

impl UserData for Figures {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("min", |_, this| Ok(this.0.min() as f64));
        fields.add_field_method_get("max", |_, this| Ok(this.0.max() as f64));
        fields.add_field_method_get("mean", |_, this| Ok(this.0.mean()));
        fields.add_field_method_get("stdev", |_, this| Ok(this.0.stdev()));
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("percentile", |_, this, percent: f64| Ok(this.0.percentile(percent) as f64));
        methods.add_meta_method(MetaMethod::Len, |_, this, ()| Ok(this.0.values.len()));
        methods.add_meta_method(MetaMethod::Call, |_, this, place: usize| {
            let value = place.checked_sub(1).and_then(|place| this.0.values.get(place)).copied().unwrap_or_default();
            Ok((value.0 as f64, value.1 as f64))
        });
    }
}
