//! Virtual time, tasks, and streams between clients and servers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use quorlock::sim::probe::link::{Bytes, DialFuture, LinkTask};
use quorlock::sim::{Clock, Instant, Sleep};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::servers::{Cluster, Fault};
use crate::death;
use crate::random::Random;
use crate::server::Session;

/// True time, in ns since the start.
pub type Time = u64;
/// One millisecond.
pub const MS: Time = 1_000_000;
/// What client clocks show at the start.
const START: u64 = 1_000_000_000_000;
/// No more polls are needed between two events.
const POLLS_BOUND: u32 = 20_000;
/// A schedule has no more events than this.
const EVENTS_BOUND: u64 = 300_000;

/// How the network behaves in a schedule.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Shortest time one way.
    pub base: Time,
    /// Percent of messages that take long,
    pub slow: u64,
    /// and how long at most.
    pub tail: Time,
    /// Thousandths of messages that break their connection.
    pub cut: u64,
}

/// The whole of it. A schedule runs on one thread.
pub struct World {
    inner: Mutex<Inner>,
    /// With their wakers, each of which is known by being the same, and whether they are the
    /// client's own.
    tasks: Mutex<Vec<Option<(LinkTask, Waker, bool)>>>,
    ready: Arc<Mutex<VecDeque<usize>>>,
}

/// What is behind the lock.
pub struct Inner {
    /// Now.
    pub time: Time,
    /// The nodes.
    pub clusters: Vec<Cluster>,
    /// What is drawn from.
    pub random: Random,
    /// The network.
    pub network: Network,
    /// All connections.
    pub wires: Vec<Wire>,
    /// Nothing is lost, so that no hash slot has to be marked.
    pub keeps: bool,
    /// What was wrong first.
    pub violation: Option<String>,
    /// How many events there were.
    pub events: u64,
    /// What happened, where that is written down.
    pub lines: Option<Vec<String>>,
    order: u64,
    queue: BinaryHeap<Reverse<(Time, u64)>>,
    due: std::collections::BTreeMap<u64, Event>,
}

/// A connection.
pub struct Wire {
    /// The cluster,
    pub cluster: usize,
    /// and its server.
    pub server: usize,
    /// What the server knows of it.
    pub session: Session,
    /// The next command may be carried out where its hash slot is moved to.
    pub asking: bool,
    /// On what it listens.
    pub inbox: Option<Arc<[u8]>>,
    /// The server knows nothing of it any more.
    pub dead: bool,
    incoming: VecDeque<u8>,
    reader: Option<Waker>,
    /// It has ended for the client.
    ended: bool,
    forth_until: Time,
    back_until: Time,
}

/// What happens at a time.
pub enum Event {
    /// Somebody waits for it.
    Wake(Waker),
    /// Bytes reach a server.
    Forth(usize, Vec<u8>),
    /// Bytes reach a client.
    Back(usize, Vec<u8>),
    /// A client finds its connection broken.
    Ends(usize),
    /// A server finds a connection closed.
    Closed(usize),
    /// Something goes wrong with a cluster.
    Fault(usize, Fault),
}

struct TaskWaker {
    id: usize,
    ready: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.lock().expect("one thread").push_back(self.id);
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

impl World {
    /// Before the first event.
    pub fn new(clusters: Vec<Cluster>, random: Random, network: Network) -> Arc<World> {
        Arc::new(World {
            inner: Mutex::new(Inner {
                time: 0,
                clusters,
                random,
                network,
                wires: Vec::new(),
                keeps: false,
                violation: None,
                events: 0,
                lines: None,
                order: 0,
                queue: BinaryHeap::new(),
                due: Default::default(),
            }),
            tasks: Mutex::default(),
            ready: Arc::default(),
        })
    }

    /// What is behind the lock.
    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("one thread")
    }

    /// Something was wrong.
    pub fn violated(&self, what: String) {
        self.inner().violation.get_or_insert(what);
    }

    /// Starts a task of a user.
    pub fn spawn(&self, task: LinkTask) {
        self.begin(task, false);
    }

    /// Starts a task of a client's own.
    pub fn spawn_own(&self, task: LinkTask) {
        self.begin(task, true);
    }

