//! Answers for paths that an adviser has rules for: a refusal, a variant, or what the cache has.

use crate::counters::LoopCounters;
use crate::exchange::error_page::{self, Extra};
use crate::exchange::life::Exchange;
use crate::files::cache::{Found, TOLD_MS, UNTOLD_MS};
use crate::files::conditional::{self, Verdict};
use crate::files::head;
use crate::files::resource::Resource;
use crate::files::variants;
use crate::http::list_fields::Lines;
use crate::http::request::{Method, Request};
use crate::io::clock::Clock;
use crate::policy::advice::{Advice, Names};
use crate::policy::advised::MayBeStale;
use crate::policy::client_peer::Leased;
use crate::policy::codec_swap::{Family, Stream, keep_unsent_low};
use crate::policy::policy_client::PolicyClient;
use crate::site::asked::Asked;
use crate::site::destination::Destination;
use crate::site::state::Site;
use std::rc::Rc;
use std::sync::Arc;

/// Entity tags of a client that are looked at for a variant that it has a part of.
const TAGS_MAX: usize = 4;

/// Content, with its age in seconds where it is stale.
type Aged = (Rc<Resource>, Option<u64>);

impl Site {
    /// What is sent where a connection asks again for what it was advised about, as long as that holds: nearly all of
    /// what is asked for over connections that are kept.
    #[expect(clippy::inline_always, reason = "it is a part of the way of nearly every request that rules are for")]
    #[inline(always)]
    pub(super) fn again(
        &mut self,
        (request, path, leased): (&Request<'_>, &[u8], &Leased),
        destination: &Destination,
        clock: &Clock,
        counters: &LoopCounters,
        out: &mut Exchange,
    ) -> Option<Rc<Resource>> {
        let Destination::Resource(resource) = destination else { return None };
        // A wait is reported with the ticket of its own advice, so a request that waited needs new advice.
        let has_waited = self.looked_ns > 0 || out.record.place.is_some();
        if has_waited || request.is_conditional || request.range.is_some() || !request.hints.are_silent() {
            return None;
        }
        let again = leased.again(resource, clock.now_ms)?;
        let is_chosen = again.is_chosen();
        out.record.again = Some(again);
        counters.advised.add(1);
        if !is_chosen {
            return Some(Rc::clone(resource));
        }
        if resource.encodings.is_none() {
            return Some(resource.chosen_as_it_is());
        }
        Some(self.form(request, path, Rc::clone(resource), false, clock, counters).chosen_as_it_is())
    }

    /// Asks what is to be done with a request for content that is governed, and answers it where that is something else
    /// than what is done without a rule.
    #[inline(never)]
    pub(super) fn govern(&mut self, asked: &Asked<'_>, destination: Destination, out: &mut Exchange) -> Destination {
        let Asked { request, peer, clock, counters, .. } = *asked;
        let Some(policy_client) = &self.policy_client else { return destination };
        let (Destination::Resource(resource) | Destination::Doubtful(resource, _)) = &destination else {
            return destination;
        };
        let advice = policy_client.ask(request, resource, peer, clock.now_ms);
        policy_client.begun(resource, peer, clock.now_ms, &advice, &mut out.record.advised);
        counters.advised.add(1);
        if advice.lease.is_some() && resource.template.is_none() && !is_swappable(resource) {
            policy_client.keep(resource, peer, clock.now_ms, &advice);
        }
        match destination {
            // Nearly all of them. What clients have of other files, and the parts that they want, take a closer look.
            Destination::Resource(resource)
                if matches!(advice.variant, Some(Names::Full))
                    && !request.is_conditional
                    && request.range.is_none()
                    && advice.refuse_retry_after_s.is_none()
                    && resource.template.is_none()
                    && !is_swappable(&resource) =>
            {
                out.record.advised.iter_mut().for_each(|advised| advised.is_chosen = true);
                let has_forms = resource.encodings.is_some();
                let form =
                    if has_forms { self.form(request, asked.path, resource, false, clock, counters) } else { resource };
                Destination::Resource(form.chosen_as_it_is())
            }
            destination => self.carry_out(asked, &advice, destination, out),
        }
    }

    /// Answers as it is advised, or says what is to be answered with.
    #[inline(never)]
    fn carry_out(
        &mut self,
        asked: &Asked<'_>,
        advice: &Advice,
        destination: Destination,
        out: &mut Exchange,
    ) -> Destination {
        let Asked { request, path, persistence, clock, counters, .. } = *asked;
        if let Some(seconds) = advice.refuse_retry_after_s {
            counters.advice_refused.add(1);
            let fields = format!("Retry-After: {seconds}\r\nCache-Control: no-store\r\n");
            let extra = Extra { fields: fields.as_bytes(), head_only: request.method == Method::Head };
            error_page::write(out, 503, extra, clock, persistence);
            return Destination::Answered;
        }
        let stale = out.record.advised.as_ref().and_then(|advised| advised.stale);
        let (destination, age_s) = match destination {
            Destination::Doubtful(resource, known_ms) => match age_s(&resource, known_ms, stale, clock.now_ms) {
                Some(age_s) => {
                    counters.cache_hits.add(1);
                    counters.stale_allowed.add(1);
                    if let Some(advised) = &mut out.record.advised {
                        (advised.stale, advised.is_stale) = (stale.map(|stale| MayBeStale { known_ms, ..stale }), true);
                    }
                    (Destination::Resource(resource), Some(age_s))
                }
                None => (self.look(path, Some(resource), clock, counters), None),
            },
            destination => (destination, None),
        };
        match (destination, &advice.variant) {
            (Destination::Resource(resource), Some(names)) if resource.template.is_none() => {
                self.choose(asked, names, (resource, age_s), out);
                Destination::Answered
            }
            (Destination::Resource(resource), _) if age_s.is_some() && resource.template.is_none() => {
                let form = self.form(request, path, resource, true, clock, counters);
                let stale = age_s.map_or(Rc::clone(&form), |age_s| form.aged(age_s));
                self.content(request, stale, clock, persistence, out);
                Destination::Answered
            }
            (Destination::Resource(page), Some(names)) => {
                Destination::Resource(self.choose_page(asked, names, page, out))
            }
            (destination, _) => destination,
        }
    }

    /// The page to be assembled: a variant of it, where one is chosen and there. A variant has the ending of its page,
    /// so that it is assembled as that is.
    fn choose_page(
        &mut self,
        asked: &Asked<'_>,
        names: &Names,
        page: Rc<Resource>,
        out: &mut Exchange,
    ) -> Rc<Resource> {
        let Asked { path, clock, counters, .. } = *asked;
        let stale = out.record.advised.as_ref().and_then(|advised| advised.stale);
        let found = variants::find(names, path, |path| self.aged(path, stale, clock, counters));
        counters.variants_missing.add(found.missing);
        out.record.advised.iter_mut().for_each(|advised| advised.is_chosen = true);
        let Some((variant, age_s)) = found.found else { return page };
        counters.variants_served.add(1);
        if let Some(advised) = &mut out.record.advised {
            let known_ms = clock.now_ms.saturating_sub(age_s.unwrap_or(0) * 1000);
            advised.stale = stale.map(|stale| MayBeStale { known_ms, ..stale });
            advised.is_stale = age_s.is_some();
        }
        variant
    }

    /// What asks the adviser, where there is one.
    pub(crate) fn policy_client(&self) -> Option<&Rc<PolicyClient>> {
        self.policy_client.as_ref()
    }

    /// Has what the cache keeps loaded anew where other rules than before are, or none, for it.
    pub(crate) fn ask_again(&mut self, counters: &LoopCounters) {
        let Some(policy_client) = &self.policy_client else { return };
        // Before the questions: what changes between them is another edition.
        let edition = policy_client.edition();
        if std::mem::replace(&mut self.edition, edition) != edition {
            let gone = self.cache.remove_where(|path, resource| {
                let is_governed = policy_client.governs(path);
                (resource.is_governed, resource.asks_hints)
                    != (is_governed, is_governed && policy_client.asks_hints(path))
            });
            counters.cache_stale.add(gone);
        }
    }

    /// Answers with a variant.
    fn choose(&mut self, asked: &Asked<'_>, names: &Names, plain: Aged, out: &mut Exchange) {
        let Asked { request, path, clock, counters, .. } = *asked;
        let stale = out.record.advised.as_ref().and_then(|advised| advised.stale);
        let (name, (resource, age_s)) = self.variant(asked, names, plain, stale);
        counters.variants_served.add(u64::from(name.is_some()));
        let form = self.form(request, path, Rc::clone(&resource), age_s.is_some(), clock, counters);
        let chosen = form.chosen(name.as_deref());
        let chosen = age_s.map_or(Rc::clone(&chosen), |age_s| chosen.aged(age_s));
        if let Some(advised) = &mut out.record.advised {
            (advised.is_chosen, advised.is_stale) = (true, age_s.is_some());
        }
        if is_swappable(&chosen)
            && request.minor == 1
            && request.method == Method::Get
            && request.range.is_none()
            && (!request.is_conditional || conditional::judge(request, chosen.compared(), clock.unix_s) == Verdict::Whole)
            // What is made piece by piece is made of the files as they are.
            && age_s.is_none()
            && let Some(stream) = self.stream(path, names, &resource)
        {
            return begin_stream(stream, &chosen, asked, out);
        }
        // The content depends on the client and the time: without an entity tag it is unclear which content a range is
        // of.
        let is_known = request.if_range.is_some() || request.if_match_lines().is_some();
        if request.range.is_none() || is_known {
            self.content(request, chosen, clock, asked.persistence, out);
        } else {
            self.content(&Request { range: None, ..*request }, chosen, clock, asked.persistence, out);
        }
    }

    /// The variant to be served, with its name; none for the plain file. A client that has a part of one gets the rest
    /// of that: it shows so by the very tag that it was sent with, as a name alone may be made up.
    fn variant(
        &mut self,
        asked: &Asked<'_>,
        names: &Names,
        plain: Aged,
        stale: Option<MayBeStale>,
    ) -> (Option<String>, Aged) {
        let Asked { request, path, clock, counters, .. } = *asked;
        if *names == Names::Full && !request.is_conditional {
            return (None, plain);
        }
        let lines = request.if_match_lines();
        let tags = request.if_range.into_iter().chain(lines.iter().flat_map(Lines::iter));
        let tags = tags.filter(|tag| tag.starts_with(b"\""));
        // What stands between quotes; each may cost a look at a file, so that there is a bound.
        let tags = tags.flat_map(|list| list.split(|byte| *byte == b'"').skip(1).step_by(2).take(TAGS_MAX));
        for tag in tags {
            let name = variants::of_tag(tag);
            let resource = match name {
                Some(name) => variants::path_of(path, name).and_then(|path| self.aged(&path, stale, clock, counters)),
                None => Some(plain.clone()),
            };
            let Some(resource) = resource else { continue };
            let form = self.form(request, path, Rc::clone(&resource.0), resource.1.is_some(), clock, counters);
            let own = name.map_or_else(|| form.etag.clone(), |name| variants::tag(&form.etag, name));
            if own.trim_matches('"').as_bytes() == tag {
                return (name.map(str::to_owned), resource);
            }
        }
        let found = variants::find(names, path, |path| self.aged(path, stale, clock, counters));
        counters.variants_missing.add(found.missing);
        let Some(resource) = found.found else { return (None, plain) };
        // It stands behind those that are missing.
        (names.split_ascii_whitespace().nth(found.missing as usize).map(str::to_owned), resource)
    }

    /// The content of a path, where it has some; stale where it may be.
    fn aged(&mut self, path: &[u8], stale: Option<MayBeStale>, clock: &Clock, counters: &LoopCounters) -> Option<Aged> {
        if let Some(stale) = stale
            && let Found::Stale(resource, known_ms) = self.cache.find(path, clock.now_ms)
            && let Some(age_s) = age_s(&resource, known_ms, Some(stale), clock.now_ms)
        {
            counters.cache_hits.add(1);
            counters.stale_allowed.add(1);
            return Some((resource, Some(age_s)));
        }
        Some((self.resource(path, clock, counters)?, None))
    }

    /// The content of a path, where it has some.
    pub(super) fn resource(&mut self, path: &[u8], clock: &Clock, counters: &LoopCounters) -> Option<Rc<Resource>> {
        if self.absent.has(path, clock.now_ms) {
            return None;
        }
        let found = match self.destination(path, clock, counters) {
            Destination::Doubtful(resource, _) => self.look(path, Some(resource), clock, counters),
            found => found,
        };
        match found {
            Destination::Resource(resource) => return Some(resource),
            Destination::Failed(404) => {
                // What appears behind a link is told of elsewhere, or nowhere.
                let is_covered = self.watches.cover(&self.root, path, clock.now_ms).is_some();
                let is_told = is_covered && self.root.has_nothing_at(path);
                self.absent.note(path, clock.now_ms + if is_told { TOLD_MS } else { UNTOLD_MS });
            }
            _ => {}
        }
        None
    }

    fn stream(&mut self, path: &[u8], names: &Names, resource: &Rc<Resource>) -> Option<Stream> {
        let policy_client = self.policy_client.as_ref()?;
        if self.shared_root.is_none() {
            self.shared_root = self.root.try_clone().ok().map(Rc::new);
        }
        let root = Rc::clone(self.shared_root.as_ref()?);
        let family = Family { root, shared_content: Arc::clone(&self.shared_content), path: path.into() };
        Stream::begin(family, names.clone().into(), resource, policy_client)
    }
}

/// The age of content in whole seconds, if it may be sent so old. A file that is not in memory and was written to is
/// not what it was.
fn age_s(resource: &Resource, known_ms: u64, stale: Option<MayBeStale>, now_ms: u64) -> Option<u64> {
    stale?.age_s(known_ms, now_ms).filter(|_| resource.is_unchanged())
}

/// Whether content may be sound that can be swapped.
#[inline]
fn is_swappable(resource: &Resource) -> bool {
    matches!(&*resource.content_type, "audio/mpeg" | "audio/aac" | "audio/aacp" | "audio/x-aac")
}

/// The head of a response that is made piece by piece. Its length is not known beforehand, and its bytes may come from
/// several files: so it has no validators and no ranges, and caches must not store it.
fn begin_stream(stream: Stream, chosen: &Resource, asked: &Asked<'_>, out: &mut Exchange) {
    let fields = format!(
        "Content-Type: {}\r\nTransfer-Encoding: chunked\r\nAccept-Ranges: none\r\nCache-Control: no-store\r\n",
        chosen.content_type
    );
    out.status = 200;
    let head = &mut out.response.head;
    let hints = chosen.hint_fields();
    head::other(head, 200, &[fields.as_bytes(), hints.as_bytes()], asked.clock, asked.persistence);
    out.head_bytes = head.len() as u64;
    asked.counters.swappable.add(1);
    if let Some(socket) = asked.peer.socket {
        keep_unsent_low(socket);
    }
    if let Some(advised) = &mut out.record.advised {
        advised.stream = Some(Box::new(stream));
    }
}
