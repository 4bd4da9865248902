//! Buffered output that reaches the file even when its owner is dropped early.

use std::io;

const FULL: usize = 64 * 1024;

pub(crate) struct Out {
    pub(crate) buffer: Vec<u8>,
    sink: Box<dyn io::Write + Send>,
}

impl Out {
    pub(crate) fn new(sink: Box<dyn io::Write + Send>) -> Out {
        Out { buffer: Vec::with_capacity(FULL + 4096), sink }
    }
    pub(crate) fn text(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
    }
    pub(crate) fn int(&mut self, value: impl itoa::Integer) {
        self.buffer.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }
    /// Hands the buffer on when it is full.
    #[inline]
    pub(crate) fn spill(&mut self) -> io::Result<()> {
        if self.buffer.len() >= FULL { self.write_out() } else { Ok(()) }
    }
    #[cold]
    fn write_out(&mut self) -> io::Result<()> {
        let result = self.sink.write_all(&self.buffer);
        self.buffer.clear();
        result
    }
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.write_out()?;
        self.sink.flush()
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        // No caller receives an error here; `finish` is the way that reports it.
        if !self.buffer.is_empty() {
            let _ = self.finish();
        }
    }
}
