//! What a shared cache may store, and how long it may reuse it (RFC 9111 sections 3, 4.2 and 5.2).

use super::control::{Control, DateField, Flags, MaxStale, ResponseControl, Seconds, Varies};
use super::rules::{CacheRules, SetCookie};

/// The time, as a caller read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Now {
    /// Seconds since 1970: what dates are compared with.
    pub(crate) wall_s: u64,
    /// Milliseconds of a clock that never goes back: what the time in the cache is counted by.
    pub(crate) mono_ms: u64,
}

/// What of a request decides whether the response to it is stored, and whether a stored one answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RequestControl {
    pub(crate) control: Control,
    pub(crate) authorization: Authorization,
}

/// Whether a request has the field Authorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Authorization {
    #[default]
    None,
    Present,
}

/// Why a response is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotStored {
    /// It is no final response, or a part of one: this cache keeps whole responses only, which section 3.3 permits.
    Status,
    NoStore,
    Private,
    /// The request has Authorization, and the response does not say that it is for others too (section 3.5).
    Authorization,
    SetCookie,
    /// `Vary: *` matches no request (section 4.1).
    VaryAny,
    /// Nothing in it allows to store it (section 3, last item).
    NotAllowed,
    /// It would be stale at once and cannot be validated.
    Useless,
    /// Cache-Control cannot be read to its end.
    Garbled,
}

/// Whether a stale response may be used without being validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StaleUse {
    Allowed,
    /// Only as long as the response itself says, by the directives of RFC 5861: `s-maxage` stands beside them.
    ByResponse,
    Prohibited,
}

/// When a stored response must be validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validation {
    WhenStale,
    /// Before each use: `no-cache`.
    Always,
}

/// How a stored response ages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Freshness {
    /// Seconds from its making for which it is fresh.
    pub(crate) lifetime_s: u64,
    /// Its age when it came, in seconds (`corrected_initial_age` of section 4.2.3).
    pub(crate) initial_age_s: u64,
    /// When it came.
    pub(crate) received_ms: u64,
    pub(crate) stale_while_revalidate_s: u64,
    pub(crate) stale_if_error_s: u64,
    pub(crate) stale: StaleUse,
    pub(crate) validation: Validation,
    /// The content never changes while it is fresh (RFC 8246).
    pub(crate) is_immutable: bool,
    /// It may answer requests with Authorization.
    pub(crate) for_authorized: bool,
}

/// How a stored response may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    Fresh,
    /// It is stale, and the client takes that (`max-stale`).
    Stale,
    /// It is stale, and may be used while it is validated.
    WhileRevalidating,
    /// Only once it is validated.
    Validated,
}

/// The times of an exchange with the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// When the request went out.
    pub(crate) requested: Now,
    /// When the head of the response came.
    pub(crate) received: Now,
}

/// Status codes that are cacheable by a heuristic (RFC 9110 section 15.1), without 206: parts are not kept.
pub(crate) fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Status codes whose requirements on caches this one follows: all of RFC 9110 that ask for nothing special.
fn is_understood(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300..=303 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505)
}

/// Whether a response to GET may be stored, and how it ages then.
///
/// # Errors
///
/// [`NotStored`] says what forbids it.
pub(crate) fn judge(
    request: &RequestControl,
    status: u16,
    response: &ResponseControl,
    times: &Times,
    rules: &CacheRules,
) -> Result<Freshness, NotStored> {
    let control = &response.control;
    let has = |flag| control.flags.has(flag);
    if !(200..=599).contains(&status) || matches!(status, 206 | 304) || response.flags.has_range {
        return Err(NotStored::Status);
    }
    if has(Flags::GARBLED) {
        return Err(NotStored::Garbled);
    }
    let no_store = if has(Flags::MUST_UNDERSTAND) { !is_understood(status) } else { has(Flags::NO_STORE) };
    if no_store || request.control.flags.has(Flags::NO_STORE) {
        return Err(NotStored::NoStore);
    }
    if has(Flags::PRIVATE) {
        return Err(NotStored::Private);
    }
    let for_authorized = has(Flags::PUBLIC.or(Flags::MUST_REVALIDATE)) || matches!(control.s_maxage, Seconds::Some(_));
    if request.authorization == Authorization::Present && !for_authorized {
        return Err(NotStored::Authorization);
    }
    if response.flags.sets_cookie && rules.set_cookie == SetCookie::NotStored {
        return Err(NotStored::SetCookie);
    }
    if response.varies == Varies::Any {
        return Err(NotStored::VaryAny);
    }
    let explicit = explicit_lifetime(response, times);
    if explicit.is_none() && !has(Flags::PUBLIC) && !is_heuristically_cacheable(status) {
        return Err(NotStored::NotAllowed);
    }
    let lifetime_s = explicit.unwrap_or_else(|| heuristic_lifetime(status, response, times, rules));
    let freshness = aging(response, times, rules, lifetime_s, for_authorized);
    let is_ever_used = freshness.validation == Validation::WhenStale
        && (lifetime_s > freshness.initial_age_s || freshness.stale_while_revalidate_s > 0)
        || freshness.stale != StaleUse::Prohibited && freshness.stale_if_error_s > 0
        || response.flags.has_etag
        || response.last_modified.get().is_some();
    if is_ever_used { Ok(freshness) } else { Err(NotStored::Useless) }
}

