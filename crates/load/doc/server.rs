// A server for the examples of the guide: answers every request with two bytes.

pub fn url(path: &str) -> weir_load::Url {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    // Heads end in an empty line; the examples ask without bodies.
                    let asked = buffer[..count].windows(4).filter(|bytes| bytes == b"\r\n\r\n").count();
                    let answers = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi".repeat(asked);
                    if stream.write_all(&answers).is_err() {
                        break;
                    }
                }
            });
        }
    });
    weir_load::Url::parse(&format!("http://{address}{path}")).unwrap()
}
