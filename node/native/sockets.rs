//! How an event loop of Node drives the I/O itself while one operation is under way: libuv
//! watches the descriptor of [`Steps`].
//!
//! What a step completes reaches JavaScript in that step: the bell would be a message of the loop to
//! itself, and another turn of it.
//!
//! libuv is the host's, which need not have it: its functions are looked up at run time, and
//! where one is missing the I/O thread does it all.

use std::rc::Rc;

use napi::Env;
use napi::bindgen_prelude::Function;
use napi_derive::napi;
use quorlock::binding::Steps;

use crate::desk::Desk;
use crate::failure::{Failure, checked};
use crate::port::Port;

#[napi]
impl Port {
    /// Ends a turn of the event loop: submits what it has started.
    #[napi(catch_unwind)]
    pub fn submit(&self, env: &Env) -> Option<Failure> {
        // Not before: a program that only loads the package needs no thread for I/O.
        let watches = || match self.ring.borrow_back(env) {
            Ok(ring) if self.is_node => watched(&ring, env, &self.desk),
            _ => None,
        };
        let steps = self.steps.get_or_init(watches);
        checked(|| match steps {
            Some(steps) if self.desk.running() == 1 => self.turn.end_alone(steps),
            _ => self.turn.end(),
        })
    }
}

/// Has the loop of this environment drive, and call `ring` where the queue has something then; `None`
/// where it cannot.
#[cfg(target_os = "linux")]
pub(crate) fn watched(
    ring: &Function<'_, (), ()>,
    env: &napi::Env,
    desk: &Rc<Desk>,
) -> Option<Steps> {
    use napi::JsValue;

    // Without an I/O thread the call itself fails, and says why.
    let (steps, descriptor) = Steps::new().ok()??;
    // SAFETY: called by JavaScript, on the thread of the environment.
    let watches = unsafe { libuv::watch(env.raw(), steps, descriptor, ring.raw(), desk) };
    watches.then_some(steps)
}

/// Has the loop of this environment drive; `None` where it cannot.
#[cfg(not(target_os = "linux"))]
pub(crate) fn watched(_: &Function<'_, (), ()>, _: &napi::Env, _: &Rc<Desk>) -> Option<Steps> {
    None
}

#[cfg(target_os = "linux")]
mod libuv {
    use std::ffi::{CStr, c_int, c_void};
    use std::mem::transmute_copy;
    use std::ptr::null_mut;
    use std::rc::Rc;
    use std::sync::OnceLock;

    use napi::{Env, JsError, sys};
    use quorlock::binding::{Steps, caught};