    fn begin(&self, task: LinkTask, own: bool) {
        let mut tasks = self.tasks.lock().expect("one thread");
        let (id, ready) = (tasks.len(), self.ready.clone());
        let waker = Waker::from(Arc::new(TaskWaker { id, ready }));
        waker.wake_by_ref();
        tasks.push(Some((task, waker, own)));
    }

    fn run_ready(&self) {
        for polls in 0.. {
            if polls > POLLS_BOUND {
                return self.violated("L5 tasks wake each other forever".into());
            }
            let next = self.ready.lock().expect("one thread").pop_front();
            let Some(id) = next else { return };
            let task = self.tasks.lock().expect("one thread")[id].take();
            let Some((mut task, waker, own)) = task else {
                continue;
            };
            death::polls(own.then_some(id));
            let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
            death::polls(None);
            if polled == Poll::Pending {
                self.tasks.lock().expect("one thread")[id] = Some((task, waker, own));
            }
        }
    }

    /// Lets happen what happens up to a time, or until something is wrong; `judge` looks after
    /// each event.
    pub fn run(self: &Arc<Self>, until: Time, judge: &mut dyn FnMut()) {
        loop {
            self.run_ready();
            judge();
            let mut inner = self.inner();
            if inner.violation.is_some() {
                return;
            }
            let Some(Reverse((at, order))) = inner.queue.peek().copied() else {
                break;
            };
            if at > until {
                break;
            }
            inner.queue.pop();
            inner.time = at;
            inner.events += 1;
            if inner.events > EVENTS_BOUND {
                let what = format!("L5 more than {EVENTS_BOUND} events");
                inner.violation.get_or_insert(what);
                return;
            }
            let event = inner.due.remove(&order).expect("it is due");
            match event {
                Event::Wake(waker) => {
                    drop(inner);
                    waker.wake();
                }
                event => inner.happens(event),
            }
        }
        let mut inner = self.inner();
        inner.time = inner.time.max(until);
    }

    /// Lets go of all that refers to this world.
    pub fn end(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().expect("one thread"));
        drop(tasks);
        let mut inner = self.inner();
        let (due, wires) = (
            std::mem::take(&mut inner.due),
            std::mem::take(&mut inner.wires),
        );
        drop(inner);
        drop((due, wires));
    }

    /// A client's clock.
    pub fn clock(self: &Arc<Self>) -> Arc<dyn Clock> {
        Arc::new(Clocked(self.clone()))
    }

    /// Dials a server of a cluster, by its address.
    pub fn dial(self: &Arc<Self>, cluster: usize, address: &str) -> DialFuture {
        let (world, address) = (self.clone(), address.to_owned());
        Box::pin(async move {
            let (at, wire) = world.inner().dials(cluster, &address);
            until(&world, at).await;
            let wire = wire.ok_or(io::ErrorKind::ConnectionRefused)?;
            Ok(Box::new(Stream { world, wire }) as Box<dyn Bytes>)
        })
    }
}

struct Clocked(Arc<World>);

impl Clock for Clocked {
    fn now(&self) -> Instant {
        Instant(START + self.0.inner().time)
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        Box::pin(until(&self.0, at.0.saturating_sub(START)))
    }
}

/// Ends at a time.
fn until(world: &Arc<World>, at: Time) -> impl Future<Output = ()> + Send + use<> {
    let world = world.clone();
    let mut set = false;
    poll_fn(move |cx| {
        let mut inner = world.inner();
        if inner.time >= at {
            death::slept();
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut set, true) {
            inner.push(at, Event::Wake(cx.waker().clone()));
        }
        drop(inner);
        death::waits();
        Poll::Pending
    })
}

impl Inner {
    /// Something will happen.
    pub fn push(&mut self, at: Time, event: Event) {
        self.order += 1;
        self.queue.push(Reverse((at.max(self.time), self.order)));
        self.due.insert(self.order, event);
    }

