//! Listings: made once, and kept until the kernel reports a change of the directory, or for a second where it would
//! not.

use crate::counters::LoopCounters;
use crate::exchange::error_page::{self, Extra};
use crate::exchange::life::Exchange;
use crate::files::cache::{TOLD_MS, UNTOLD_MS};
use crate::files::head::{self, Persistence};
use crate::http::target;
use crate::io::clock::Clock;
use crate::site::destination::status_of;
use crate::site::kept_listings::{LONG, TIMES};
use crate::site::listing::{self, Order};
use crate::site::state::Site;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::time::{Duration, Instant};

impl Site {
    /// How long a listing of an open directory may be kept: long where the kernel tells of every change.
    pub(super) fn listing_fresh_ms(&self, directory: &File, path: &[u8], device: Option<u64>) -> u64 {
        let is_of = |device| directory.metadata().is_ok_and(|metadata| metadata.dev() == device);
        if device.is_some_and(is_of) && self.root.is_straight(directory, path) { TOLD_MS } else { UNTOLD_MS }
    }

    /// Answers with a listing: the one that is kept, or a new one of what was opened, with how long that may be kept.
    pub(super) fn list_directory(
        &mut self,
        opened: Option<(File, u64)>,
        found: &target::Target<'_>,
        extra: Extra<'_>,
        (clock, counters): (&Clock, &LoopCounters),
        persistence: Persistence,
        out: &mut Exchange,
    ) {
        let Some(shown) = self.listing else {
            return error_page::write(out, 403, extra, clock, persistence);
        };
        if listing::wants_style(found.query) {
            out.status = 200;
            let fields = format!(
                "Content-Type: text/css; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: max-age=86400\r\n",
                listing::STYLE.len()
            );
            head::other(&mut out.response.head, 200, &[fields.as_bytes()], clock, persistence);
            out.head_bytes = out.response.head.len() as u64;
            if !extra.head_only {
                out.response.head.extend_from_slice(listing::STYLE.as_bytes());
            }
            return;
        }
        let order = Order::read(found.query);
        if let Some(page) = self.listings.find(found.path, order, clock.now_ms) {
            counters.cache_hits.add(1);
            return error_page::write_html(out, 200, &page, extra, clock, persistence);
        }
        // That which is kept in another order was told to be as it was.
        let opened = match opened {
            Some(opened) => Ok(opened),
            None => {
                let device = self.watches.cover(&self.root, found.path, clock.now_ms);
                let opened = self.root.open(found.path);
                opened.map(|directory| {
                    let fresh_ms = self.listing_fresh_ms(&directory, found.path, device);
                    (directory, fresh_ms)
                })
            }
        };
        let begun = Instant::now();
        let page = opened.and_then(|(directory, fresh_ms)| {
            Ok((listing::page(&self.root, directory, found.path, order, shown)?, fresh_ms))
        });
        match page {
            Ok((page, fresh_ms)) => {
                let took = begun.elapsed();
                let at_least = if took > LONG { took * TIMES } else { Duration::ZERO };
                let at_least_ms = u64::try_from(at_least.as_millis()).unwrap_or(u64::MAX);
                let fresh_ms = if page.is_told { fresh_ms } else { fresh_ms.min(UNTOLD_MS) };
                let html: Rc<str> = page.html.into();
                let times = [fresh_ms, at_least_ms];
                self.listings.keep(found.path, order, Rc::clone(&html), clock.now_ms, times);
                counters.cache_evictions.add(self.lend_to_listings());
                error_page::write_html(out, 200, &html, extra, clock, persistence);
            }
            Err(error) => error_page::write(out, status_of(&error), extra, clock, persistence),
        }
    }

    /// Has the cache count what listings take; how many of its entries had to go for them.
    pub(super) fn lend_to_listings(&mut self) -> u64 {
        let (evicted, has_room) = self.cache.lend(self.listings.bytes);
        if !has_room {
            // What is pinned takes all of it.
            self.listings.forget_all();
            self.cache.lend(0);
        }
        evicted
    }
}
