//! What nodes send without being asked: it is heard, it comes again after
//! whatever breaks, and without it locks still work.

use std::future::Future;
use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use quorlock::sim::probe::pushes::links;
use quorlock::sim::{Hint, Subscriber};
use quorlock::{Client, ClientBuilder, Level, blocking, set_log_sink};
use quorlock_tests::{Stage, documented_permissions, escaped, nap};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Message(usize, u64),
    Subscribed(usize),
    /// It was asked whether anybody waits, for the subscription is lost.
    Lost(usize),
}
use Event::{Lost, Message, Subscribed};

/// Somebody who waits on all nodes, or nobody.
#[derive(Default)]
struct Notes {
    heard: Mutex<Vec<Event>>,
    waits: bool,
}

impl Notes {
    fn heard(&self) -> MutexGuard<'_, Vec<Event>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until as many of these were heard.
    fn await_all(&self, event: Event, times: usize) {
        for _ in 0..2_000 {
            if self.heard().iter().filter(|e| **e == event).count() >= times {
                return;
            }
            nap(Duration::from_millis(5));
        }
        panic!("no {event:?} × {times}: {:?}", self.heard());
    }

    fn await_one(&self, event: Event) {
        self.await_all(event, 1);
    }
}

impl Subscriber for Notes {
    fn on_message(&self, node: usize, hint: Hint) {
        self.heard().push(Message(node, hint.number));
    }
    fn on_subscribed(&self, node: usize) {
        self.heard().push(Subscribed(node));
    }
    fn is_awaited(&self, node: usize) -> bool {
        let mut heard = self.heard();
        let known = |event: &&Event| [Subscribed(node), Lost(node)].contains(event);
        if heard.iter().rev().find(known) == Some(&Subscribed(node)) {
            heard.push(Lost(node));
        }
        self.waits
    }
}

/// A client that listens.
fn listening(builder: ClientBuilder, waits: bool) -> (Client, Arc<Notes>) {
    let client = builder.build().expect("a client");
    let notes = Arc::new(Notes {
        waits,
        ..Notes::default()
    });
    for link in links(&client) {
        link.subscribe(notes.clone());
    }
    (client, notes)
}

/// Waits until nothing of a client keeps what it told.
fn nobody_else_holds(notes: &Arc<Notes>) {
    for _ in 0..1_000 {
        if Arc::strong_count(notes) == 1 {
            return;
        }
        nap(Duration::from_millis(5));
    }
    panic!("{} hold it", Arc::strong_count(notes));
}

fn cycle(client: &Client) {
    let lease = blocking::wait(client.lock("k").acquire()).expect("acquired");
    assert!(blocking::wait(lease.release()).expect("released"), "held");
}

/// The names of the inboxes that are subscribed on a node.
fn inboxes(stage: &Stage, node: usize) -> String {
    stage.tell(&format!("redis {node} PUBSUB CHANNELS {}", escaped("*")))
}

/// A message as the scripts send it, but by somebody else.
fn publish(stage: &Stage, node: usize, inbox: &str, text: &str) {
    stage.tell(&format!(
        "redis {node} PUBLISH {} {}",
        escaped(inbox),
        escaped(text)
    ));
}

#[test]
fn a_message_is_heard() {
    let stage = Stage::new(2);
    let (client, notes) = listening(Client::builder().nodes(&stage.nodes), true);
    assert_eq!(inboxes(&stage, 1), "", "nothing is connected yet");
    cycle(&client);
    notes.await_one(Subscribed(0));
    notes.await_one(Subscribed(1));
    let inbox = inboxes(&stage, 1);
    let id = inbox.strip_prefix("lock:#in:").expect("in the namespace");
    assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()));
    assert_eq!(inboxes(&stage, 2), inbox, "one for all nodes");

    publish(&stage, 1, &inbox, "42");
    publish(&stage, 2, &inbox, "18446744073709551615");
    notes.await_one(Message(0, 42));
    notes.await_one(Message(1, u64::MAX));

    // Another client has another.
    let (other, others) = listening(Client::builder().nodes(&stage.nodes), true);
    cycle(&other);
    publish(&stage, 1, &inbox, "43");
    notes.await_one(Message(0, 43));
    assert!(!others.heard().contains(&Message(0, 43)));
    assert_eq!(links(&other)[0].stray(), 0);

    blocking::wait(client.close());
    blocking::wait(other.close());
    stage.tell("await all '' 5000 PUBSUB CHANNELS %2A");
    assert!(
        !notes.heard().iter().any(|e| matches!(e, Lost(_))),
        "closed"
    );
    // Nothing keeps it alive.
    drop(client);
    nobody_else_holds(&notes);
}

