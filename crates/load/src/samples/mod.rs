//! Every request as a sample: kept for afterwards, or streamed while the run goes on, both within a bound.
//!
//! [`keep`] and [`stream`] give [`Options::observers`](crate::Options::observers) and the end from which samples are
//! taken.
//!
//! ```
//! # let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
//! # let port = server.local_addr().unwrap().port();
//! # std::thread::spawn(move || loop {
//! #     use std::io::{Read, Write};
//! #     let (mut stream, _) = server.accept().unwrap();
//! #     std::thread::spawn(move || {
//! #         while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
//! #             stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").unwrap();
//! #         }
//! #     });
//! # });
//! use weir_load::{Control, Options, StopRule, Url, samples};
//!
//! let mut options = Options::new(Url::parse(&format!("http://127.0.0.1:{port}/")).unwrap());
//! options.stop = StopRule::Requests(1000);
//! let (observers, kept) = samples::keep(options.threads, 100_000);
//! options.observers = observers;
//! let report = weir_load::run(options, &Control::default()).unwrap();
//! let (samples, left_out) = kept.take();
//! assert_eq!((samples.len(), left_out), (1000, 0));
//! let mean_us = samples.iter().map(|sample| sample.latency_ns).sum::<u64>() as f64 / 1e6;
//! // The report's histograms keep three digits.
//! assert!((mean_us - report.latency.mean() / 1e3).abs() <= mean_us / 500.0);
//! ```

mod keep;
mod sample;
mod stream;

pub use keep::{Kept, keep};
pub use sample::Sample;
pub use stream::{Stream, stream};