fn aging(
    response: &ResponseControl,
    times: &Times,
    rules: &CacheRules,
    lifetime_s: u64,
    for_authorized: bool,
) -> Freshness {
    let control = &response.control;
    let has = |flag| control.flags.has(flag);
    let stale = if has(Flags::MUST_REVALIDATE.or(Flags::PROXY_REVALIDATE).or(Flags::NO_CACHE)) {
        StaleUse::Prohibited
    } else if control.s_maxage != Seconds::Absent {
        // `s-maxage` alone has the meaning of `proxy-revalidate` (section 5.2.2.10). An origin that writes an extension
        // of RFC 5861 beside it says itself how long the stale response may be used, and means shared caches.
        StaleUse::ByResponse
    } else {
        StaleUse::Allowed
    };
    let window = |own: Seconds, default_s: u64| match stale {
        StaleUse::Prohibited => 0,
        StaleUse::ByResponse => own.get().unwrap_or(0),
        StaleUse::Allowed => own.get().unwrap_or(default_s),
    };
    Freshness {
        lifetime_s,
        initial_age_s: initial_age(response, times),
        received_ms: times.received.mono_ms,
        stale_while_revalidate_s: window(control.stale_while_revalidate, rules.stale_while_revalidate.as_secs()),
        stale_if_error_s: window(control.stale_if_error, rules.stale_if_error.as_secs()),
        stale,
        validation: if has(Flags::NO_CACHE) { Validation::Always } else { Validation::WhenStale },
        is_immutable: has(Flags::IMMUTABLE),
        for_authorized,
    }
}

/// The lifetime that the response says (section 4.2.1), in seconds: `s-maxage`, `max-age`, Expires. One that cannot be
/// read is over.
fn explicit_lifetime(response: &ResponseControl, times: &Times) -> Option<u64> {
    let control = &response.control;
    control.s_maxage.get().or_else(|| control.max_age.get()).or_else(|| match response.expires {
        DateField::Absent => None,
        DateField::Invalid => Some(0),
        DateField::At(expires) => {
            let date = response.date.get().unwrap_or(times.received.wall_s);
            Some(expires.saturating_sub(date))
        }
    })
}

/// The lifetime of a response that says none (section 4.2.2), in seconds: zero unless the settings have one.
fn heuristic_lifetime(status: u16, response: &ResponseControl, times: &Times, rules: &CacheRules) -> u64 {
    if !is_heuristically_cacheable(status) && !response.control.flags.has(Flags::PUBLIC) {
        return 0;
    }
    let date = response.date.get().unwrap_or(times.received.wall_s);
    let by_change = match (rules.heuristic, response.last_modified.get()) {
        (Some(most), Some(modified)) => Some((date.saturating_sub(modified) / 10).min(most.as_secs())),
        _ => None,
    };
    by_change.or(rules.default_ttl.map(|ttl| ttl.as_secs())).unwrap_or(0)
}

/// The age of a response when it came, in seconds (section 4.2.3).
fn initial_age(response: &ResponseControl, times: &Times) -> u64 {
    let apparent = response.date.get().map_or(0, |date| times.received.wall_s.saturating_sub(date));
    // Whole seconds, as an age has: rounded up, nothing with `max-age=1` would ever be fresh.
    let delay = times.received.mono_ms.saturating_sub(times.requested.mono_ms) / 1000;
    apparent.max(response.age.unwrap_or(0).saturating_add(delay))
}

