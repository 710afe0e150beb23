//! HTTP as bytes, so that a test sends exactly what the host sends, and what nobody should.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::within;

#[derive(Debug)]
pub struct RawAnswer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl RawAnswer {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("not an HTTP answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self {
            status,
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// `Logs` joined by line ends.
    pub fn logs(&self) -> String {
        let json = self.json();
        let lines = json["Logs"].as_array().unwrap();
        let lines: Vec<_> = lines.iter().map(|line| line.as_str().unwrap()).collect();
        lines.join("\n")
    }
}

/// Sends the bytes and reads until the other side closes.
pub async fn exchange(port: u16, request: impl AsRef<[u8]>) -> RawAnswer {
    within("an answer", async {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        RawAnswer::parse(&converse(stream, request.as_ref()).await)
    })
    .await
}

/// With a process that may be killed meanwhile, and for as long as it takes.
pub async fn try_exchange(port: u16, request: impl AsRef<[u8]>) -> Option<RawAnswer> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let answer = converse(stream, request.as_ref()).await;
    let has_head = answer.windows(4).any(|bytes| bytes == b"\r\n\r\n");
    has_head.then(|| RawAnswer::parse(&answer))
}

async fn converse(mut stream: TcpStream, request: &[u8]) -> Vec<u8> {
    // The other side may answer and close before it has read everything.
    stream.write_all(request).await.ok();
    let mut answer = Vec::new();
    let mut buffer = [0; 8192];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        answer.extend_from_slice(&buffer[..read]);
    }
    answer
}

pub fn timer_body(status: &Value) -> Value {
    json!({
        "Data": { "tick": {
            "Schedule": { "AdjustForDST": true }, "ScheduleStatus": status, "IsPastDue": false
        } },
        "Metadata": { "sys": {
            "MethodName": "Tick", "UtcNow": "2026-11-16T10:20:00.0123456Z",
            "RandGuid": "9601c2fb-a5ce-44c4-ae9e-86ca2b121de3"
        } }
    })
}

fn head(path: &str, id: &str) -> String {
    format!(
        "POST /{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
         X-Azure-Functions-HostVersion: 4.1037.0.0\r\nX-Azure-Functions-InvocationId: {id}\r\n\
         User-Agent: Azure-Functions-Host/4.1037.0.0\r\n\
         Content-Type: application/json; charset=utf-8\r\n"
    )
}

/// As in Azure: without a length.
pub fn chunked(path: &str, id: &str, body: &str) -> String {
    let middle = (body.len() / 2..).find(|at| body.is_char_boundary(*at));
    let (first, second) = body.split_at(middle.unwrap());
    let mut request = head(path, id) + "Transfer-Encoding: chunked\r\n\r\n";
    for part in [first, second].iter().filter(|part| !part.is_empty()) {
        request += &format!("{:x}\r\n{part}\r\n", part.len());
    }
    request + "0\r\n\r\n"
}

/// As under Core Tools.
pub fn with_length(path: &str, id: &str, body: &str) -> String {
    head(path, id) + &format!("Content-Length: {}\r\n\r\n{body}", body.len())
}
