//! All methods beside each other on one series, so that it shows which of them fits it.

use super::fit::Forecast;
use super::holt_winters::HoltWinters;
use super::method::Method;
use super::track::{Errors, Track};

/// The period of the seasonal method where none is named: a day.
const PERIOD_MS: u64 = 24 * 3_600_000;
/// How many methods there are.
pub const METHODS: usize = 3;

/// What the methods say of one series, and how wrong each was.
#[derive(Debug, Clone)]
pub struct Contest {
    methods: [Method; METHODS],
    /// Of what came, where the rules keep none of the series.
    season: HoltWinters,
    tracks: [Track; METHODS],
    said: [Option<Forecast>; METHODS],
}

/// What a method says now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Said {
    /// The method.
    pub method: Method,
    /// What it forecasts; none where too little is known for it.
    pub forecast: Option<Forecast>,
    /// How wrong it was so far.
    pub errors: Errors,
}

impl Contest {
    /// With the method that the rules go by, whose period the seasonal one has, if it is that.
    pub fn new(chosen: Method) -> Self {
        let period_ms = if let Method::Seasonal { period_ms } = chosen { period_ms } else { PERIOD_MS };
        Self {
            methods: [Method::LeastSquares, Method::Robust, Method::Seasonal { period_ms }],
            season: HoltWinters::new(period_ms),
            tracks: Default::default(),
            said: [None; METHODS],
        }
    }

    /// A value was measured; forecasts for a time that is over by less than `late_ms` are judged by it.
    pub fn came(&mut self, at_ms: u64, late_ms: u64, value: f64) {
        self.season.push(at_ms, value);
        self.tracks.iter_mut().for_each(|track| track.came(at_ms, late_ms, value));
    }

    /// Takes the forecast of each method for `in_ms` milliseconds from now. `ask` gives the answer of a method. If the
    /// rules use another method than the seasonal one, the seasonal answer comes from the values that came here.
    pub fn look(&mut self, now_ms: u64, in_ms: u64, chosen: Method, mut ask: impl FnMut(Method) -> Option<Forecast>) {
        let for_ms = now_ms.saturating_add(in_ms);
        for (at, method) in self.methods.into_iter().enumerate() {
            let forecast = match method {
                Method::Seasonal { .. } if method != chosen => self.season.forecast(for_ms),
                _ => ask(method),
            };
            self.said[at] = forecast;
            if let Some(forecast) = forecast {
                self.tracks[at].made(for_ms, in_ms, forecast.value);
            }
        }
    }

    /// What each method said at the last look.
    pub fn said(&self) -> [Said; METHODS] {
        std::array::from_fn(|at| Said {
            method: self.methods[at],
            forecast: self.said[at],
            errors: self.tracks[at].errors(),
        })
    }
}
