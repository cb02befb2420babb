//! What another part of the program adds to the server's own metrics and status at the admin address.

/// Asked by the thread that answers there.
pub trait Teller: Send + Sync + std::fmt::Debug {
    /// Families for Prometheus, in its text format, to stand behind those of the server.
    fn metrics(&self) -> String;
    /// The JSON at a path such as `/environment.json`; `None`: there is none.
    fn json(&self, path: &str) -> Option<String>;
}
