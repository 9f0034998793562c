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
pub(crate) use linux::{RuntimeDescriptors, Sockets, numbered_high};

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

    pub(crate) fn are_whole(&self) -> bool {
        true
    }

    pub(crate) fn are_whole_now(&self) -> bool {
        true
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) struct RuntimeDescriptors;

#[cfg(not(target_os = "linux"))]
impl RuntimeDescriptors {
    pub(crate) fn of(_: &tokio::runtime::Runtime) -> Option<RuntimeDescriptors> {
        None
    }

    pub(crate) fn put_back(&self) -> bool {
        false
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn numbered_high<T>(make: impl FnOnce() -> T) -> T {
    make()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use socket2::SockRef;

    use crate::clock::system_now;

    /// What is made has no lower number than this, if it can be had.
    const HIGH: RawFd = 128;

    /// Has descriptors made with high numbers. A program that closes all of them opens its own
    /// under the lowest, and where tokio finds a descriptor of its own gone, it closes that number.
    /// A process that may not open so many has them made with low ones.
    pub(crate) fn numbered_high<T>(make: impl FnOnce() -> T) -> T {
        let mut low: Vec<OwnedFd> = eventfd().into_iter().collect();
        while let Some(last) = low.last().filter(|fd| fd.as_raw_fd() < HIGH) {
            match last.try_clone() {
                Ok(next) => low.push(next),
                Err(_) => low.clear(),
            }
        }
        make()
    }

    /// The descriptors that a runtime of tokio's has for itself: its epoll, twice, and the
    /// descriptor by which it is woken. Where any is gone it panics, and closes the number of
    /// another.
    pub(crate) struct RuntimeDescriptors {
        polls: [RawFd; 2],
        bell: RawFd,
    }

    impl RuntimeDescriptors {
        /// Those of a runtime that was [made just now](numbered_high), and that no thread drives:
        /// its epoll is known by a socket that it watches, and its bell by being watched.
        pub(crate) fn of(runtime: &tokio::runtime::Runtime) -> Option<RuntimeDescriptors> {
            let _context = runtime.enter();
            let socket = tokio::net::UnixDatagram::unbound().ok()?;
            let known = socket.as_raw_fd();
            let near = || (HIGH..=known + 8).filter(|fd| *fd != known);
            let watches = |fd: &RawFd| tell(*fd, libc::EPOLL_CTL_MOD, known, 0).is_ok();
            let polls: Vec<_> = near().filter(watches).collect();
            let polls: [RawFd; 2] = polls.try_into().ok()?;
            let is_watched = |fd: &RawFd| match tell(polls[0], libc::EPOLL_CTL_ADD, *fd, 0) {
                Ok(()) => {
                    let _ = tell(polls[0], libc::EPOLL_CTL_DEL, *fd, 0);
                    false
                }
                Err(error) => error.kind() == io::ErrorKind::AlreadyExists,
            };
            let mut bells = near().filter(|fd| !polls.contains(fd)).filter(is_watched);
            match (bells.next(), bells.next()) {
                (Some(bell), None) => Some(RuntimeDescriptors { polls, bell }),
                _ => None,
            }
        }

        /// Puts others in their places, where the program has closed them and has nothing there.
        pub(crate) fn put_back(&self) -> bool {
            let made = epoll().and_then(|poll| Ok((poll, eventfd()?)));
            let Ok((poll, bell)) = made else { return false };
            let [first, second] = self.polls;
            let back = take_place(&poll, first)
                && take_place(&poll, second)
                && take_place(&bell, self.bell);
            // As tokio has it.
            let events = libc::EPOLLIN | libc::EPOLLET;
            back && tell(first, libc::EPOLL_CTL_ADD, self.bell, events).is_ok()
        }
    }

    /// Has the number lead to the same as `fd`, for ever, if it leads nowhere.
    fn take_place(fd: &OwnedFd, number: RawFd) -> bool {
        // SAFETY: makes the lowest descriptor from that number on that is free.
        let made = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, number) };
        if made > number {
            // SAFETY: it was made above and is not shared.
            drop(unsafe { OwnedFd::from_raw_fd(made) });
        }
        made == number
    }

