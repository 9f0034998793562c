//! Streams that raise no SIGPIPE. A write to a socket whose peer has gone ends a program that
//! leaves that signal at its default, as C programs do, unless the write asks for an error alone.
//! `send` does so for one slice of bytes. `write` and `writev`, by which others would go out, do not.

use std::io;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

use crate::runtime::drive::{Driver, driven_here};

/// See the [module documentation](self). Where the program has closed the descriptors of its runtime
/// it is an error, and is left as it is: its number may be the program's by now.
pub(crate) struct Quiet<S: Socket> {
    socket: ManuallyDrop<S>,
    /// What its number led to when it was made.
    file: Option<File>,
    /// The driver of the socket's runtime; empty if the caller drives it.
    driver: Option<&'static Driver>,
}

impl<S: Socket> Quiet<S> {
    /// For a socket of the runtime that this thread drives.
    pub(crate) fn new(socket: S) -> Quiet<S> {
        Quiet {
            file: socket.file(),
            socket: ManuallyDrop::new(socket),
            driver: driven_here(),
        }
    }

    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    /// The socket, if there is one.
    fn open(&mut self) -> io::Result<&mut S> {
        if self.driver.is_some_and(Driver::is_broken) {
            Err(io::ErrorKind::NotConnected.into())
        } else {
            Ok(&mut self.socket)
        }
    }
}

impl<S: Socket> Drop for Quiet<S> {
    fn drop(&mut self) {
        if self.file == self.socket.file() {
            // SAFETY: nothing uses the socket after this drop.
            unsafe { ManuallyDrop::drop(&mut self.socket) };
        }
    }
}

/// What of it differs between kinds of sockets.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin {
    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// What its number leads to, where that is known.
    fn file(&self) -> Option<File>;

    /// Sends what there is room for.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const FLAGS: i32 = libc::MSG_NOSIGNAL;
/// Apple's sockets get the option when they are made, and Windows has no such signal.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const FLAGS: i32 = 0;

/// Device and number of a file: a socket has one of its own.
type File = (u64, u64);

/// What a descriptor leads to.
#[cfg(unix)]
#[allow(
    clippy::unnecessary_cast,
    reason = "their types differ between systems"
)]
fn leads_to(fd: std::os::fd::RawFd) -> Option<File> {
    // SAFETY: all zeros is a valid value of this kind.
    let mut file: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `file` is valid for the call.
    let found = unsafe { libc::fstat(fd, &mut file) } == 0;
    found.then_some((file.st_dev as u64, file.st_ino as u64))
}

macro_rules! socket {
    ($kind:ty) => {
        impl Socket for $kind {
            fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_write_ready(cx)
            }

            fn file(&self) -> Option<File> {
                #[cfg(unix)]
                return leads_to(std::os::fd::AsRawFd::as_raw_fd(self));
                #[cfg(not(unix))]
                None
            }

            fn send(&self, bytes: &[u8]) -> io::Result<usize> {
                self.try_io(Interest::WRITABLE, || {
                    SockRef::from(self).send_with_flags(bytes, FLAGS)
                })
            }
        }
    };
}

socket!(TcpStream);
#[cfg(unix)]
socket!(UnixStream);

impl<S: Socket> AsyncRead for Quiet<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().open()?).poll_read(cx, buf)
    }
}

impl<S: Socket> AsyncWrite for Quiet<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let socket = self.get_mut().open()?;
        loop {
            ready!(socket.poll_writable(cx))?;
            match socket.send(buf) {
                Err(full) if full.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().open()?).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().open()?).poll_shutdown(cx)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::AsyncWriteExt;

    /// Whether writes to a peer that has gone are errors, in a process that a SIGPIPE ends.
    fn survives(write: impl AsyncFnOnce() -> io::Error) -> bool {
        // SAFETY: the child has one thread, and a runtime of its own.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_io()
                    .build()
                    .unwrap();
                let error = runtime.block_on(write());
                libc::_exit(i32::from(error.kind() != io::ErrorKind::BrokenPipe));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            status == 0
        }
    }

    /// Writes, in two parts at a time, until that is an error.
    async fn written(mut to: impl AsyncWrite + Unpin) -> io::Error {
        loop {
            let parts = [io::IoSlice::new(b"a"), io::IoSlice::new(b"b")];
            let sent = poll_fn(|cx| Pin::new(&mut to).poll_write_vectored(cx, &parts)).await;
            let sent = match sent {
                Ok(_) => to.write_all(b"c").await,
                Err(error) => Err(error),
            };
            if let Err(error) = sent {
                return error;
            }
        }
    }

    #[test]
    fn a_peer_that_has_gone_is_an_error_and_no_signal() {
        assert!(survives(async || {
            let (near, far) = UnixStream::pair().unwrap();
            drop(far);
            written(Quiet::new(near)).await
        }));
        assert!(survives(async || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap());
            let near = near.await.unwrap();
            drop((listener.accept().unwrap(), listener));
            near.readable().await.unwrap();
            // The other end answers the first write by a reset, which the next write meets.
            let error = written(Quiet::new(near)).await;
            match error.kind() {
                io::ErrorKind::ConnectionReset => io::ErrorKind::BrokenPipe.into(),
                _ => error,
            }
        }));
    }
}
