//! A component of wasi:http that behaves well or badly as the last segment of its path says.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use wasip2::http::types::{
    ErrorCode, Fields, IncomingRequest, Method, OutgoingBody, OutgoingRequest, OutgoingResponse, ResponseOutparam,
    Scheme,
};

wasip2::http::proxy::export!(Behaviours);

struct Behaviours;

static REQUESTS: AtomicU32 = AtomicU32::new(0);

impl wasip2::exports::http::incoming_handler::Guest for Behaviours {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let target = request.path_with_query().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        match path.rsplit('/').next().unwrap_or_default() {
            "echo" => echo(request, out),
            "info" => answer(out, &info(&request)),
            "count" => answer(out, &(REQUESTS.fetch_add(1, Ordering::Relaxed) + 1).to_string()),
            "trap" => std::process::abort(),
            "loop" => loop {
                std::hint::black_box(0);
            },
            "alloc" => {
                let mut all = Vec::new();
                loop {
                    all.push(vec![1_u8; 1 << 20]);
                }
            }
            "silent" => {}
            "never" => std::thread::sleep(std::time::Duration::from_secs(3600)),
            "sleep" => {
                std::thread::sleep(std::time::Duration::from_millis(query.parse().unwrap_or(0)));
                answer(out, "slept");
            }
            "half" => {
                begin(out, None, |body| {
                    body.write_all(b"begun").unwrap();
                    std::process::abort();
                });
            }
            "short" => begin(out, Some("100"), |body| body.write_all(b"begun").unwrap()),
            "error" => ResponseOutparam::set(out, Err(ErrorCode::InternalError(Some("no".to_owned())))),
            "flood" => begin(out, None, |body| while body.write_all(&[b'x'; 4096]).is_ok() {}),
            "log" => {
                println!("this is said");
                eprintln!("this is wrong\x1b[2J");
                answer(out, "logged");
            }
            "fetch" => answer(out, &fetch(query)),
            "read" => answer(out, &told(std::fs::read_to_string(query))),
            "write" => answer(out, &told(std::fs::write(query, "written").map(|()| "written".to_owned()))),
            "connect" => answer(out, &told(std::net::TcpStream::connect(query).map(|_| "connected".to_owned()))),
            _ => answer(out, "hello"),
        }
    }
}

fn told(result: std::io::Result<String>) -> String {
    result.unwrap_or_else(|error| format!("refused: {error}"))
}

fn begin(out: ResponseOutparam, length: Option<&str>, write: impl FnOnce(&mut dyn Write)) {
    let fields = Fields::new();
    if let Some(length) = length {
        fields.append("content-length", length.as_bytes()).unwrap();
    }
    let response = OutgoingResponse::new(fields);
    let body = response.body().unwrap();
    ResponseOutparam::set(out, Ok(response));
    let mut stream = body.write().unwrap();
    write(&mut stream);
    let _ = stream.flush();
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
}

fn answer(out: ResponseOutparam, text: &str) {
    begin(out, None, |body| body.write_all(text.as_bytes()).unwrap());
}

fn echo(request: IncomingRequest, out: ResponseOutparam) {
    let incoming = request.consume().unwrap();
    let stream = incoming.stream().unwrap();
    begin(out, None, |body| {
        while let Ok(piece) = stream.blocking_read(16 << 10) {
            if body.write_all(&piece).and_then(|()| body.flush()).is_err() {
                break;
            }
        }
    });
}

fn info(request: &IncomingRequest) -> String {
    let method = match request.method() {
        Method::Get => "GET".to_owned(),
        other => format!("{other:?}"),
    };
    let scheme = match request.scheme() {
        Some(Scheme::Https) => "https",
        _ => "http",
    };
    let client = request.headers().get("x-forwarded-for").concat();
    format!(
        "{method} {scheme}://{}{} of {} env {:?}",
        request.authority().unwrap_or_default(),
        request.path_with_query().unwrap_or_default(),
        String::from_utf8_lossy(&client),
        std::env::vars().collect::<Vec<_>>(),
    )
}

fn fetch(authority: &str) -> String {
    let request = OutgoingRequest::new(Fields::new());
    request.set_scheme(Some(&Scheme::Http)).unwrap();
    request.set_authority(Some(authority)).unwrap();
    request.set_path_with_query(Some("/asked")).unwrap();
    let response = match wasip2::http::outgoing_handler::handle(request, None) {
        Ok(response) => response,
        Err(error) => return format!("refused: {error:?}"),
    };
    response.subscribe().block();
    match response.get() {
        Some(Ok(Ok(response))) => {
            let incoming = response.consume().unwrap();
            let mut text = String::new();
            let _ = incoming.stream().unwrap().read_to_string(&mut text);
            format!("{} {text}", response.status())
        }
        other => format!("refused: {other:?}"),
    }
}
