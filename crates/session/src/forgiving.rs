//! The way of bytes below the HTTP client: TLS as `--ca` wants it, and heads of responses as the standard wants them.
//!
//! The library reads heads strictly, where deployed clients take folded lines, blanks before colons and more. So what comes
//! is passed to it with its heads rewritten; what was odd about them is kept to be told.

use crate::trust::{Trust, TrustError};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use ureq::config::Config;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::time::Duration;
use ureq::unversioned::transport::{
    Buffers, ConnectProxyConnector, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, TcpConnector,
    Transport, TransportAdapter,
};
use weir_client::{Alike, Anchored, EndOfHead, HEAD_BYTES_MAX, Oddities, judge, rewrite, status_line};

/// Room for a head that is rewritten: a line's end and a blank may be longer than they came.
pub(crate) const HEADS_BYTES_MAX: usize = 2 * HEAD_BYTES_MAX;

/// What was odd about the responses since it was last looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Oddities>>);

impl Seen {
    /// Takes what was odd.
    pub(crate) fn take(&self) -> Oddities {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, oddities: Oddities) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(oddities);
    }
}

/// An agent whose servers are believed so; what is odd about their responses goes to `seen`.
pub(crate) fn agent(config: Config, trust: &Trust, seen: &Seen) -> Result<ureq::Agent, TrustError> {
    let connector =
        ().chain(ConnectProxyConnector::default())
            .chain(TcpConnector::default())
            .chain(Tls(tls(trust)?))
            .chain(Forgiving(seen.clone()));
    Ok(ureq::Agent::with_parts(config, connector, DefaultResolver::default()))
}

/// How TLS is spoken with servers whose certificates are believed so.
fn tls(trust: &Trust) -> Result<Arc<ClientConfig>, TrustError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let wrong = |error: &dyn fmt::Display| TrustError {
        path: if let Trust::File(path) = trust { path.clone() } else { "the system's store".into() },
        cause: error.to_string(),
    };
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Anything => Arc::new(Alike::believing(Arc::clone(&provider))),
        Trust::System | Trust::File(_) => {
            let anchors = anchors(trust)?;
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(anchors.iter().cloned());
            if roots.is_empty() {
                // Without any, TLS fails by the certificate's name, and plain HTTP works.
                Arc::new(Alike::refusing(Arc::clone(&provider)))
            } else {
                let within = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
                let within = within.build().map_err(|error| wrong(&error))?;
                let own = if matches!(trust, Trust::File(_)) { anchors } else { Vec::new() };
                Arc::new(Anchored::new(within, own))
            }
        }
    };
    let builder = ClientConfig::builder_with_provider(provider);
    let config = builder.with_safe_default_protocol_versions().map_err(|error| wrong(&error))?;
    Ok(Arc::new(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()))
}

fn anchors(trust: &Trust) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    match trust {
        Trust::Anything => Ok(Vec::new()),
        Trust::System => Ok(rustls_native_certs::load_native_certs().certs),
        Trust::File(path) => {
            let wrong = |cause: String| TrustError { path: path.clone(), cause };
            let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
            let found: Result<Vec<_>, _> = found.collect();
            let found = found.map_err(|error| wrong(error.to_string()))?;
            if found.is_empty() { Err(wrong("it holds none".to_owned())) } else { Ok(found) }
        }
    }
}

/// Lays TLS over connections to `https` addresses.
struct Tls(Arc<ClientConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tls(…)")
    }
}

impl<In: Transport> Connector<In> for Tls {
    type Out = Either<In, Encrypted>;

    fn connect(&self, details: &ConnectionDetails, chained: Option<In>) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(transport) = chained else { return Ok(None) };
        if !details.needs_tls() || transport.is_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let host = details.uri.host().unwrap_or_default();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(bare.to_owned())
            .map_err(|_| io::Error::other(format!("{bare} is not a name that a certificate can be for")))?;
        let mut session = ClientConnection::new(Arc::clone(&self.0), name).map_err(io::Error::other)?;
        let mut socket = TransportAdapter::new(transport.boxed(), details.current_time.clone());
        socket.set_timeout(details.timeout);
        session.complete_io(&mut socket)?;
        let (input, output) = (details.config.input_buffer_size(), details.config.output_buffer_size());
        let stream = StreamOwned::new(session, socket);
        Ok(Some(Either::B(Encrypted { buffers: LazyBuffers::new(input, output), stream })))
    }
}

