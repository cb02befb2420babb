//! What the server shows of its node process at the admin address: the figures that this one sends it.

use std::sync::{Arc, Mutex, PoisonError};
use weir_exposition::{Families, Kind};
use weir_server::Teller;

/// Bytes of figures; what is larger is not shown.
const BYTES_MAX: usize = 256 << 10;

/// The figures that came last.
#[derive(Debug, Default)]
pub(crate) struct NodeFigures(Mutex<Option<String>>);

impl NodeFigures {
    /// Tells them behind those of another teller, if there is one.
    pub(crate) fn teller(self: &Arc<Self>, other: Option<Arc<dyn Teller>>) -> Arc<dyn Teller> {
        Arc::new(Both { node: Arc::clone(self), other })
    }

    /// Takes newer ones.
    pub(super) fn set(&self, bytes: &[u8]) {
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= BYTES_MAX);
        if let Some(text) = text {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned());
        }
    }

    /// The node process has ended: what it said last holds no more.
    pub(super) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn text(&self) -> String {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut out = Families::new();
        let help = "Whether the process that moves sessions runs and tells its figures.";
        out.one("weir_cluster_node_process_up", Kind::Gauge, help, u8::from(told.is_some()));
        out.into_text() + &told.unwrap_or_default()
    }
}

#[derive(Debug)]
struct Both {
    node: Arc<NodeFigures>,
    other: Option<Arc<dyn Teller>>,
}

impl Teller for Both {
    fn metrics(&self) -> String {
        let before = self.other.as_ref().map_or_else(String::new, |other| other.metrics());
        before + &self.node.text()
    }

    fn json(&self, path: &str) -> Option<String> {
        self.other.as_ref()?.json(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_until_the_process_has_ended() {
        let figures = Arc::<NodeFigures>::default();
        let teller = figures.teller(None);
        assert!(teller.metrics().ends_with("weir_cluster_node_process_up 0\n"));
        figures.set(b"a 1\n");
        figures.set(&vec![b'a'; BYTES_MAX + 1]);
        figures.set(b"\xff");
        assert!(teller.metrics().ends_with("weir_cluster_node_process_up 1\na 1\n"));
        figures.end();
        assert!(teller.metrics().ends_with("weir_cluster_node_process_up 0\n"));
        assert_eq!(teller.json("/environment.json"), None);
    }
}
