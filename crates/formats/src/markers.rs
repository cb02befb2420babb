//! Where requests begin and end, by events that the user names.

use crate::{Edge, Mark};
use std::borrow::Cow;

/// An event by which a request begins or ends: `EVENT[/KEY[/NAME]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    event: String,
    key: Option<String>,
    name: Option<String>,
}

/// A pattern that names no event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no event: write EVENT, EVENT/KEY or EVENT/KEY/NAME, where KEY is the field that a request's begin and \
     end have in common and NAME the field that tells what it is called"
)]
pub struct NoPattern(String);

impl std::str::FromStr for Pattern {
    type Err = NoPattern;

    fn from_str(text: &str) -> Result<Self, NoPattern> {
        let mut pieces = text.splitn(3, '/').map(|piece| Some(piece.to_owned()).filter(|piece| !piece.is_empty()));
        let event = pieces.next().flatten().ok_or_else(|| NoPattern(text.to_owned()))?;
        Ok(Self { event, key: pieces.next().flatten(), name: pieces.next().flatten() })
    }
}

/// The two patterns; without them no event marks anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Markers {
    begin: Option<Pattern>,
    end: Option<Pattern>,
}

impl Markers {
    /// Requests begin and end at these.
    #[must_use]
    pub fn new(begin: Pattern, end: Pattern) -> Self {
        Self { begin: Some(begin), end: Some(end) }
    }

    /// Whether no event marks anything.
    pub(crate) fn are_none(&self) -> bool {
        self.begin.is_none() && self.end.is_none()
    }

    /// Whether an event of this name may mark something; `sched:NAME` is `NAME`, too.
    pub(crate) fn may_mark(&self, event: &str) -> bool {
        self.of(event).is_some()
    }

    fn of(&self, event: &str) -> Option<(Edge, &Pattern)> {
        let is = |pattern: &Pattern| {
            pattern.event == event || pattern.event.rsplit_once(':').is_some_and(|(_, name)| name == event)
        };
        let begin = self.begin.as_ref().filter(|pattern| is(pattern)).map(|pattern| (Edge::Begin, pattern));
        begin.or_else(|| self.end.as_ref().filter(|pattern| is(pattern)).map(|pattern| (Edge::End, pattern)))
    }

    /// Whether a stretch of this name is a request, and what that is called if its pattern names a field for it; of a
    /// stretch both ends are known, so that it needs no key.
    pub(crate) fn slice<'a>(
        &self,
        name: &str,
        field: impl Fn(&str) -> Option<Cow<'a, str>>,
    ) -> Option<Option<Cow<'a, str>>> {
        let (edge, pattern) = self.of(name)?;
        (edge == Edge::Begin).then(|| pattern.name.as_ref().and_then(|name| field(name)))
    }

    /// Hands out the mark that an event is, with the fields that its pattern names; nothing if it is none. A mark whose
    /// key is not among the event's fields is none.
    pub(crate) fn told<'a>(
        &self,
        event: &str,
        field: impl Fn(&str) -> Option<Cow<'a, str>>,
        take: impl FnOnce(Mark<'_>),
    ) {
        let Some((edge, pattern)) = self.of(event) else { return };
        let key = pattern.key.as_ref().map(|key| field(key));
        if matches!(key, Some(None)) {
            return;
        }
        let key = key.flatten();
        let name = pattern.name.as_ref().and_then(|name| field(name));
        take(Mark { edge, key: key.as_deref(), name: name.as_deref() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_names_an_event_and_up_to_two_fields() {
        let markers = Markers::new(
            "shop:request_begin/id/uri".parse().expect("a pattern"),
            "shop:request_end/id".parse().expect("a pattern"),
        );
        let field = |name: &str| match name {
            "id" => Some(Cow::Borrowed("7")),
            "uri" => Some(Cow::Borrowed("/item/7")),
            _ => None,
        };
        let mut told = Vec::new();
        let note = |mark: Mark<'_>| (mark.edge, mark.key.map(str::to_owned), mark.name.map(str::to_owned));
        for event in ["shop:request_begin", "request_begin", "shop:request_end", "shop:other"] {
            markers.told(event, field, |mark| told.push(note(mark)));
        }
        let begin = (Edge::Begin, Some("7".to_owned()), Some("/item/7".to_owned()));
        assert_eq!(told, [begin.clone(), begin, (Edge::End, Some("7".to_owned()), None)]);
        markers.told("shop:request_end", |_| None, |_| panic!("its key is missing"));
        assert!("/id".parse::<Pattern>().is_err() && !Markers::default().may_mark("shop:request_end"));
    }
}