    /// Writes down what happens.
    pub fn says(&mut self, what: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            let ms = self.time as f64 / MS as f64;
            lines.push(format!("{ms:12.3} ms  {}", what()));
        }
    }

    /// How long a message is on its way.
    pub fn way(&self) -> Time {
        let Network {
            base, slow, tail, ..
        } = self.network;
        let long = self.random.chance(slow);
        let most = if long { tail.max(base + 1) } else { 2 * base };
        self.random.between(base, most)
    }

    fn dials(&mut self, cluster: usize, address: &str) -> (Time, Option<usize>) {
        let at = self.time + self.way() + self.way();
        let host = address.split(':').next().unwrap_or_default();
        let servers = &self.clusters[cluster].servers;
        let server = servers.iter().position(|server| server.name == host);
        let up = server.filter(|server| servers[*server].is_up(at));
        let wire = up.map(|server| {
            self.wires.push(Wire {
                cluster,
                server,
                session: Session::default(),
                asking: false,
                inbox: None,
                dead: false,
                incoming: VecDeque::new(),
                reader: None,
                ended: false,
                forth_until: at,
                back_until: at,
            });
            self.wires.len() - 1
        });
        (at, wire)
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Wake(_) => {}
            Event::Forth(wire, bytes) => self.arrives(wire, bytes),
            Event::Back(wire, bytes) => {
                let wire = &mut self.wires[wire];
                if !wire.ended {
                    wire.incoming.extend(bytes);
                    wire.reader.take().into_iter().for_each(Waker::wake);
                }
            }
            Event::Ends(wire) => {
                let wire = &mut self.wires[wire];
                wire.ended = true;
                wire.reader.take().into_iter().for_each(Waker::wake);
            }
            Event::Closed(wire) => self.hangs_up(wire),
            Event::Fault(cluster, fault) => self.fails(cluster, fault),
        }
    }

    /// The server lets go of a connection.
    pub fn hangs_up(&mut self, wire: usize) {
        let wire = &mut self.wires[wire];
        wire.dead = true;
        if let Some(inbox) = wire.inbox.take() {
            let server = &mut self.clusters[wire.cluster].servers[wire.server];
            server.unsubscribe(&inbox);
        }
    }

    /// A connection breaks: neither side hears of what is on its way, and the client finds out.
    pub fn breaks(&mut self, wire: usize) {
        if self.wires[wire].dead {
            return;
        }
        self.hangs_up(wire);
        let at = self.time + self.way();
        self.push(at, Event::Ends(wire));
    }

    fn writes(&mut self, wire: usize, bytes: &[u8]) {
        let at = (self.time + self.way()).max(self.wires[wire].forth_until);
        self.wires[wire].forth_until = at;
        if self.random.below(1000) < self.network.cut {
            // It may arrive before.
            if self.random.chance(50) {
                return self.breaks(wire);
            } else {
                self.push(at, Event::Forth(wire, bytes.to_vec()));
                self.push(at, Event::Closed(wire));
                let at = at + self.way();
                return self.push(at, Event::Ends(wire));
            }
        }
        self.push(at, Event::Forth(wire, bytes.to_vec()));
    }

    /// The server writes.
    pub fn answers(&mut self, wire: usize, bytes: Vec<u8>) {
        let at = (self.time + self.way()).max(self.wires[wire].back_until);
        self.wires[wire].back_until = at;
        self.push(at, Event::Back(wire, bytes));
    }
}

/// A client's end of a connection.
struct Stream {
    world: Arc<World>,
    wire: usize,
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut inner = self.world.inner();
        let wire = &mut inner.wires[self.wire];
        if wire.ended {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if wire.incoming.is_empty() {
            wire.reader = Some(cx.waker().clone());
            drop(inner);
            death::waits();
            return Poll::Pending;
        }
        let taken = wire.incoming.len().min(buf.remaining());
        let bytes: Vec<u8> = wire.incoming.drain(..taken).collect();
        buf.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut inner = self.world.inner();
        if inner.wires[self.wire].ended {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        inner.writes(self.wire, buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut inner = self.world.inner();
        if inner.wires.is_empty() {
            return;
        }
        let wire = &mut inner.wires[self.wire];
        wire.ended = true;
        // What was written before arrives before.
        let at = wire.forth_until;
        let at = at.max(inner.time + inner.way());
        inner.push(at, Event::Closed(self.wire));
    }
}
