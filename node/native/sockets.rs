//! How an event loop of Node drives the I/O itself while one operation is under way: libuv
//! watches the descriptor of [`Steps`].
//!
//! libuv is the host's, which need not have it: its functions are looked up at run time, and
//! where one is missing the I/O thread does it all.

use quorlock::binding::Steps;

/// Has the loop of this environment drive; `None` where it cannot.
#[cfg(target_os = "linux")]
pub(crate) fn watched(env: napi::sys::napi_env) -> Option<Steps> {
    // Without an I/O thread the call itself fails, and says why.
    let (steps, descriptor) = Steps::new().ok()??;
    // SAFETY: called by JavaScript, on the thread of the environment.
    let watches = unsafe { libuv::watch(env, steps, descriptor) };
    watches.then_some(steps)
}

/// Has the loop of this environment drive; `None` where it cannot.
#[cfg(not(target_os = "linux"))]
pub(crate) fn watched(_env: napi::sys::napi_env) -> Option<Steps> {
    None
}

#[cfg(target_os = "linux")]
mod libuv {
    use std::ffi::{CStr, c_int, c_void};
    use std::mem::transmute_copy;
    use std::ptr::null_mut;
    use std::sync::OnceLock;

    use napi::sys;
    use quorlock::binding::{Steps, caught};

    /// `UV_POLL` of `uv_handle_type`.
    const POLL: c_int = 8;
    /// `UV_READABLE` of `uv_poll_event`.
    const READABLE: c_int = 1;

    type Handle = *mut c_void;
    type OnPoll = extern "C" fn(Handle, c_int, c_int);
    type OnClose = extern "C" fn(Handle);

    /// The functions of libuv that are needed; its ABI has them since 1.19.
    struct Uv {
        handle_size: unsafe extern "C" fn(c_int) -> usize,
        poll_init: unsafe extern "C" fn(*mut sys::uv_loop_s, Handle, c_int) -> c_int,
        poll_start: unsafe extern "C" fn(Handle, c_int, OnPoll) -> c_int,
        set_data: unsafe extern "C" fn(Handle, *mut c_void),
        get_data: unsafe extern "C" fn(Handle) -> *mut c_void,
        unref: unsafe extern "C" fn(Handle),
        close: unsafe extern "C" fn(Handle, OnClose),
    }

    impl Uv {
        fn get() -> Option<&'static Uv> {
            static FOUND: OnceLock<Option<Uv>> = OnceLock::new();
            // SAFETY: each has its type in `uv.h`.
            let find = || unsafe {
                Some(Uv {
                    handle_size: function(c"uv_handle_size")?,
                    poll_init: function(c"uv_poll_init")?,
                    poll_start: function(c"uv_poll_start")?,
                    set_data: function(c"uv_handle_set_data")?,
                    get_data: function(c"uv_handle_get_data")?,
                    unref: function(c"uv_unref")?,
                    close: function(c"uv_close")?,
                })
            };
            FOUND.get_or_init(find).as_ref()
        }
    }

    /// A function of the process by its name.
    ///
    /// # Safety
    ///
    /// `F` is the type of a pointer to it.
    unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
        // SAFETY: the name ends with a null.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        // SAFETY: pointers to functions are as large as others here, and `F` is one.
        (!found.is_null()).then(|| unsafe { transmute_copy(&found) })
    }

    /// What belongs to a handle, until it is closed.
    struct Watch {
        uv: &'static Uv,
        steps: Steps,
        handle: Handle,
        /// Keeps the environment from ending before the handle is closed.
        hook: sys::napi_async_cleanup_hook_handle,
    }

    /// Whether the loop of this environment now steps whenever the descriptor is readable.
    ///
    /// # Safety
    ///
    /// On the thread of the environment, which lives.
    pub(super) unsafe fn watch(env: sys::napi_env, steps: Steps, descriptor: c_int) -> bool {
        let Some(uv) = Uv::get() else {
            return false;
        };
        let mut event_loop = null_mut();
        // SAFETY: the environment lives.
        let got = unsafe { sys::napi_get_uv_event_loop(env, &mut event_loop) };
        if got != sys::Status::napi_ok {
            return false;
        }
        // SAFETY: a handle is plain memory of that size; it is freed when it is closed.
        let handle = unsafe { libc::calloc(1, (uv.handle_size)(POLL)) };
        if handle.is_null() {
            return false;
        }
        // SAFETY: the loop lives, and this is its thread.
        if unsafe { (uv.poll_init)(event_loop, handle, descriptor) } != 0 {
            // SAFETY: it was allocated above, and no loop knows it.
            unsafe { libc::free(handle) };
            return false;
        }
        let watch = Box::into_raw(Box::new(Watch {
            uv,
            steps,
            handle,
            hook: null_mut(),
        }));
        // SAFETY: `watch` lives until the handle is closed, and all is of this thread. What
        // fails is no more than a loop that is told nothing: the I/O thread reads then.
        unsafe {
            (uv.set_data)(handle, watch.cast());
            // It keeps no process alive.
            (uv.unref)(handle);
            (uv.poll_start)(handle, READABLE, step);
            let hook = &raw mut (*watch).hook;
            sys::napi_add_async_cleanup_hook(env, Some(end), watch.cast(), hook);
        }
        true
    }

    extern "C" fn step(handle: Handle, _status: c_int, _events: c_int) {
        let _ = caught(|| {
            // SAFETY: the handle is open, so its data is there.
            let steps = unsafe { data_of(handle).map(|watch| (*watch).steps) };
            if let Some(steps) = steps {
                let _ = steps.step(Vec::new());
            }
        });
    }

    /// The data of a handle.
    ///
    /// # Safety
    ///
    /// The handle is one of [`watch`], and not freed.
    unsafe fn data_of(handle: Handle) -> Option<*mut Watch> {
        let uv = Uv::get()?;
        // SAFETY: as above.
        Some(unsafe { (uv.get_data)(handle) }.cast())
    }

    /// The environment ends.
    unsafe extern "C" fn end(_hook: sys::napi_async_cleanup_hook_handle, watch: *mut c_void) {
        let watch: *mut Watch = watch.cast();
        // SAFETY: it lives until its handle is closed, which happens here and once.
        unsafe { ((*watch).uv.close)((*watch).handle, closed) };
    }

    extern "C" fn closed(handle: Handle) {
        // SAFETY: the handle is closed: nobody else has it or its data any more.
        unsafe {
            if let Some(watch) = data_of(handle) {
                let watch = Box::from_raw(watch);
                sys::napi_remove_async_cleanup_hook(watch.hook);
            }
            libc::free(handle);
        }
    }
}
