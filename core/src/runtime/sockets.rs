//! The sockets of the process as one descriptor, for an event loop that drives the I/O.
//!
//! The runtime's own descriptor is not to be had. So each connection is watched a second
//! time, by an epoll of ours, and that is what an event loop watches. It is readable when
//! there may be something to read, and only while an event loop [has driven](Sockets::arm)
//! last: what the I/O thread reads wakes no loop. Linux alone; elsewhere the I/O thread does
//! it all.

#[cfg(not(target_os = "linux"))]
use socket2::SockRef;

#[cfg(target_os = "linux")]
pub(crate) use linux::Sockets;

#[cfg(not(target_os = "linux"))]
pub(crate) struct Sockets;

#[cfg(not(target_os = "linux"))]
impl Sockets {
    pub(crate) fn new() -> std::io::Result<Sockets> {
        Ok(Sockets)
    }

    pub(crate) fn watch(&self, _socket: &SockRef) {}

    pub(crate) fn descriptor(&self) -> Option<std::ffi::c_int> {
        None
    }

    pub(crate) fn arm(&self) {}

    pub(crate) fn disarm(&self) {}

    pub(crate) fn clear(&self) {}
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
    use std::sync::atomic::{AtomicBool, Ordering};

    use socket2::SockRef;

    /// How many sockets are looked at in one system call.
    const AT_ONCE: usize = 32;

    /// See the [module documentation](super).
    pub(crate) struct Sockets {
        /// Watches the sockets.
        inner: OwnedFd,
        /// Watches `inner` while it is armed. It is what event loops watch: one that watched
        /// `inner` could not be told to leave it alone without being asked.
        outer: OwnedFd,
        armed: AtomicBool,
    }

    impl Sockets {
        pub(crate) fn new() -> io::Result<Sockets> {
            let (inner, outer) = (epoll()?, epoll()?);
            control(&outer, libc::EPOLL_CTL_ADD, inner.as_raw_fd(), 0)?;
            Ok(Sockets {
                inner,
                outer,
                armed: AtomicBool::new(false),
            })
        }

        /// Watches a socket until it is closed.
        pub(crate) fn watch(&self, socket: &SockRef) {
            // One that is not watched is read by the I/O thread, a breath later.
            let _ = control(
                &self.inner,
                libc::EPOLL_CTL_ADD,
                socket.as_raw_fd(),
                libc::EPOLLIN | libc::EPOLLET,
            );
        }

        pub(crate) fn descriptor(&self) -> Option<RawFd> {
            Some(self.outer.as_raw_fd())
        }

        /// An event loop drives, and is to be told what comes.
        pub(crate) fn arm(&self) {
            if !self.armed.swap(true, Ordering::Relaxed) {
                let inner = self.inner.as_raw_fd();
                let _ = control(&self.outer, libc::EPOLL_CTL_MOD, inner, libc::EPOLLIN);
            }
        }

        /// The I/O thread drives, or a blocking caller: a loop that was told would find the
        /// wheel taken, and be told again.
        pub(crate) fn disarm(&self) {
            if self.armed.swap(false, Ordering::Relaxed) {
                let inner = self.inner.as_raw_fd();
                let _ = control(&self.outer, libc::EPOLL_CTL_MOD, inner, 0);
            }
        }

        /// What has come is about to be read: only what comes from now on is told.
        pub(crate) fn clear(&self) {
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; AT_ONCE];
            // SAFETY: `events` has room for this many.
            let look = || unsafe {
                libc::epoll_wait(
                    self.inner.as_raw_fd(),
                    events.as_mut_ptr(),
                    AT_ONCE as i32,
                    0,
                )
            };
            // Edge-triggered: what was told is not told again.
            std::iter::repeat_with(look)
                .take_while(|many| *many == AT_ONCE as i32)
                .for_each(drop);
        }
    }

    fn epoll() -> io::Result<OwnedFd> {
        // SAFETY: no pointer is passed.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        match fd {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: it was made above and is nobody else's.
            fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        }
    }

    fn control(epoll: &OwnedFd, what: i32, fd: RawFd, events: i32) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: 0,
        };
        // SAFETY: `event` lives until the call returns.
        match unsafe { libc::epoll_ctl(epoll.as_raw_fd(), what, fd, &mut event) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::io::{Read, Write, pipe};

        fn is_readable(sockets: &Sockets) -> bool {
            let fd = sockets.descriptor().unwrap();
            let mut poll = libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one descriptor is passed.
            unsafe { libc::poll(&mut poll, 1, 0) == 1 }
        }

        #[test]
        fn a_loop_is_told_while_it_drives_and_once() {
            let sockets = Sockets::new().unwrap();
            let (mut reader, mut writer) = pipe().unwrap();
            sockets.watch(&(&reader).into());
            writer.write_all(b"a").unwrap();
            assert!(!is_readable(&sockets));
            sockets.arm();
            assert!(is_readable(&sockets));
            sockets.disarm();
            assert!(!is_readable(&sockets));
            sockets.arm();
            sockets.clear();
            // Nobody has read it: it is not told again.
            assert!(!is_readable(&sockets));
            writer.write_all(b"b").unwrap();
            assert!(is_readable(&sockets));
            sockets.clear();
            reader.read_exact(&mut [0; 2]).unwrap();
            assert!(!is_readable(&sockets));
            drop(writer);
            assert!(is_readable(&sockets));
        }
    }
}