    use crate::desk::Desk;
    use crate::events::arguments;

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
        /// Whether the last step has brought nothing.
        idle: bool,
        desk: Rc<Desk>,
        ring: Ring,
        handle: Handle,
        /// Keeps the environment from ending before the handle is closed.
        hook: sys::napi_async_cleanup_hook_handle,
    }

    /// The function of JavaScript that takes what is queued, and how it is called from the loop.
    #[derive(Clone, Copy)]
    struct Ring {
        env: sys::napi_env,
        function: sys::napi_ref,
        /// As whose work async hooks see the call.
        context: sys::napi_async_context,
    }

    impl Ring {
        /// `None` where the environment has no room for it.
        ///
        /// # Safety
        ///
        /// On the thread of the environment, called by JavaScript.
        unsafe fn new(env: sys::napi_env, function: sys::napi_value) -> Option<Ring> {
            let mut ring = Ring {
                env,
                function: null_mut(),
                context: null_mut(),
            };
            let mut name = null_mut();
            // SAFETY: the environment lives, and each pointer leads to a place for what is made.
            unsafe {
                let text = c"quorlock";
                let named = sys::napi_create_string_utf8(env, text.as_ptr(), 8, &mut name);
                is_ok(named).then_some(())?;
                let known = sys::napi_create_reference(env, function, 1, &mut ring.function);
                is_ok(known).then_some(())?;
                let begun = sys::napi_async_init(env, null_mut(), name, &mut ring.context);
                if !is_ok(begun) {
                    sys::napi_delete_reference(env, ring.function);
                    return None;
                }
            }
            Some(ring)
        }

        /// Hands the queued events to the function, and those that follow from them; false where the environment cannot call it.
        ///
        /// # Safety
        ///
        /// On the thread of the environment, which lives, and outside of JavaScript.
        unsafe fn call(self, desk: &Desk) -> bool {
            let env = self.env;
            let (mut scope, mut function, mut global) = (null_mut(), null_mut(), null_mut());
            // SAFETY: as above; values live until the scope is closed.
            unsafe {
                if !is_ok(sys::napi_open_handle_scope(env, &mut scope)) {
                    return false;
                }
                let found = is_ok(sys::napi_get_reference_value(
                    env,
                    self.function,
                    &mut function,
                )) && is_ok(sys::napi_get_global(env, &mut global));
                let called = found && self.call_with(function, global, desk);
                sys::napi_close_handle_scope(env, scope);
                called
            }
        }

        /// # Safety
        ///
        /// As of `call`, within a scope.
        unsafe fn call_with(
            self,
            function: sys::napi_value,
            global: sys::napi_value,
            desk: &Desk,
        ) -> bool {
            let env = Env::from_raw(self.env);
            let news = arguments(&env, desk.news());
            // SAFETY: as above.
            unsafe {
                let (env, none) = (self.env, null_mut());
                let news = match news {
                    Ok(news) => news,
                    Err(error) => {
                        sys::napi_fatal_exception(env, JsError::from(error).into_value(env));
                        return true;
                    }
                };
                if news.is_empty() {
                    return true;
                }
                let (count, first) = (news.len(), news.as_ptr());
                match sys::napi_make_callback(
                    env,
                    self.context,
                    global,
                    function,
                    count,
                    first,
                    none,
                ) {
                    sys::Status::napi_pending_exception => {
                        let mut thrown = null_mut();
                        if is_ok(sys::napi_get_and_clear_last_exception(env, &mut thrown)) {
                            sys::napi_fatal_exception(env, thrown);
                        }
                        true
                    }
                    status => is_ok(status),
                }
            }
        }

        /// # Safety
        ///
        /// On the thread of the environment; it is called no more.
        unsafe fn end(self) {
            // SAFETY: both were made in `new`.
            unsafe {
                sys::napi_async_destroy(self.env, self.context);
                sys::napi_delete_reference(self.env, self.function);
            }
        }
    }

    fn is_ok(status: sys::napi_status) -> bool {
        status == sys::Status::napi_ok
    }

    /// Whether the loop of this environment now steps whenever the descriptor is readable.
    ///
    /// # Safety
    ///
    /// On the thread of the environment, called by JavaScript.
    pub(super) unsafe fn watch(
        env: sys::napi_env,
        steps: Steps,
        descriptor: c_int,
        ring: sys::napi_value,
        desk: &Rc<Desk>,
    ) -> bool {
        let Some(uv) = Uv::get() else {
            return false;
        };
        let mut event_loop = null_mut();
        // SAFETY: the environment lives.
        let got = unsafe { sys::napi_get_uv_event_loop(env, &mut event_loop) };
        if !is_ok(got) {
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
        // SAFETY: as this function.
        let Some(ring) = (unsafe { Ring::new(env, ring) }) else {
            // SAFETY: the handle is open, and has no data.
            unsafe { (uv.close)(handle, closed) };
            return false;
        };
        let watch = Box::into_raw(Box::new(Watch {
            uv,
            steps,
            idle: false,
            desk: desk.clone(),
            ring,
            handle,
            hook: null_mut(),
        }));
        // SAFETY: `watch` lives until the handle is closed, and all is of this thread. What
        // fails is no more than a loop that does not hear of the descriptor: the I/O thread reads then.
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
            let Some(watch) = (unsafe { data_of(handle) }) else {
                return;
            };
            // What JavaScript does may end all that is watched.
            // SAFETY: as above.
            let (steps, desk, ring) =
                unsafe { ((*watch).steps, (*watch).desk.clone(), (*watch).ring) };
            desk.queue.attend();
            // SAFETY: as above.
            if unsafe { (*watch).idle } {
                steps.has_heard();
            }
            let _ = caught(|| steps.step(Vec::new()));
            let any = desk.queue.attended();
            // SAFETY: as above.
            unsafe { (*watch).idle = !any };
            // SAFETY: this is the thread of the environment, and its loop calls.
            if any && !unsafe { ring.call(&desk) } {
                desk.queue.ring();
            }
        });
    }

    /// The data of a handle, if it has any.
    ///
    /// # Safety
    ///
    /// The handle is one of [`watch`], and not freed.
    unsafe fn data_of(handle: Handle) -> Option<*mut Watch> {
        let uv = Uv::get()?;
        // SAFETY: as above.
        let watch: *mut Watch = unsafe { (uv.get_data)(handle) }.cast();
        (!watch.is_null()).then_some(watch)
    }

    /// The environment ends.
    unsafe extern "C" fn end(_hook: sys::napi_async_cleanup_hook_handle, watch: *mut c_void) {
        let watch: *mut Watch = watch.cast();
        // SAFETY: it lives until its handle is closed, which happens here and once.
        unsafe {
            (*watch).ring.end();
            ((*watch).uv.close)((*watch).handle, closed);
        }
    }

    extern "C" fn closed(handle: Handle) {
        // SAFETY: the handle is closed, and nothing else has it or its data.
        unsafe {
            if let Some(watch) = data_of(handle) {
                let watch = Box::from_raw(watch);
                sys::napi_remove_async_cleanup_hook(watch.hook);
            }
            libc::free(handle);
        }
    }
}
