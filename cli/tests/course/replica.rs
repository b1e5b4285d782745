//! A client of the course as it was, byte for byte on the wire, written from its behaviour.
//!
//! The client has one buffer of 8192 bytes. It copies a request there and sends the text by one
//! write. `readnb` overwrites the buffer with the reply: it reads until it has 8192 bytes or the
//! input ends. The client prints the buffer up to its first NUL. So if the server closes early, the
//! client prints its request as the reply. The text book's robust I/O reads ahead at most its own
//! 8192 bytes.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use testkit::PATIENCE;

/// MAXLINE and RIO_BUFSIZE of the course, in bytes.
const MAXLINE: usize = 8192;

/// One client.
pub struct Replica {
    stream: TcpStream,
    /// Bytes read ahead: `rio_buf`.
    ahead: Vec<u8>,
    /// `char buf[MAXLINE]`.
    buf: [u8; MAXLINE],
}

impl Replica {
    #[track_caller]
    pub fn connect(port: u16) -> Replica {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        Replica { stream, ahead: Vec::new(), buf: [0; MAXLINE] }
    }

    /// Puts `text` and a NUL into the buffer, as `strcpy` and `fgets` do, and sends the text.
    pub fn send(&mut self, text: &str) -> io::Result<()> {
        self.buf[..text.len()].copy_from_slice(text.as_bytes());
        self.buf[text.len()] = 0;
        self.stream.write_all(text.as_bytes())
    }

    /// Reads a block into the buffer: as many bytes as it got, fewer than 8192 at the end only.
    pub fn readnb(&mut self) -> io::Result<usize> {
        let mut got = 0;
        while got < MAXLINE {
            let len = self.read(MAXLINE - got, got)?;
            if len == 0 {
                break;
            }
            got += len;
        }
        Ok(got)
    }

    /// Reads up to a newline into the buffer and appends a NUL.
    pub fn readlineb(&mut self) -> io::Result<usize> {
        let mut got = 0;
        while got < MAXLINE - 1 && self.read(1, got)? == 1 {
            got += 1;
            if self.buf[got - 1] == b'\n' {
                break;
            }
        }
        self.buf[got] = 0;
        Ok(got)
    }

    /// The client's output: the buffer up to its first NUL.
    pub fn text(&self) -> String {
        let len = self.buf.iter().position(|&byte| byte == 0).unwrap_or(MAXLINE);
        String::from_utf8_lossy(&self.buf[..len]).into_owned()
    }

    /// Sends a line, reads a block, and returns the printed text.
    #[track_caller]
    pub fn ask(&mut self, line: &str) -> String {
        self.send(line).expect("the server takes requests");
        self.readnb().expect("the server answers");
        self.text()
    }

    /// At most `len` bytes to the place `at` of the buffer, from one read if none are there.
    fn read(&mut self, len: usize, at: usize) -> io::Result<usize> {
        if self.ahead.is_empty() {
            self.ahead.resize(MAXLINE, 0);
            let got = self.stream.read(&mut self.ahead);
            self.ahead.truncate(*got.as_ref().unwrap_or(&0));
            got?;
        }
        let len = len.min(self.ahead.len());
        self.buf[at..at + len].copy_from_slice(&self.ahead[..len]);
        self.ahead.drain(..len);
        Ok(len)
    }
}
