//! What the server can be told to do.

/// What the server can be told to do, at any time.
pub trait ServerActions: Send {
    /// Contents of paths that fit a pattern stay in memory.
    fn pin(&self, glob: &str);
    /// They need not any more.
    fn unpin(&self, glob: &str);
    /// They are loaded now.
    fn warm(&self, glob: &str);
    /// So many loops serve beside the usual ones. It is said again, as an order like any other, when other rules hold.
    fn spread(&self, loops_more: u32);
    /// An upstream whose application this server runs has so many workers; with `None` as many as its configuration says.
    /// It is said again and again, as a reload forgets it.
    fn workers(&self, upstream: &str, workers: Option<u32>);
}
