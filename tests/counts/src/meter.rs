//! What is counted, and what is not: callgrind turns its counting on and off where [`counted_part`] and
//! [`uncounted_part`] begin and end, and allocations are counted meanwhile.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether what runs now is counted.
static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// Runs `what`, and counts it.
pub fn counted(mut what: impl FnMut()) {
    counted_part(&mut what);
}

/// Runs a part of what is counted that stands for the network and the nodes.
pub fn uncounted<T>(what: impl FnOnce() -> T) -> T {
    let (mut what, mut done) = (Some(what), None);
    let mut run = || done = what.take().map(|what| what());
    // Outside of what is counted callgrind would begin to count there.
    if COUNTS.load(Ordering::Relaxed) {
        uncounted_part(&mut run);
    } else {
        run();
    }
    done.expect("it has run")
}

// SAFETY: no other function has one of these names, by which callgrind knows them.
#[unsafe(no_mangle)]
#[inline(never)]
fn counted_part(what: &mut dyn FnMut()) {
    COUNTS.store(true, Ordering::Relaxed);
    what();
    COUNTS.store(false, Ordering::Relaxed);
}

// SAFETY: as above.
#[unsafe(no_mangle)]
#[inline(never)]
fn uncounted_part(what: &mut dyn FnMut()) {
    COUNTS.store(false, Ordering::Relaxed);
    what();
    COUNTS.store(true, Ordering::Relaxed);
}

/// How many allocations were counted.
pub fn allocations() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// The allocator of the system, which is what users have, and which counts as it does for them.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

impl Counting {
    fn one_more() {
        if COUNTS.load(Ordering::Relaxed) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// SAFETY: all of it is the allocator of the system.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counting::one_more();
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Counting::one_more();
        // SAFETY: as the caller says.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Counting::one_more();
        // SAFETY: as the caller says.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(at, layout) }
    }
}