/// A connection's bytes, encrypted.
struct Encrypted {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for Encrypted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Encrypted(…)")
    }
}

impl Transport for Encrypted {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        Ok(self.stream.write_all(&self.buffers.output()[..amount])?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

/// Rewrites the heads of all that comes over a connection.
#[derive(Debug)]
struct Forgiving(Seen);

impl<In: Transport> Connector<In> for Forgiving {
    type Out = Rewritten<In>;

    fn connect(&self, details: &ConnectionDetails, chained: Option<In>) -> Result<Option<Self::Out>, ureq::Error> {
        let (input, output) = (details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(chained.map(|within| Rewritten {
            within,
            buffers: LazyBuffers::new(input, output),
            place: Place::Begin,
            head: Vec::new(),
            pending: Vec::new(),
            end: EndOfHead::default(),
            seen: self.0.clone(),
        }))
    }
}

/// What comes next over a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing was sent yet.
    Begin,
    /// A head.
    Head,
    /// Content, until a request goes out again.
    Content,
    /// What another protocol says within a tunnel.
    Tunnel,
}

/// A connection whose heads are rewritten.
#[derive(Debug)]
struct Rewritten<In> {
    within: In,
    buffers: LazyBuffers,
    place: Place,
    /// The part of a head that has come.
    head: Vec<u8>,
    /// What is to be handed on.
    pending: Vec<u8>,
    end: EndOfHead,
    seen: Seen,
}

impl<In: Transport> Rewritten<In> {
    /// Takes what the connection has, waiting for it; whether there was something.
    fn receive(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let came = self.within.await_input(timeout)?;
        let input = self.within.buffers().input();
        let count = input.len();
        if self.place == Place::Head {
            self.head.extend_from_slice(input);
        } else {
            self.pending.extend_from_slice(input);
        }
        self.within.buffers().input_consume(count);
        Ok(came && count > 0)
    }

    /// Hands the heads on that are whole.
    fn rewrite(&mut self) -> Result<(), weir_client::Unlike> {
        while self.place == Place::Head {
            let Some(end) = self.end.find(&self.head).filter(|end| *end <= HEAD_BYTES_MAX) else {
                judge(&self.head, false)?;
                if self.head.len() > HEAD_BYTES_MAX {
                    return Err(weir_client::Unlike(format!("its head is longer than {HEAD_BYTES_MAX} bytes")));
                }
                return Ok(());
            };
            self.seen.add(rewrite(&self.head[..end], &mut self.pending)?);
            // RFC 9110 15.2: interim responses come before the one that they announce.
            let is_interim = status_line(&self.head)?.status < 200;
            self.head.drain(..end);
            self.end = EndOfHead::default();
            if !is_interim {
                self.place = Place::Content;
                self.pending.append(&mut self.head);
            }
        }
        Ok(())
    }

    /// Hands on as much of what is pending as there is room for; whether that was something.
    fn hand_on(&mut self) -> bool {
        let room = self.buffers.input_append_buf();
        let count = room.len().min(self.pending.len());
        room[..count].copy_from_slice(&self.pending[..count]);
        self.buffers.input_appended(count);
        self.pending.drain(..count);
        count > 0
    }
}

impl<In: Transport> Transport for Rewritten<In> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let output = &self.buffers.output()[..amount];
        match self.place {
            Place::Begin if output.starts_with(b"CONNECT ") => self.place = Place::Tunnel,
            Place::Begin | Place::Content => self.place = Place::Head,
            Place::Head | Place::Tunnel => {}
        }
        self.within.buffers().output()[..amount].copy_from_slice(output);
        self.within.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let begin = Instant::now();
        while self.pending.is_empty() {
            let after = match timeout.after {
                Duration::Exact(after) => Duration::Exact(after.saturating_sub(begin.elapsed())),
                never @ Duration::NotHappening => never,
            };
            if !self.receive(NextTimeout { after, ..timeout })? {
                if !self.head.is_empty() {
                    let end = "the connection was closed within the head of the response";
                    let unlike = judge(&self.head, true).err();
                    return Err(io::Error::other(unlike.map_or(end.to_owned(), |unlike| unlike.0)).into());
                }
                return Ok(false);
            }
            self.rewrite().map_err(io::Error::other)?;
        }
        Ok(self.hand_on())
    }

    fn is_open(&mut self) -> bool {
        self.pending.is_empty() && self.head.is_empty() && self.within.is_open()
    }

    fn is_tls(&self) -> bool {
        self.within.is_tls()
    }
}
