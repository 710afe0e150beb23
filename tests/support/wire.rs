//! HTTP between two sockets, message by message and byte for byte.

use std::io::{Error, ErrorKind, Result};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request or an answer, as it was on the wire.
pub struct Message {
    pub bytes: Vec<u8>,
    /// Where the body begins.
    pub head: usize,
}

impl Message {
    fn head_text(&self) -> String {
        String::from_utf8_lossy(&self.bytes[..self.head]).into_owned()
    }

    /// Of the first line.
    pub fn word(&self, n: usize) -> String {
        let head = self.head_text();
        head.split_whitespace().nth(n).unwrap_or("").to_owned()
    }

    pub fn status(&self) -> u16 {
        self.word(1).parse().unwrap()
    }

    pub fn header(&self, name: &str) -> Option<String> {
        self.head_text().lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    }
}

pub struct Stream {
    pub socket: TcpStream,
    /// Read, and not yet part of a message.
    ahead: Vec<u8>,
}

impl Stream {
    pub fn new(socket: TcpStream) -> Self {
        socket.set_nodelay(true).ok();
        Self {
            socket,
            ahead: Vec::new(),
        }
    }

    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.socket.write_all(bytes).await
    }

    /// The next message, whole; `None` if the other side has ended before it.
    pub async fn message(&mut self, without_body: bool) -> Result<Option<Message>> {
        let Some(head) = self.find(b"\r\n\r\n", 0).await? else {
            return Ok(None);
        };
        let mut message = Message {
            bytes: self.ahead[..head].to_vec(),
            head,
        };
        let coded = message.header("transfer-encoding").is_some();
        let length = message.header("content-length");
        let end = match length.and_then(|length| length.parse::<usize>().ok()) {
            _ if without_body => head,
            _ if coded => self.end_of_chunks(head).await?,
            length => head + length.unwrap_or(0),
        };
        self.fill(end).await?;
        message.bytes = self.ahead.drain(..end).collect();
        Ok(Some(message))
    }

    async fn end_of_chunks(&mut self, mut at: usize) -> Result<usize> {
        loop {
            let end = self.find(b"\r\n", at).await?;
            let end = end.ok_or(ErrorKind::UnexpectedEof)?;
            let line = String::from_utf8_lossy(&self.ahead[at..end]).into_owned();
            let size = line.trim().split(';').next().unwrap_or_default().to_owned();
            let size = usize::from_str_radix(&size, 16)
                .map_err(|_| Error::from(ErrorKind::InvalidData))?;
            at = end + size + 2;
            if size == 0 {
                return Ok(at);
            }
        }
    }

    /// The end of the first `mark` at or after `from`.
    async fn find(&mut self, mark: &[u8], from: usize) -> Result<Option<usize>> {
        loop {
            let part = self.ahead.get(from..).unwrap_or_default();
            if let Some(at) = part.windows(mark.len()).position(|found| found == mark) {
                return Ok(Some(from + at + mark.len()));
            }
            if self.more().await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn fill(&mut self, length: usize) -> Result<()> {
        while self.ahead.len() < length {
            if self.more().await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    async fn more(&mut self) -> Result<usize> {
        self.socket.read_buf(&mut self.ahead).await
    }
}