#[test]
fn messages_between_replies_disturb_nothing() {
    let stage = Stage::new(1);
    // Long, for the connection is not to be doubted on a slow machine.
    let builder = Client::builder()
        .nodes(&stage.nodes)
        .node_timeout(Duration::from_millis(2_500));
    let (client, notes) = listening(builder, true);
    cycle(&client);
    let inbox = inboxes(&stage, 1);
    let many = "for i=1,4000 do redis.call('PUBLISH',ARGV[1],i) end";
    let publish = format!("redis 1 EVAL {} 0 {}", escaped(many), escaped(&inbox));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..10 {
                stage.tell(&publish);
            }
        });
        let heard = || notes.heard().len();
        let cycles = (0..500_000).take_while(|_| heard() < 40_001);
        cycles.for_each(|_| cycle(&client));
    });
    assert_eq!(client.stats().connects, 1);
    let messages: Vec<Event> = notes.heard()[1..].to_vec();
    let sent = (0..10).flat_map(|_| (1..=4_000).map(|i| Message(0, i)));
    assert!(messages.iter().copied().eq(sent), "all, and in order");
    assert_eq!(links(&client)[0].stray(), 0);
    blocking::wait(client.close());
}

#[test]
fn what_no_node_sends_is_counted_and_harmless() {
    let stage = Stage::new(1);
    // Long, for the connection is not to be doubted on a slow machine.
    let builder = Client::builder()
        .nodes(&stage.nodes)
        .node_timeout(Duration::from_millis(2_500));
    let (client, notes) = listening(builder, true);
    cycle(&client);
    let inbox = inboxes(&stage, 1);
    let forged = [
        "",
        "x",
        "-1",
        "+1",
        " 1",
        "1\r\n",
        "18446744073709551616",
        "0x1",
    ];
    for text in forged {
        publish(&stage, 1, &inbox, text);
    }
    let huge = "redis.call('PUBLISH',ARGV[1],string.rep('1',3000000))";
    stage.tell(&format!(
        "redis 1 EVAL {} 0 {}",
        escaped(huge),
        escaped(&inbox)
    ));
    publish(&stage, 1, &inbox, "8");
    notes.await_one(Message(0, 8));
    assert_eq!(links(&client)[0].stray(), forged.len() as u64 + 1);
    assert_eq!(*notes.heard(), [Subscribed(0), Message(0, 8)]);
    cycle(&client);
    assert_eq!(
        client.stats().connects,
        1,
        "none of them cost the connection"
    );
    blocking::wait(client.close());
}

#[test]
fn it_listens_again_after_whatever_breaks() {
    let stage = Stage::new(1);
    let builder = Client::builder().nodes(&stage.nodes).wait(Duration::ZERO);
    let (client, notes) = listening(builder, true);
    cycle(&client);
    let inbox = inboxes(&stage, 1);
    notes.await_one(Subscribed(0));
    let mut times = 1;
    let mut again = |number: u64| {
        times += 1;
        // No request asks for the connection.
        notes.await_all(Subscribed(0), times);
        publish(&stage, 1, &inbox, &number.to_string());
        notes.await_one(Message(0, number));
    };
    stage.tell("redis 1 CLIENT KILL TYPE pubsub");
    again(1);
    stage.tell("kill 1");
    nap(Duration::from_millis(300));
    stage.tell("start 1");
    again(2);
    // A node that hangs puts the connection in doubt.
    stage.tell("stop 1");
    assert!(blocking::wait(client.lock("k").acquire()).is_err());
    stage.tell("cont 1");
    again(3);
    stage.tell("await-free lock:{k} 5000");
    cycle(&client);
    assert_eq!(inboxes(&stage, 1), inbox, "it keeps its name");
    blocking::wait(client.close());
}

