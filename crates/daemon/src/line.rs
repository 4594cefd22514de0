use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::protocol::{Message, VERSION};

/// Why no message arrived.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The other side has closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// Nothing came for too long.
    #[error("no answer for {} seconds", .0.as_secs())]
    Silent(Duration),
    /// The line is longer than any message.
    #[error("a line of more than {0} bytes")]
    TooLong(usize),
    /// The line is not a message.
    #[error("not a message of this protocol: {0}")]
    Malformed(String),
    /// The other side is of another version.
    #[error(
        "the other side speaks version {0} of the control protocol and this one version {VERSION}; \
         use the same version of warmfront for both (unmount with the old one, mount with the new)"
    )]
    Version(u32),
    /// The connection failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// One side of a control connection: messages out, messages in.
#[derive(Debug)]
pub(crate) struct Connection {
    reader: BufReader<UnixStream>,
}

impl Connection {
    /// Over a connected socket.
    pub fn new(stream: UnixStream, silence_max: Duration) -> io::Result<Connection> {
        stream.set_write_timeout(Some(silence_max))?;
        Ok(Connection { reader: BufReader::new(stream) })
    }

    /// Sends a message.
    pub fn send<T: Serialize>(&mut self, body: T) -> Result<(), LineError> {
        let mut line = serde_json::to_vec(&Message { version: VERSION, body })
            .map_err(|error| LineError::Malformed(error.to_string()))?;
        line.push(b'\n');
        Ok(self.reader.get_mut().write_all(&line)?)
    }

    /// Waits for a message of at most `bytes_max` bytes, no longer than `silence_max`.
    pub fn receive<T: DeserializeOwned>(
        &mut self,
        bytes_max: usize,
        silence_max: Duration,
    ) -> Result<T, LineError> {
        parse(&self.line(bytes_max, silence_max)?)
    }

    fn line(&mut self, bytes_max: usize, silence_max: Duration) -> Result<Vec<u8>, LineError> {
        let deadline = Instant::now() + silence_max;
        let mut line = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(LineError::Silent(silence_max));
            }
            self.reader.get_ref().set_read_timeout(Some(left))?;
            let available = match self.reader.fill_buf() {
                Ok([]) => return Err(LineError::Closed),
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(LineError::Silent(silence_max));
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(LineError::Closed);
                }
                Err(error) => return Err(error.into()),
            };
            let end = available.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(available.len(), |end| end + 1);
            line.extend_from_slice(available.get(..used).unwrap_or(available));
            self.reader.consume(used);
            if line.len() > bytes_max {
                return Err(LineError::TooLong(bytes_max));
            }
            if end.is_some() {
                return Ok(line);
            }
        }
    }
}

/// The version is looked at first: a body of another version need not be understood.
fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, LineError> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let malformed = |error: serde_json::Error| LineError::Malformed(error.to_string());
    let Version { version } = serde_json::from_slice(line).map_err(malformed)?;
    if version != VERSION {
        return Err(LineError::Version(version));
    }
    Ok(serde_json::from_slice::<Message<T>>(line).map_err(malformed)?.body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Request;

    const SOON: Duration = Duration::from_millis(200);

    fn pair() -> (UnixStream, Connection) {
        let (a, b) = UnixStream::pair().expect("a pair of sockets");
        (a, Connection::new(b, SOON).expect("timeouts can be set"))
    }

    fn receive(text: &[u8]) -> Result<Request, LineError> {
        let (mut raw, mut connection) = pair();
        raw.write_all(text).expect("it fits into the socket's buffer");
        connection.receive(100, SOON)
    }

    #[test]
    fn messages_cross() {
        let (a, mut b) = pair();
        let mut a = Connection::new(a, SOON).expect("timeouts can be set");
        a.send(Request::Unmount { lazy: true }).expect("sent");
        a.send(Request::Ping).expect("sent");
        assert_eq!(b.receive::<Request>(100, SOON).ok(), Some(Request::Unmount { lazy: true }));
        assert_eq!(b.receive::<Request>(100, SOON).ok(), Some(Request::Ping));
        drop(a);
        assert!(matches!(b.receive::<Request>(100, SOON), Err(LineError::Closed)));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert!(matches!(receive(&[b'x'; 101]), Err(LineError::TooLong(100))));
        assert!(matches!(receive(b"{\"version\":1,"), Err(LineError::Silent(_))));
        assert!(matches!(receive(b"{\n"), Err(LineError::Malformed(_))));
        let odd = b"{\"version\":1,\"body\":{\"explode\":{}}}\n";
        assert!(matches!(receive(odd), Err(LineError::Malformed(_))));
        assert!(matches!(receive(b"{\"version\":2,\"body\":0}\n"), Err(LineError::Version(2))));
    }

    /// A line that comes byte by byte does not stretch the deadline.
    #[test]
    fn a_slow_line_meets_the_deadline() {
        let (mut raw, mut connection) = pair();
        let writer = std::thread::spawn(move || {
            for _ in 0..20 {
                if raw.write_all(b"x").is_err() {
                    return;
                }
                std::thread::sleep(SOON / 10);
            }
        });
        let started = Instant::now();
        let received = connection.receive::<Request>(100, SOON);
        assert!(matches!(received, Err(LineError::Silent(_))));
        assert!(started.elapsed() < SOON * 2);
        drop(connection);
        writer.join().expect("it ends when nobody listens");
    }
}
