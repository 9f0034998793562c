//! Which process this is.

/// The id of this process. An acquire and its release ask for it a
/// dozen times, so the system is asked only once, and once more in a forked child.
pub fn id() -> u32 {
    #[cfg(target_os = "linux")]
    if let Some(known) = wiped::page() {
        return match known.load(wiped::ORDER) {
            0 => {
                let id = std::process::id();
                known.store(id, wiped::ORDER);
                id
            }
            id => id,
        };
    }
    std::process::id()
}

/// A page that the kernel gives to every child as zeros, however it was forked.
#[cfg(target_os = "linux")]
mod wiped {
    use std::ptr;
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

    static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
    static TRIED: AtomicBool = AtomicBool::new(false);
    /// A child begins with one thread.
    pub(super) const ORDER: Ordering = Ordering::Relaxed;
    const LENGTH: usize = 4096;

    /// The start of the page; `None` where there is none, or not yet.
    pub(super) fn page() -> Option<&'static AtomicU32> {
        let mut page = PAGE.load(Ordering::Acquire);
        if page.is_null() && !TRIED.swap(true, Ordering::Relaxed) {
            page = map();
            PAGE.store(page, Ordering::Release);
        }
        // SAFETY: null, or a page of zeros that is never unmapped.
        unsafe { page.as_ref() }
    }

    /// Null before Linux 4.14.
    fn map() -> *mut AtomicU32 {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: new memory, which nobody else knows of.
        unsafe {
            let page = libc::mmap(ptr::null_mut(), LENGTH, access, kind, -1, 0);
            if page == libc::MAP_FAILED {
                return ptr::null_mut();
            }
            // An emulator that takes any advice, this nonsense too, follows none.
            let follows = libc::madvise(page, LENGTH, -1) != 0;
            if !follows || libc::madvise(page, LENGTH, libc::MADV_WIPEONFORK) != 0 {
                libc::munmap(page, LENGTH);
                return ptr::null_mut();
            }
            page.cast()
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_is_another_process() {
        let here = id();
        assert_eq!(here, std::process::id());
        // SAFETY: the child calls nothing but what may be called there.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let known = id() != here && id() == std::process::id();
                libc::_exit(i32::from(!known));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0);
        }
        assert_eq!(here, id());
    }
}
