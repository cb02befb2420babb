//! A server is asked which methods it has, by calls of its reflection.

use crate::grpc::collector::Collector;
use crate::grpc::{CallKind, GrpcError, Schema, reflection};
use crate::options::control::Control;
use crate::{Grpc, LoadReport, Options, StopRule, grpc_status};
use std::sync::Arc;
use std::time::Duration;

/// How long each question may take, at most.
const PATIENCE: Duration = Duration::from_secs(10);
/// The status of a server that has no such method (UNIMPLEMENTED).
const UNIMPLEMENTED: u16 = 12;

/// What the server of a load tells of a service, or of all of them where none is named: [`Schema`], or in words.
///
/// It is asked over connections of its own, as `options` say to reach it, before anything is measured.
///
/// # Errors
/// [`GrpcError`]: the server cannot be reached, has no reflection, or no such service.
pub fn reflected(options: &Options, service: &str) -> Result<Schema, GrpcError> {
    let mut paths = reflection::PATHS.iter();
    let mut path = paths.next().copied().unwrap_or_default();
    let mut ask = |message: Vec<u8>| loop {
        match asked(options, path, message.clone()) {
            // Servers from before the first version has the same by its alpha's name.
            Err(Refused::Unimplemented(words)) => match paths.next() {
                Some(older) => path = older,
                None => break Err(GrpcError::NoReflection { words }),
            },
            Err(Refused::Otherwise(error)) => break Err(error),
            Ok(answer) => break Ok(answer),
        }
    };
    if service.is_empty() {
        let known = reflection::services(&mut ask)?;
        return Err(GrpcError::Path { path: options.url.target.clone(), known });
    }
    reflection::schema(service, &mut ask)
}

/// Why there is no answer.
enum Refused {
    Unimplemented(String),
    Otherwise(GrpcError),
}

/// Asks one question.
fn asked(options: &Options, path: &str, message: Vec<u8>) -> Result<Vec<u8>, Refused> {
    let failed = |error: crate::LoadError| Refused::Otherwise(error.into());
    let collector = Arc::new(Collector::default());
    let mut one = Options::new(options.url.clone());
    one.request.headers.clone_from(&options.request.headers);
    one.requests.cookies.clone_from(&options.requests.cookies);
    one.connections = 1;
    one.stop = StopRule::Requests(1);
    one.timeout = options.timeout.min(PATIENCE);
    one.trust = options.trust.clone();
    one.reach = options.reach.clone();
    one.sockets = options.sockets.clone();
    one.call(Grpc::new(path.to_owned(), CallKind::Bidirectional, vec![message])).map_err(failed)?;
    if let Some(grpc) = &mut one.grpc {
        grpc.collector = Some(Arc::clone(&collector));
    }
    let report = crate::run(one, &Control::default()).map_err(failed)?;
    match report.status.first() {
        Some((0, _)) => collector
            .first()
            .ok_or_else(|| Refused::Otherwise(GrpcError::Reflection { words: "it ends without an answer".to_owned() })),
        Some((UNIMPLEMENTED, _)) => Err(Refused::Unimplemented(words(&report))),
        _ => Err(Refused::Otherwise(GrpcError::Reflection { words: words(&report) })),
    }
}

/// Why a call failed, in words.
fn words(report: &LoadReport) -> String {
    let detail = report.grpc.iter().flat_map(|grpc| &grpc.details).next();
    if let Some(detail) = detail {
        return format!("{}: {}", grpc_status::name(detail.status), detail.words);
    }
    if let Some(reason) = report.reasons.first() {
        return reason.words.clone();
    }
    report.errors.first().map_or_else(|| "no answer".to_owned(), |(outcome, _)| outcome.name().to_owned())
}
