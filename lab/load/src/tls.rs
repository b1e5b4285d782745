//! The layers between a script and its socket, from the client's side: TLS (RFC 8446) with the
//! servers that are believed, WebSocket (`websocket`), or one in the other; TLS also in a `tunnel`.
//!
//! A connection never blocks. The driver hands it plaintext and buffers, as it does to a plain
//! socket.

use crate::Instant;
use crate::parse::{Scheme, Target, Usage};
use crate::tunnel::Tunnel;
use crate::websocket::WebSocket;
use meter::Histogram;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, RootCertStore,
    SignatureScheme,
};
use std::fmt::Display;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use sys::socket::{self, SendFlags};

/// How a server's certificate is checked, and whether sessions are resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// The file (PEM) of the certificates that are believed; `None`: those of the system.
    pub roots: Option<PathBuf>,
    /// Every certificate is believed.
    pub is_insecure: bool,
    /// Every handshake is a full one.
    pub no_resume: bool,
    /// The files (PEM) of this client's certificate and its key, if it has one.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// The layers of a target, as all connections to it begin.
#[derive(Clone, Debug)]
pub struct Layers {
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    websocket: Option<WebSocket>,
    tunnel: Option<Tunnel>,
}

#[derive(Debug)]
pub(crate) struct LayeredLink {
    fd: OwnedFd,
    tls: Option<ClientConnection>,
    websocket: Option<WebSocket>,
    tunnel: Option<Tunnel>,
    /// When the kernel took the first bytes, because the server's had answered.
    connected: Option<Instant>,
    /// Whether the end of the handshake was noted.
    is_noted: bool,
    /// The next result of receiving: the end, or a fault that came after the last plaintext.
    end: Option<io::Result<usize>>,
}

/// The handshakes of a run.
#[derive(Clone, Debug, Default)]
pub struct Handshakes {
    /// From the start of a connection until the server's kernel has answered (ns).
    pub(crate) connect: Histogram,
    /// From then until the keys are agreed (ns).
    pub(crate) handshake: Histogram,
    /// The number of those that resumed a session.
    pub(crate) resumed: u64,
    /// The version of the last one.
    pub(crate) version: &'static str,
}

impl Layers {
    /// Those of a target, or `None` for plain TCP.
    ///
    /// # Errors
    /// A host that is not a name, or certificates that cannot be read.
    pub fn of(target: &Target) -> Result<Option<Self>, Usage> {
        let websocket = target.websocket.map(|kind| WebSocket::new(kind, &target.authority));
        let Some(options) = &target.tls else {
            return Ok(websocket.map(|it| Self { tls: None, websocket: Some(it), tunnel: None }));
        };
        let host = target.host();
        let name = ServerName::try_from(host.clone())
            .map_err(|_| Usage(format!("expected a host name for TLS, found `{host}`")))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|why| Usage(format!("expected TLS 1.2 and 1.3: {why}")))?;
        let builder = if options.is_insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Unchecked(provider)))
        } else {
            builder.with_root_certificates(match &options.roots {
                Some(file) => roots(file)?,
                None => system_roots()?,
            })
        };
        let mut config = match &options.client {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let bad = |why: &dyn Display| {
                    let key = key.display();
                    Usage(format!("--key: expected the key of --cert in {key}, found {why}"))
                };
                let key = PrivateKeyDer::from_pem_file(key).map_err(|why| bad(&why))?;
                let chain = certificates("--cert", cert)?;
                builder.with_client_auth_cert(chain, key).map_err(|why| bad(&why))?
            }
        };
        if options.no_resume {
            config.resumption = Resumption::disabled();
        }
        if target.scheme == Scheme::Http || websocket.is_some() {
            let name = if target.http2 { "h2" } else { "http/1.1" };
            config.alpn_protocols = vec![name.into()];
        }
        let tunnel = target.proxy.as_ref().map(|proxy| Tunnel::new(target, proxy));
        Ok(Some(Self { tls: Some((Arc::new(config), name)), websocket, tunnel }))
    }

    /// A session of TLS, before its handshake.
    fn session(&self) -> io::Result<Option<ClientConnection>> {
        let begin = |(config, name): &(Arc<ClientConfig>, ServerName<'static>)| {
            ClientConnection::new(Arc::clone(config), name.clone()).map_err(fault)
        };
        self.tls.as_ref().map(begin).transpose()
    }

    /// Begins the layers of a connection that is being made.
    pub(crate) fn begin(&self, fd: OwnedFd) -> io::Result<LayeredLink> {
        let (tls, websocket) = (self.session()?, self.websocket.clone());
        let tunnel = self.tunnel.clone();
        Ok(LayeredLink { fd, tls, websocket, tunnel, connected: None, is_noted: false, end: None })
    }
}

