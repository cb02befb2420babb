//! Several lines on a terminal that are drawn anew in their place.

use std::io::Write;

/// The lines; they are erased when dropped.
#[derive(Debug)]
pub struct Pane<W: Write> {
    out: W,
    /// Lines that stand on the terminal, and its columns when they were drawn.
    drawn: usize,
    columns: usize,
}

impl<W: Write> Pane<W> {
    /// No lines yet, on a terminal that is written to by `out`.
    pub fn new(out: W) -> Self {
        Self { out, drawn: 0, columns: 0 }
    }

    /// Draws lines of at most `columns` characters in the place of those before.
    pub fn draw(&mut self, lines: &[String], columns: usize) {
        let mut text = String::new();
        if self.drawn > 0 && columns != self.columns {
            // Some terminals wrap lines anew when they get narrower and some do not, so we cannot know where the lines
            // stand now. A cleared screen is the same on all.
            text.push_str("\x1b[2J\x1b[H");
        } else {
            text.push_str(&self.home());
        }
        for line in lines {
            text.push_str(line);
            // To the line's end: what stood there before was longer, perhaps.
            text.push_str("\x1b[K\r\n");
        }
        text.push_str("\x1b[J");
        (self.drawn, self.columns) = (lines.len(), columns);
        // A terminal that is gone shows nothing; the run goes on.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }

    /// To where the first line begins.
    fn home(&self) -> String {
        if self.drawn > 0 { format!("\r\x1b[{}A", self.drawn) } else { String::new() }
    }
}

impl<W: Write> Drop for Pane<W> {
    fn drop(&mut self) {
        if self.drawn > 0 {
            let text = format!("{}\x1b[J", self.home());
            let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        }
    }
}

/// Columns and rows of the terminal behind a descriptor, such as 2 for stderr; 80 by 24 where it does not say.
pub fn size(descriptor: i32) -> (usize, usize) {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes a winsize, which is what the pointer is to.
    let answered = unsafe { libc::ioctl(descriptor, libc::TIOCGWINSZ, &raw mut size) } == 0;
    let or = |value: u16, other: usize| if answered && value > 0 { usize::from(value) } else { other };
    (or(size.ws_col, 80), or(size.ws_row, 24))
}
