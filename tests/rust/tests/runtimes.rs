//! Clients on a runtime of the caller's, which may lack what they need, or end before they do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use quorlock::{Client, Error, ErrorKind, Lease, LossReason, blocking};
use quorlock_tests::Stage;
use quorlock_tests::queue::{PATIENCE, patient, until};
use tokio::runtime::{Builder, Runtime, RuntimeFlavor};
use tokio::time::timeout;

/// Runtimes as `#[tokio::test]` and `#[tokio::main]` make them.
fn runtimes() -> [Runtime; 2] {
    [Builder::new_current_thread(), Builder::new_multi_thread()]
        .map(|mut builder| builder.worker_threads(2).enable_all().build().unwrap())
}

/// A client there of all nodes.
fn client_on(runtime: &Runtime, stage: &Stage) -> Client {
    runtime.block_on(async {
        let client = Client::builder()
            .nodes(stage.nodes.clone())
            .node_timeout(PATIENCE);
        client.on_current_runtime().build().unwrap()
    })
}

/// Within the time that a test has.
#[allow(
    clippy::disallowed_methods,
    reason = "the client has no clock any more"
)]
async fn soon<T>(work: impl Future<Output = T>) -> T {
    timeout(PATIENCE, work).await.expect("it ends")
}

fn assert_free(stage: &Stage, name: &str) {
    blocking::wait(patient(&stage.nodes).lock(name).try_acquire()).unwrap();
}

fn assert_gone<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(error.message().contains("runtime"), "{error}");
}

#[test]
fn what_is_released_right_before_the_runtime_ends_is_released() {
    let stage = Stage::new(3);
    for (number, runtime) in runtimes().into_iter().enumerate() {
        let name = format!("last {number}");
        let client = client_on(&runtime, &stage);
        // As `main` does it: the lease goes, and then the runtime.
        runtime.block_on(async {
            let _lease = client.lock(name.as_str()).acquire().await.unwrap();
        });
        drop(runtime);
        assert_free(&stage, &name);
    }
    for (number, runtime) in runtimes().into_iter().enumerate() {
        let name = format!("unconfirmed {number}");
        let client = client_on(&runtime, &stage);
        runtime.block_on(async {
            let lease = client.lock(name.as_str()).acquire().await.unwrap();
            assert!(lease.release_unconfirmed().unwrap());
        });
        drop(runtime);
        assert_free(&stage, &name);
    }
}

#[test]
fn what_is_held_where_a_panic_ends_the_runtime_is_released() {
    let stage = Stage::new(3);
    for (number, runtime) in runtimes().into_iter().enumerate() {
        let name = format!("panic {number}");
        let client = client_on(&runtime, &stage);
        // As a test that fails does it: lease and runtime go while the thread unwinds.
        let panics = || {
            let runtime = runtime;
            runtime.block_on(async {
                let _lease = client.lock(name.as_str()).acquire().await.unwrap();
                panic!("a test");
            });
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_free(&stage, &name);
    }
}

#[test]
fn a_client_whose_runtime_has_ended_is_closed() {
    let stage = Stage::new(3);
    for (number, runtime) in runtimes().into_iter().enumerate() {
        let name = format!("held {number}");
        let client = client_on(&runtime, &stage);
        let lease: Lease = runtime
            .block_on(client.lock(name.as_str()).acquire())
            .unwrap();
        let (told, hears) = channel();
        let waits = client.lock(name.as_str()).wait(None);
        thread::spawn(move || told.send(blocking::wait(waits.acquire())));
        until("it waits", || client.stats().waiting > 0);
        drop(runtime);
        let waited = hears.recv_timeout(PATIENCE).expect("its wait ends");
        assert_eq!(waited.unwrap_err().kind(), ErrorKind::Closed);
        assert!(!lease.is_held());
        assert_eq!(lease.loss(), Some(LossReason::Closed));
        // What it held goes out with the runtime.
        assert_free(&stage, &name);
        let [another, _] = runtimes();
        another.block_on(async {
            let other = client.lock("other").wait(Duration::from_millis(500));
            assert_gone(soon(other.acquire()).await);
            assert_gone(soon(lease.extend(None)).await);
            assert!(!soon(lease.release()).await.unwrap());
            soon(client.close()).await;
        });
        assert_gone(blocking::wait(client.lock("other").try_acquire()));
    }
}

#[test]
fn a_wait_within_the_clients_own_runtime_is_a_panic_that_says_so() {
    for runtime in runtimes() {
        let client = runtime.block_on(async {
            let client = Client::builder().nodes(["memory://within"]);
            client.on_current_runtime().build().unwrap()
        });
        let lock = client.lock("a");
        let lease = runtime.block_on(lock.acquire()).unwrap();
        let waits = async || {
            let acquires = catch_unwind(AssertUnwindSafe(|| blocking::wait(lock.acquire())));
            let releases = catch_unwind(AssertUnwindSafe(|| blocking::wait(lease.release())));
            [acquires.map(drop).err(), releases.map(drop).err()]
        };
        for panic in runtime.block_on(waits()) {
            let panic = panic.expect("it does not wait");
            let said = panic.downcast_ref::<String>().map_or("", |said| said);
            let said = panic.downcast_ref::<&str>().copied().unwrap_or(said);
            assert!(said.contains("from within a runtime"), "{said}");
        }
        // What goes there waits for nothing: a call that owns what it needs, say.
        let alone = runtime.block_on(async {
            let client = Client::builder().nodes(["memory://alone"]);
            client.on_current_runtime().build().unwrap()
        });
        let last = runtime.block_on(alone.lock("a").acquire()).unwrap();
        let owns = async move {
            assert!(last.is_held());
            alone.lock("b").acquire().await.map(drop)
        };
        runtime.block_on(async {
            catch_unwind(AssertUnwindSafe(|| blocking::wait(owns))).expect_err("it does not wait");
        });
        // On a thread that drives nothing it is as good as anywhere.
        let released = runtime.block_on(async {
            let waits = move || blocking::wait(lease.release());
            tokio::task::spawn_blocking(waits).await.unwrap()
        });
        assert!(released.unwrap());
        // Nor on one that has given its work to another.
        if runtime.handle().runtime_flavor() == RuntimeFlavor::MultiThread {
            let there = lock.clone();
            let waits =
                async move { tokio::task::block_in_place(|| blocking::wait(there.acquire())) };
            let taken = runtime.block_on(async { tokio::spawn(waits).await.unwrap() });
            assert!(blocking::wait(taken.unwrap().release()).unwrap());
        }
        let taken = blocking::wait(lock.acquire()).unwrap();
        assert!(blocking::wait(taken.release()).unwrap());
    }
}

#[test]
fn a_runtime_without_timers_or_io_is_refused() {
    let kinds = [Builder::new_current_thread, Builder::new_multi_thread];
    let lacks = |kind: fn() -> Builder| {
        [
            kind().build(),
            kind().enable_time().build(),
            kind().enable_io().build(),
        ]
    };
    for runtime in kinds.into_iter().flat_map(lacks) {
        let runtime = runtime.unwrap();
        let refused = runtime.block_on(async {
            let client = Client::builder().nodes(["memory://bare"]);
            client.on_current_runtime().build().unwrap_err()
        });
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.message().contains("enable_all()"), "{refused}");
    }
}