/// A connection that blocks: plain, or through layers, whose handshakes come with the first bytes.
#[derive(Debug)]
pub struct Stream {
    /// The connection, for its timeouts.
    pub socket: TcpStream,
    tls: Option<ClientConnection>,
    websocket: Option<WebSocket>,
    tunnel: Option<Tunnel>,
}

impl Stream {
    /// Speaks with `target` over `socket`.
    ///
    /// # Errors
    /// As [`Layers::of`].
    pub fn new(socket: TcpStream, target: &Target) -> Result<Self, Usage> {
        let layers = Layers::of(target)?;
        Self::layered(socket, layers.as_ref()).map_err(|why| Usage(why.to_string()))
    }

    pub(crate) fn layered(socket: TcpStream, layers: Option<&Layers>) -> io::Result<Self> {
        let Some(layers) = layers else { return Ok(socket.into()) };
        let (tls, websocket) = (layers.session()?, layers.websocket.clone());
        Ok(Self { tls, websocket, tunnel: layers.tunnel.clone(), ..socket.into() })
    }

    /// Makes the handshakes that are not made yet.
    ///
    /// # Errors
    /// Those of the socket, of TLS and of WebSocket; `WouldBlock` after the socket's timeout.
    pub fn agree(&mut self) -> io::Result<()> {
        if let Some(mut tunnel) = self.tunnel.take() {
            tunnel.make(&self.socket)?;
        }
        if let Some(tls) = self.tls.as_mut().filter(|tls| tls.is_handshaking()) {
            tls.complete_io(&mut self.socket)?;
        }
        while self.websocket.as_ref().is_some_and(|it| !it.is_open) {
            self.put_messages()?;
            // No byte of a message must be taken with the answer.
            self.receive(&mut [0])?;
        }
        Ok(())
    }

    /// Sends the frames that wait.
    fn put_messages(&mut self) -> io::Result<()> {
        let Some(websocket) = &mut self.websocket else { return Ok(()) };
        let bytes = std::mem::take(&mut websocket.unsent);
        match &mut self.tls {
            Some(tls) => rustls::Stream::new(tls, &mut self.socket).write_all(&bytes),
            None => self.socket.write_all(&bytes),
        }
    }

    /// Receives once; 0 also for frames without content.
    fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = match &mut self.tls {
            Some(tls) => rustls::Stream::new(tls, &mut self.socket).read(bytes)?,
            None => self.socket.read(bytes)?,
        };
        let Some(websocket) = &mut self.websocket else { return Ok(count) };
        if count == 0 && !websocket.is_open {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        websocket.is_over |= count == 0;
        let count = websocket.open(&mut bytes[..count])?;
        self.put_messages()?;
        Ok(count)
    }
}

impl From<TcpStream> for Stream {
    fn from(socket: TcpStream) -> Self {
        Self { socket, tls: None, websocket: None, tunnel: None }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.agree()?;
        loop {
            let count = self.receive(bytes)?;
            let goes_on = self.websocket.as_ref().is_some_and(|it| !it.is_over);
            if count > 0 || !goes_on || bytes.is_empty() {
                return Ok(count);
            }
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.agree()?;
        match (&mut self.websocket, &mut self.tls) {
            (Some(websocket), _) => {
                websocket.seal(bytes);
                self.put_messages().map(|()| bytes.len())
            }
            (None, Some(tls)) => rustls::Stream::new(tls, &mut self.socket).write(bytes),
            (None, None) => self.socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => rustls::Stream::new(tls, &mut self.socket).flush(),
            None => Ok(()),
        }
    }
}

fn roots(file: &Path) -> Result<RootCertStore, Usage> {
    let mut store = RootCertStore::empty();
    for found in certificates("--cacert", file)? {
        store.add(found).map_err(|why| not_pem("--cacert", file, &why))?;
    }
    Ok(store)
}

fn certificates(flag: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, Usage> {
    let bad = |why: &dyn Display| not_pem(flag, file, why);
    let found = CertificateDer::pem_file_iter(file).map_err(|why| bad(&why))?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(|why| bad(&why))?;
    if found.is_empty() { Err(bad(&"none")) } else { Ok(found) }
}

fn not_pem(flag: &str, file: &Path, why: &dyn Display) -> Usage {
    Usage(format!("{flag}: expected certificates as PEM in {}, found {why}", file.display()))
}

fn system_roots() -> Result<RootCertStore, Usage> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    // Stores of systems hold some certificates that are too old to be parsed.
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        let why = found.errors.first().map(|why| format!(" ({why})")).unwrap_or_default();
        return Err(Usage(format!(
            "expected the system's certificates, found none{why}; name a file by --cacert, or use \
             --insecure"
        )));
    }
    Ok(store)
}

