//! Tells a forked child from its parent, and keeps statics that a fork cannot copy half made.
//!
//! A forked child has the memory of its parent as it stood at that instant, and none of the threads
//! that were changing it. So no static is made or held behind a lock that a child would wait for: a
//! value that is made when it is first asked for is [`LazyValue`], and what is held is [`PerProcess`].

use std::fmt;
use std::ops::Deref;

use once_cell::race::OnceBox;

/// A number that is this process's alone among those that it descends from. Not the id that the system
/// gives: the first process of a container and that of another one in it have the same. An acquire and
/// its release ask for it a dozen times, so it costs no call of the system.
pub fn id() -> u32 {
    #[cfg(target_os = "linux")]
    if let Some(known) = wiped::page() {
        return wiped::number(known);
    }
    std::process::id()
}

/// A page that the kernel gives to every child as zeros, however it was forked.
#[cfg(target_os = "linux")]
mod wiped {
    use std::ptr::{self, NonNull};
    use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

    /// Null before the first call.
    static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
    /// Stands for a page that cannot be had.
    static NONE: AtomicU32 = AtomicU32::new(0);
    /// How many numbers have been given out before. A child goes on from those of its parent.
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    const LENGTH: usize = 4096;

    /// The number that stands in the page, given now if this process has none.
    pub(super) fn number(page: &AtomicU32) -> u32 {
        // A child begins with one thread.
        match page.load(Ordering::Relaxed) {
            0 => {
                let next = GIVEN.fetch_add(1, Ordering::Relaxed) + 1;
                let given = page.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
                given.map_or_else(|anothers| anothers, |_| next)
            }
            known => known,
        }
    }

    /// The start of the page; `None` where there is none.
    pub(super) fn page() -> Option<&'static AtomicU32> {
        let mut page = PAGE.load(Ordering::Acquire);
        if page.is_null() {
            page = first();
        }
        // SAFETY: a static, or a page of zeros that is never unmapped.
        let page = unsafe { &*page };
        (!ptr::eq(page, &NONE)).then_some(page)
    }

    /// Of threads that come here at once all get the page of one.
    #[cold]
    fn first() -> *mut AtomicU32 {
        let mapped = map();
        let page = mapped.map_or((&raw const NONE).cast_mut(), NonNull::as_ptr);
        match PAGE.compare_exchange(ptr::null_mut(), page, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => page,
            Err(anothers) => {
                if let Some(mapped) = mapped {
                    // SAFETY: no other code knows of it.
                    unsafe { libc::munmap(mapped.as_ptr().cast(), LENGTH) };
                }
                anothers
            }
        }
    }

    /// `None` before Linux 4.14.
    fn map() -> Option<NonNull<AtomicU32>> {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: new memory, which no other code knows of.
        unsafe {
            let page = libc::mmap(ptr::null_mut(), LENGTH, access, kind, -1, 0);
            if page == libc::MAP_FAILED {
                return None;
            }
            // An emulator that takes any advice, this nonsense too, follows none.
            let follows = libc::madvise(page, LENGTH, -1) != 0;
            if !follows || libc::madvise(page, LENGTH, libc::MADV_WIPEONFORK) != 0 {
                libc::munmap(page, LENGTH);
                return None;
            }
            NonNull::new(page.cast())
        }
    }
}

/// A value that is made when it is first asked for. A fork finds it made or not begun, where a `LazyLock`
/// that another thread is making would never be done in the child: threads that ask at once each make
/// one, and that of the first is kept.
pub struct LazyValue<T> {
    value: OnceBox<T>,
    make: fn() -> T,
}

impl<T> LazyValue<T> {
    /// A value that `make` is to make.
    pub const fn new(make: fn() -> T) -> LazyValue<T> {
        LazyValue {
            value: OnceBox::new(),
            make,
        }
    }
}

impl<T> Deref for LazyValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.get_or_init(|| Box::new((self.make)()))
    }
}

impl<T> fmt::Debug for LazyValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LazyValue")
    }
}

/// A static of which each process has its own value. Locks in the value that a forked child has
/// inherited may be held by threads that do not exist there.
#[derive(Debug)]
pub struct PerProcess<T>(OnceBox<ProcessValue<T>>);

#[derive(Debug)]
struct ProcessValue<T> {
    process: u32,
    value: T,
    /// That of a child that this process has become by forking. What was
    /// inherited stays, so that no memory is lost.
    next: PerProcess<T>,
}

impl<T: Default> PerProcess<T> {
    #[allow(clippy::new_without_default, reason = "only for statics")]
    /// A static that no process has used.
    pub const fn new() -> PerProcess<T> {
        PerProcess(OnceBox::new())
    }

    /// The value of this process.
    pub fn get(&self) -> &T {
        let here = id();
        let made = self.0.get_or_init(|| {
            Box::new(ProcessValue {
                process: here,
                value: T::default(),
                next: PerProcess::new(),
            })
        });
        if made.process == here {
            &made.value
        } else {
            made.next.get()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_its_own() {
        let one = PerProcess::<String>::new();
        assert!(std::ptr::eq(one.get(), one.get()));
        // As a forked child finds it.
        let inherited = PerProcess(OnceBox::new());
        let parents = ProcessValue {
            process: 0,
            value: "parent".to_owned(),
            next: PerProcess::new(),
        };
        inherited.0.set(Box::new(parents)).unwrap();
        assert_eq!(inherited.get(), "");
        assert!(std::ptr::eq(inherited.get(), inherited.get()));
    }
}

#[cfg(all(test, unix))]
mod forked {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    /// Whether `check` holds in a forked child that gets no more than 30 s for it.
    fn holds_in_a_child(check: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child calls nothing but what may be called there.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(30);
                libc::_exit(i32::from(!check()));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            status == 0
        }
    }

    #[test]
    fn a_forked_child_is_another_process() {
        let here = id();
        assert!(holds_in_a_child(|| {
            let child = id();
            let grandchild = || holds_in_a_child(|| id() != here && id() != child);
            child != here && grandchild() && child == id()
        }));
        assert_eq!(here, id());
    }

    /// In a container, and in one within it, the first process is 1.
    #[cfg(target_os = "linux")]
    #[test]
    fn processes_are_told_apart_by_no_id_of_the_system() {
        let page = std::sync::atomic::AtomicU32::new(0);
        let numbers = [(); 2].map(|()| {
            page.store(0, std::sync::atomic::Ordering::Relaxed);
            wiped::number(&page)
        });
        assert_ne!(numbers[0], numbers[1]);
    }

    #[test]
    fn threads_that_come_first_are_of_one_process() {
        let ids: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(id)).collect();
            threads.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|one| *one == id()));
    }

    #[test]
    fn a_child_makes_what_another_thread_was_making() {
        static BEGUN: Barrier = Barrier::new(2);
        static FORKED: Barrier = Barrier::new(2);
        static PARENT: LazyValue<u32> = LazyValue::new(id);
        static TEXT: LazyValue<String> = LazyValue::new(|| {
            if id() == *PARENT {
                BEGUN.wait();
                FORKED.wait();
            }
            "made".to_owned()
        });
        assert_eq!(*PARENT, id());
        let maker = thread::spawn(|| TEXT.len());
        BEGUN.wait();
        assert!(holds_in_a_child(|| *TEXT == "made"));
        FORKED.wait();
        assert_eq!(maker.join().unwrap(), 4);
    }
}
