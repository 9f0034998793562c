//! Declares all handles safe to use after a panic that the program caught: their state is locked
//! also after a panic (`mutex.rs`), and no code of ours leaves it torn. Callbacks of the user's in
//! them run on threads of ours, where a panic of theirs ends with the call.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::{
    Client, ClientBuilder, Election, Error, Lease, Leases, Listing, Lock, Locks, Lost, Observer,
};

macro_rules! unwind_safe {
    ($($handle:ty),*) => {$(
        impl UnwindSafe for $handle {}
        impl RefUnwindSafe for $handle {}
    )*};
}

unwind_safe!(
    Client,
    ClientBuilder,
    Election,
    Lease,
    Leases,
    Listing,
    Lock,
    Locks,
    Lost,
    Observer
);

const fn is_unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}
const _: () = is_unwind_safe::<Error>();