/// A fault of TLS as an error of input; [`FaultKind`](crate::FaultKind) tells them apart again.
fn fault(why: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

/// Believes every certificate; signatures are still checked.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl LayeredLink {
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Receives plaintext into `buffer`, at least as long as `sealed`, which takes what arrives.
    ///
    /// # Errors
    /// Those of the socket, and faults of the layers; `WouldBlock` also if no plaintext came.
    pub(crate) fn recv(&mut self, buffer: &mut [u8], sealed: &mut [u8]) -> io::Result<usize> {
        if let Some(end) = self.end.take() {
            return end;
        }
        loop {
            let room = if self.tls.is_some() { sealed.len() } else { buffer.len() };
            let count = match self.tls {
                Some(_) => socket::recv(&self.fd, &mut *sealed)?,
                None => socket::recv(&self.fd, &mut *buffer)?,
            };
            let from = match &mut self.tunnel {
                Some(tunnel) => tunnel.open(&sealed[..count])?,
                None => Some(0),
            };
            let Some(from) = from else { continue };
            self.tunnel = None;
            if count == 0 && self.is_agreeing() {
                let why = "the server closed the connection during the handshake".to_owned();
                return Err(fault(rustls::Error::General(why)));
            } else if count == 0 {
                return Ok(0);
            }
            let mut opened = match self.tls {
                Some(_) => self.open(&sealed[from..count], buffer),
                None => count,
            };
            if let Some(websocket) = &mut self.websocket {
                opened = match websocket.open(&mut buffer[..opened]) {
                    Ok(opened) => opened,
                    Err(why) => {
                        self.end = Some(Err(why));
                        0
                    }
                };
                if websocket.is_over {
                    self.end.get_or_insert(Ok(0));
                }
            }
            if opened > 0 {
                return Ok(opened);
            }
            if let Some(end) = self.end.take() {
                return end;
            }
            if count < room {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
    }

    /// Decrypts `sealed`; returns the length of the plaintext.
    fn open(&mut self, mut sealed: &[u8], buffer: &mut [u8]) -> usize {
        let Some(tls) = &mut self.tls else { return 0 };
        let mut opened = 0;
        while !sealed.is_empty() && self.end.is_none() {
            let read = tls.read_tls(&mut sealed);
            match read.and_then(|_| tls.process_new_packets().map_err(fault)) {
                // Input after `close_notify` is ignored.
                Ok(state) if state.peer_has_closed() => self.end = Some(Ok(0)),
                Ok(_) => {}
                Err(why) => self.end = Some(Err(why)),
            }
            // Without plaintext this would block. Records are longer than what they seal, and an
            // incomplete one is kept, so there is room for all.
            opened += tls.reader().read(&mut buffer[opened..]).unwrap_or(0);
        }
        opened
    }

    /// Whether [`LayeredLink::recv`] has more to say without new input.
    pub(crate) fn has_more(&self) -> bool {
        self.end.is_some()
    }

    /// Whether a handshake is not done.
    fn is_agreeing(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
            || self.websocket.as_ref().is_some_and(|it| !it.is_open)
    }

    /// Seals and sends plaintext; returns the length of what was sealed. Until the handshakes are
    /// done it only goes on with them.
    ///
    /// # Errors
    /// Those of the socket; `WouldBlock` if nothing was sealed.
    pub(crate) fn send(&mut self, bytes: &[u8], now: Instant) -> io::Result<usize> {
        self.flush()?;
        self.connected.get_or_insert(now);
        if self.is_agreeing() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let Some(websocket) = &mut self.websocket else { return self.put(bytes) };
        websocket.seal(bytes);
        match self.flush() {
            Err(why) if why.kind() != ErrorKind::WouldBlock => Err(why),
            _ => Ok(bytes.len()),
        }
    }

    /// Encrypts, if that is asked for, and sends; returns the length of what was taken.
    fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.tls.is_none() {
            return socket::send(&self.fd, bytes);
        }
        let mut sealed = 0;
        while sealed < bytes.len() {
            sealed +=
                self.tls.as_mut().map_or(Ok(0), |tls| tls.writer().write(&bytes[sealed..]))?;
            match self.flush_records() {
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                done => done?,
            }
        }
        Ok(sealed)
    }

    /// Sends the records and the frames that wait.
    fn flush(&mut self) -> io::Result<()> {
        self.flush_records()?;
        let is_sealed = self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking());
        let mut waiting = match &mut self.websocket {
            Some(websocket) if is_sealed => std::mem::take(&mut websocket.unsent),
            _ => return Ok(()),
        };
        let mut done = Ok(());
        while !waiting.is_empty() && done.is_ok() {
            done = self.put(&waiting).map(|count| drop(waiting.drain(..count)));
            if self.tls.as_ref().is_some_and(|tls| tls.wants_write()) {
                done = done.and(Err(ErrorKind::WouldBlock.into()));
            }
        }
        self.websocket.as_mut().expect("it was there above").unsent = waiting;
        done
    }

    fn flush_records(&mut self) -> io::Result<()> {
        if let Some(Tunnel { unsent, .. }) = &mut self.tunnel {
            while !unsent.is_empty() {
                unsent.drain(..socket::send(&self.fd, unsent)?);
            }
            return Ok(());
        }
        while let Some(tls) = self.tls.as_mut().filter(|tls| tls.wants_write()) {
            tls.write_tls(&mut Socket(&self.fd))?;
        }
        Ok(())
    }

    /// Whether sealed bytes wait for room in the socket.
    pub(crate) fn wants_room(&self) -> bool {
        match &self.tunnel {
            Some(tunnel) => !tunnel.unsent.is_empty(),
            None => self.tls.as_ref().is_some_and(|tls| tls.wants_write()) || self.has_frames(),
        }
    }

    /// Whether frames wait that TLS could take.
    fn has_frames(&self) -> bool {
        let is_sealed = self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking());
        is_sealed && self.websocket.as_ref().is_some_and(|it| !it.unsent.is_empty())
    }

    /// Counts the handshake of a connection begun at `opened`, once, when it is done; whether it
    /// was counted now.
    pub(crate) fn note(
        &mut self,
        opened: Instant,
        now: Instant,
        sums: &mut Option<Handshakes>,
    ) -> bool {
        if self.is_noted || self.is_agreeing() {
            return false;
        }
        self.is_noted = true;
        let (connected, sums) = (self.connected.unwrap_or(opened), sums.get_or_insert_default());
        sums.connect.record(connected.since(opened).as_nanos() as u64, 1);
        sums.handshake.record(now.since(connected).as_nanos() as u64, 1);
        if let Some(tls) = &self.tls {
            sums.resumed += u64::from(tls.handshake_kind() == Some(HandshakeKind::Resumed));
            sums.version = match tls.protocol_version() {
                Some(rustls::ProtocolVersion::TLSv1_3) => "TLS 1.3",
                _ => "TLS 1.2",
            };
        }
        true
    }
}

impl Drop for LayeredLink {
    fn drop(&mut self) {
        let is_agreeing = self.is_agreeing();
        if let Some(websocket) = self.websocket.as_mut().filter(|_| !is_agreeing) {
            websocket.seal_end();
        }
        // The connection ends now, whether there is room or not.
        let _ = self.flush();
        // A fault has left an alert to send; else the end is announced (RFC 8446 section 6.1).
        if let Some(tls) = self.tls.as_mut().filter(|tls| !tls.is_handshaking()) {
            tls.send_close_notify();
        }
        let _ = self.flush_records();
    }
}

impl Handshakes {
    /// Adds those of another thread.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.connect.merge(&other.connect);
        self.handshake.merge(&other.handshake);
        self.resumed += other.resumed;
        if self.version.is_empty() {
            self.version = other.version;
        }
    }
}

/// A socket that takes several records at once.
struct Socket<'a>(&'a OwnedFd);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        socket::send(self.0, bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        socket::send_vectored(self.0, slices, SendFlags::empty())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