#[test]
fn what_the_connection_in_doubt_brings_is_heard() {
    let stage = Stage::new(1);
    let builder = Client::builder().nodes(&stage.nodes).wait(Duration::ZERO);
    let (client, notes) = listening(builder, true);
    cycle(&client);
    let inbox = inboxes(&stage, 1);
    let (_, host) = stage.nodes[0].split_once("//").expect("a URL");
    let mut other = TcpStream::connect(host).expect("connected");
    stage.tell("stop 1");
    assert!(blocking::wait(client.lock("k").acquire()).is_err());
    notes.await_one(Lost(0));
    // The node finds it before it can admit the next connection.
    let message = format!("PUBLISH {inbox} 5\r\n");
    other.write_all(message.as_bytes()).expect("written");
    stage.tell("cont 1");
    notes.await_all(Subscribed(0), 2);
    let expected = [Subscribed(0), Lost(0), Message(0, 5), Subscribed(0)];
    assert_eq!(*notes.heard(), expected);
    blocking::wait(client.close());
}

#[test]
fn a_closed_client_is_told_nothing() {
    let stage = Stage::new(1);
    // So that a release that goes unanswered puts the connection in doubt
    // before the closed client gives up.
    let builder = Client::builder()
        .nodes(&stage.nodes)
        .node_timeout(Duration::from_millis(700));
    let (client, notes) = listening(builder, true);
    cycle(&client);
    notes.await_one(Subscribed(0));
    stage.tell("stop 1");
    let lock = client.lock("k");
    let mut acquire = Box::pin(lock.acquire());
    let mut context = Context::from_waker(Waker::noop());
    assert!(acquire.as_mut().poll(&mut context).is_pending());
    blocking::wait(client.close());
    let heard = notes.heard().clone();
    drop(acquire);
    drop((lock, client));
    nobody_else_holds(&notes);
    // While it was closing, the acquire may have found the node silent, and told that as the
    // close returned.
    let all = notes.heard();
    let more = all.strip_prefix(&heard[..]);
    let late: &[Event] = if heard.contains(&Lost(0)) {
        &[]
    } else {
        &[Lost(0)]
    };
    assert!(
        more.is_some_and(|more| more.is_empty() || more == late),
        "{heard:?}, {all:?}"
    );
}

#[test]
fn a_node_that_is_admitted_anew_is_listened_to_anew() {
    let stage = Stage::new(3);
    // Long, for nothing here may wait for a deadline.
    let builder = Client::builder()
        .nodes(&stage.nodes)
        .node_timeout(Duration::from_millis(2_500));
    let (client, notes) = listening(builder, true);
    cycle(&client);
    notes.await_one(Subscribed(0));
    stage.tell("await-free lock:{k} 5000");
    stage.tell("redis 1 DEL lock:#node");
    let lease = blocking::wait(client.lock("k").acquire()).expect("two of three");
    let start = quorlock_tests::monotonic();
    notes.await_all(Subscribed(0), 2);
    let took = Duration::from_nanos(quorlock_tests::monotonic() - start);
    assert!(took < Duration::from_millis(2_000), "{took:?}");
    blocking::wait(lease.release()).expect("released");
    blocking::wait(client.close());
}

