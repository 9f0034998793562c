//! Contenders for one lock, and the history of their holds.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use quorlock::{Lease, Lock};
use tokio::task::JoinHandle;

use crate::measure::{cpu, monotonic};
use crate::words::{Contend, Words};

const TTL: Duration = Duration::from_secs(30);
const WARM_CYCLES: usize = 200;
/// After its time a run waits so long for contenders that have not come back.
const DRAIN: Duration = Duration::from_secs(1);

/// One who acquires and releases.
trait Contender: 'static {
    type Held;
    async fn acquire(&self) -> Option<Self::Held>;
    /// Whether it was held until then.
    async fn release(&self, held: Self::Held) -> bool;
}

impl Contender for Lock {
    type Held = Lease;

    async fn acquire(&self) -> Option<Lease> {
        Lock::acquire(self).await.ok()
    }

    async fn release(&self, lease: Lease) -> bool {
        lease.release().await.unwrap_or(false)
    }
}

struct Rslock {
    manager: Arc<rslock::LockManager>,
    name: Vec<u8>,
}

impl Contender for Rslock {
    type Held = rslock::Lock;

    async fn acquire(&self) -> Option<rslock::Lock> {
        self.manager.lock(&*self.name, TTL).await.ok()
    }

    async fn release(&self, lock: rslock::Lock) -> bool {
        self.manager.unlock(&lock).await;
        true
    }
}

pub(crate) async fn quorlock(words: &Words, contend: &Contend) {
    let builder = words.client().ttl(TTL).on_current_runtime();
    let client = builder.build().expect("settings");
    run(words, contend, |name, number| match contend.slots {
        Some(slots) => client.semaphore(name, slots),
        None => client.lock(name).shared(number < contend.readers),
    })
    .await;
}

pub(crate) async fn rslock(words: &Words, contend: &Contend) {
    let mut manager = rslock::LockManager::new(words.nodes.clone());
    if words.settings == "fast" {
        // At random up to this, and never giving up.
        manager.set_retry(u32::MAX, Duration::from_millis(10));
    }
    let manager = Arc::new(manager);
    run(words, contend, |name, _| Rslock {
        manager: manager.clone(),
        name: name.into_bytes(),
    })
    .await;
}

/// What the contenders of this process have in common.
#[derive(Default)]
struct Contest {
    stay: Duration,
    end: u64,
    /// As handoffs.py reads them: contender, granted, releasing, released.
    holds: RefCell<Vec<[u64; 4]>>,
    failures: Cell<u64>,
}

impl Contest {
    async fn take_part(&self, number: u64, contender: impl Contender) {
        while monotonic() < self.end {
            let Some(held) = contender.acquire().await else {
                self.failures.set(self.failures.get() + 1);
                continue;
            };
            let granted = monotonic();
            let hold = self.holds.borrow().len();
            self.holds.borrow_mut().push([number, granted, 0, 0]);
            if !self.stay.is_zero() && granted < self.end {
                sleep(self.stay).await;
            }
            self.holds.borrow_mut()[hold][2] = monotonic();
            if !contender.release(held).await {
                self.failures.set(self.failures.get() + 1);
            }
            self.holds.borrow_mut()[hold][3] = monotonic();
        }
    }

    fn history(&self) -> Vec<u8> {
        let holds = self.holds.borrow();
        let numbers = holds.iter().flatten();
        numbers.flat_map(|number| number.to_ne_bytes()).collect()
    }
}

async fn run<C: Contender>(words: &Words, contend: &Contend, make: impl Fn(String, usize) -> C) {
    for number in 0..words.workers {
        // Nobody else is at this lock.
        let warm = make(format!("warm-{}-{number}", std::process::id()), number);
        for _ in 0..(WARM_CYCLES / words.workers).max(2) {
            let held = warm.acquire().await.expect("the lock is free");
            warm.release(held).await;
        }
    }
    words.ready_async().await;
    let (began, used) = (monotonic(), cpu());
    let contest = Rc::new(Contest {
        stay: contend.stay,
        end: began + (words.seconds * 1e9) as u64,
        holds: RefCell::new(Vec::with_capacity(1 << 20)),
        ..Contest::default()
    });
    let contenders: Vec<JoinHandle<()>> = (0..words.workers)
        .map(|number| {
            let (contest, contender) = (contest.clone(), make("bench".to_owned(), number));
            tokio::task::spawn_local(async move {
                contest.take_part(number as u64, contender).await;
            })
        })
        .collect();
    sleep(Duration::from_secs_f64(words.seconds)).await;
    let used = cpu() - used;
    let late = drain(contenders).await;
    std::fs::write(&contend.history, contest.history()).expect("the history is written");
    println!(
        "{{\"peer\": \"{}\", \"began\": {began}, \"ended\": {}, \"cpu_ns\": {used}, \"failures\": {}, \"late\": {late}}}",
        words.peer,
        contest.end,
        contest.failures.get(),
    );
    words.end_async().await;
}

/// Waits for contenders to come back, and not forever; how many have not.
async fn drain(contenders: Vec<JoinHandle<()>>) -> usize {
    let end = monotonic() + DRAIN.as_nanos() as u64;
    let late = || contenders.iter().filter(|c| !c.is_finished()).count();
    while late() > 0 && monotonic() < end {
        sleep(Duration::from_millis(1)).await;
    }
    late()
}

#[allow(clippy::disallowed_methods)]
async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}