    /// How many sockets are looked at in one system call.
    const AT_ONCE: usize = 32;

    /// See the [module documentation](super).
    pub(crate) struct Sockets {
        /// Watches the sockets.
        inner: OwnedFd,
        /// Watches `inner` while it is armed. Event loops watch this one: a loop that watched
        /// `inner` could not be kept from it without its own doing.
        outer: OwnedFd,
        armed: AtomicBool,
        /// Stands in `inner` to no other end than to be found there; none where that is no use.
        mark: Option<OwnedFd>,
        /// When they were last seen to be whole, in nanoseconds of the system's clock.
        seen: AtomicU64,
    }

    /// So long what was seen counts: a look is a system call, and an acquire would have several.
    /// What happens meanwhile is seen by the errors that it leads to.
    const COUNTS_FOR: u64 = 1_000_000;

    impl Sockets {
        pub(crate) fn new() -> io::Result<Sockets> {
            let (inner, outer) = (epoll()?, epoll()?);
            control(&outer, libc::EPOLL_CTL_ADD, inner.as_raw_fd(), 0)?;
            let mut sockets = Sockets {
                inner,
                outer,
                armed: AtomicBool::new(false),
                mark: eventfd().ok(),
                seen: AtomicU64::new(0),
            };
            if let Some(mark) = &sockets.mark {
                let _ = control(&sockets.inner, libc::EPOLL_CTL_ADD, mark.as_raw_fd(), 0);
            }
            if !sockets.are_whole_now() {
                sockets.mark = None;
            }
            Ok(sockets)
        }

        /// Whether these descriptors, and with them those of the runtime, are still its own: a
        /// program that becomes a daemon may close all that it finds, and open others under
        /// their numbers. Or whether they were a moment ago.
        pub(crate) fn are_whole(&self) -> bool {
            let now = system_now().0;
            if now.saturating_sub(self.seen.load(Ordering::Relaxed)) < COUNTS_FOR {
                return true;
            }
            let whole = self.are_whole_now();
            if whole {
                self.seen.store(now, Ordering::Relaxed);
            }
            whole
        }

        /// The same at this moment.
        pub(crate) fn are_whole_now(&self) -> bool {
            let Some(mark) = &self.mark else { return true };
            control(&self.inner, libc::EPOLL_CTL_MOD, mark.as_raw_fd(), 0).is_ok()
        }

        /// Watches a socket until it is closed.
        pub(crate) fn watch(&self, socket: &SockRef) {
            // A socket that is not watched is read by the I/O thread, a breath later.
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

        /// An event loop drives, and is to hear what comes.
        pub(crate) fn arm(&self) {
            if !self.armed.swap(true, Ordering::Relaxed) {
                let inner = self.inner.as_raw_fd();
                let _ = control(&self.outer, libc::EPOLL_CTL_MOD, inner, libc::EPOLLIN);
            }
        }

        /// The I/O thread drives, or a blocking caller: a loop that heard of it would find the
        /// wheel taken, and hear of it again.
        pub(crate) fn disarm(&self) {
            if self.armed.swap(false, Ordering::Relaxed) {
                let inner = self.inner.as_raw_fd();
                let _ = control(&self.outer, libc::EPOLL_CTL_MOD, inner, 0);
            }
        }

        /// Takes what has come as heard: the loop hears only of what comes from now on. A socket that is read to its end
        /// needs no such call.
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
            // Edge-triggered: what was reported is not reported again.
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
            // SAFETY: it was made above and is not shared.
            fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        }
    }

    fn eventfd() -> io::Result<OwnedFd> {
        // SAFETY: no pointer is passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        match fd {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: it was made above and is not shared.
            fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        }
    }

    fn control(epoll: &OwnedFd, what: i32, fd: RawFd, events: i32) -> io::Result<()> {
        tell(epoll.as_raw_fd(), what, fd, events)
    }

    fn tell(epoll: RawFd, what: i32, fd: RawFd, events: i32) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: 0,
        };
        // SAFETY: `event` lives until the call returns.
        match unsafe { libc::epoll_ctl(epoll, what, fd, &mut event) } {
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
            // Nothing has read it: it is not reported again.
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