#[test]
fn nobody_connects_for_messages_that_nobody_awaits() {
    let stage = Stage::new(1);
    let (client, notes) = listening(Client::builder().nodes(&stage.nodes), false);
    cycle(&client);
    notes.await_one(Subscribed(0));
    stage.tell("redis 1 CLIENT KILL TYPE pubsub");
    notes.await_one(Lost(0));
    nap(Duration::from_millis(200));
    assert_eq!(*notes.heard(), [Subscribed(0), Lost(0)]);
    // The next request makes it.
    cycle(&client);
    notes.await_all(Subscribed(0), 2);
    blocking::wait(client.close());
}

#[test]
fn listening_costs_a_cycle_nothing() {
    let stage = Stage::new(1);
    // Long, for an attempt that is tried again because the machine stood still would count.
    let builder = Client::builder()
        .nodes(&stage.nodes)
        .node_timeout(Duration::from_millis(2_500));
    let (client, _ear) = listening(builder, true);
    cycle(&client);
    stage.tell("await-free lock:{k} 5000");
    stage.tell("reset-counters");
    for _ in 0..100 {
        cycle(&client);
    }
    stage.tell("expect-calls evalsha 100 100 5000");
    for command in ["publish", "subscribe", "hello", "ping"] {
        stage.tell(&format!("expect-calls {command} 0 0 0"));
    }
    blocking::wait(client.close());
}

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What was said of these nodes: the sink is the process's.
fn said_of(nodes: &[String]) -> Vec<String> {
    let said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let host = |node: &String| {
        node.rsplit(['@', '/'])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let of = |line: &&String| nodes.iter().any(|node| line.contains(&host(node)));
    said.iter().filter(of).cloned().collect()
}

/// Locks work and one warning comes, with these words in it. Returns whether
/// it listens.
fn warns_once(stage: &Stage, words: &[&str]) -> bool {
    set_log_sink(|level, line| {
        if level == Level::Warn {
            SAID.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(line.to_string());
        }
    });
    let before = said_of(&stage.nodes).len();
    let (client, notes) = listening(Client::builder().nodes(&stage.nodes), true);
    cycle(&client);
    for kind in ["normal", "pubsub"] {
        stage.tell(&format!("redis all CLIENT KILL TYPE {kind}"));
        cycle(&client);
        stage.tell("await-free lock:{k} 5000");
    }
    assert!(client.stats().connects > stage.nodes.len() as u64);
    // Warnings come on a thread of their own.
    for _ in 0..500 {
        if said_of(&stage.nodes).len() > before || words.is_empty() {
            break;
        }
        nap(Duration::from_millis(10));
    }
    nap(Duration::from_millis(100));
    let said = said_of(&stage.nodes).split_off(before);
    blocking::wait(client.close());
    let expected = usize::from(!words.is_empty());
    assert_eq!(said.len(), expected, "{said:?}");
    for word in words {
        assert!(said[0].contains(word), "{word}: {said:?}");
    }
    assert_eq!(links(&client).iter().map(|l| l.stray()).sum::<u64>(), 0);
    notes.heard().contains(&Subscribed(0))
}

#[test]
fn without_resp3_locks_work_and_there_is_one_warning() {
    let stage = Stage::like(2, &["resp2"]);
    assert!(!warns_once(&stage, &["RESP3", "ask again and again"]));
}

#[test]
fn without_permissions_locks_work_and_one_warning_names_what_lacks() {
    let stage = Stage::like(2, &["auth"]);
    let line = documented_permissions();
    let mut heard = Vec::new();
    for without in [
        &[][..],
        &["+subscribe"],
        &["+publish"],
        &["&lock:*"],
        &["+subscribe", "+publish"],
    ] {
        let left = line.iter().map(String::as_str);
        stage.permit(left.filter(|word| !without.contains(word)));
        let words: Vec<String> = without.iter().map(|word| format!("`{word}`")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        heard.push(warns_once(&stage, &words));
    }
    assert_eq!(heard, [true, false, true, false, false]);
    // Channels of another namespace are no channels of this one.
    let others = line.iter().map(String::as_str).filter(|w| *w != "&lock:*");
    stage.permit(others.chain(["&other:*"]));
    assert!(!warns_once(&stage, &["`&lock:*`"]));
}