impl Freshness {
    /// `current_age` of section 4.2.3, in seconds.
    pub(crate) fn age_s(&self, now: Now) -> u64 {
        self.initial_age_s.saturating_add(now.mono_ms.saturating_sub(self.received_ms) / 1000)
    }

    /// Seconds for which it is still fresh; negative once it is stale.
    pub(crate) fn left_s(&self, now: Now) -> i64 {
        let signed = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
        signed(self.lifetime_s).saturating_sub(signed(self.age_s(now)))
    }

    /// How the response may answer a request.
    pub(crate) fn reuse(&self, request: &Control, now: Now) -> Reuse {
        if self.validation == Validation::Always || request.flags.has(Flags::NO_CACHE) {
            return Reuse::Validated;
        }
        let (age_s, left_s) = (self.age_s(now), self.left_s(now));
        let is_fresh = left_s > 0;
        // A reload asks for `max-age=0`; of what never changes there is nothing to be gained by it (RFC 8246 section 2).
        let is_young = request.max_age.get().is_none_or(|most| age_s <= most && most > 0)
            || self.is_immutable && is_fresh && request.max_age == Seconds::Some(0);
        let is_lasting = request.min_fresh.get().is_none_or(|least| left_s >= i64::try_from(least).unwrap_or(i64::MAX));
        if !is_young || !is_lasting {
            return Reuse::Validated;
        }
        if is_fresh {
            return Reuse::Fresh;
        }
        let stale_s = left_s.unsigned_abs();
        if stale_s < self.stale_while_revalidate_s && self.stale != StaleUse::Prohibited {
            return Reuse::WhileRevalidating;
        }
        let is_taken = match request.max_stale {
            MaxStale::None => false,
            MaxStale::Any => true,
            MaxStale::Seconds(most) => stale_s <= most,
        };
        if is_taken && self.stale == StaleUse::Allowed { Reuse::Stale } else { Reuse::Validated }
    }

    /// Whether it may answer a request although it is stale, as a rule of the operator allows so many seconds. What the
    /// upstream prohibits no rule allows (RFC 9111 section 4.2.4).
    pub(crate) fn serves_by_rule(&self, request: &Control, stale_max_s: u64, now: Now) -> bool {
        let left_s = self.left_s(now);
        self.validation != Validation::Always
            && self.stale != StaleUse::Prohibited
            && !request.flags.has(Flags::NO_CACHE)
            && left_s <= 0
            && left_s.unsigned_abs() <= stale_max_s
    }

    /// Whether it may answer a request although it is stale, as the upstream fails (RFC 5861 section 4).
    pub(crate) fn serves_on_error(&self, request: &Control, now: Now) -> bool {
        let left_s = self.left_s(now);
        if left_s > 0 && self.validation == Validation::WhenStale {
            // Only the client wanted a newer one; if it insists, it gets the error.
            return !request.flags.has(Flags::NO_CACHE);
        }
        let asked_s = request.stale_if_error.get().filter(|_| self.stale == StaleUse::Allowed).unwrap_or(0);
        let most_s = self.stale_if_error_s.max(asked_s);
        self.stale != StaleUse::Prohibited && most_s > 0 && left_s.unsigned_abs() <= most_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arithmetic_of_ages_never_overflows(
            words in proptest::array::uniform6(any::<u64>()), age in proptest::option::of(any::<u64>())
        ) {
            let [a, b, c, d, e, f] = words;
            let times = Times {
                requested: Now { wall_s: a, mono_ms: b },
                received: Now { wall_s: c, mono_ms: d },
            };
            let mut response = ResponseControl::read(b"Cache-Control: max-age=99999999999, stale-if-error=9999999999\r\n");
            response.age = age;
            response.date = DateField::At(e);
            response.expires = DateField::At(f);
            let rules = CacheRules::default();
            if let Ok(freshness) = judge(&RequestControl::default(), 200, &response, &times, &rules) {
                for now in [Now { wall_s: e, mono_ms: f }, times.requested, Now { wall_s: u64::MAX, mono_ms: u64::MAX }] {
                    let _ = freshness.reuse(&Control::default(), now);
                    let _ = freshness.serves_on_error(&Control::default(), now);
                    prop_assert!(freshness.age_s(now) >= freshness.initial_age_s);
                    prop_assert_eq!(freshness.left_s(now) > 0, freshness.lifetime_s > freshness.age_s(now));
                }
            }
        }
    }
}
