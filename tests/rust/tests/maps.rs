//! Maps of a cluster as no server of Redis or Valkey sends them, and long ones: a server that is
//! none plays the part.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use quorlock::{Client, Error, Lease, RestartGuard, blocking};
use quorlock_tests::queue::until;
use quorlock_tests::{Stage, at_once};

/// Longer than a long map takes on a busy machine.
const SOON: Duration = Duration::from_secs(5);
/// A call that has not ended by then hangs.
const NEVER: Duration = Duration::from_secs(60);

/// The URL of a cluster of one server, which answers `CLUSTER SLOTS` so and knows no command
/// but `CLUSTER`. It lives as long as its process.
fn cluster(slots: impl Fn(u16) -> String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("bound");
    let slots = slots(at.port());
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let slots = slots.clone();
            thread::spawn(move || play(client, &slots));
        }
    });
    format!("redis+cluster://{at}")
}

fn play(mut client: TcpStream, slots: &str) -> io::Result<()> {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let mut commands = BufReader::new(client.try_clone()?);
    loop {
        let mut words = Vec::new();
        for _ in 0..number(&mut commands)? {
            let mut word = vec![0; number(&mut commands)? + 2];
            commands.read_exact(&mut word)?;
            words.push(String::from_utf8_lossy(&word).trim_end().to_uppercase());
        }
        let id = "a".repeat(40);
        let answer = match &*words.join(" ") {
            "CLUSTER SLOTS" => slots.to_owned(),
            "CLUSTER NODES" => bulk(&format!(
                "{id} 127.0.0.1:1@2 myself,master - 0 0 1 connected 0\n"
            )),
            "CLUSTER INFO" => bulk("cluster_state:ok\r\n"),
            "CLUSTER MYID" => bulk(&id),
            _ => "-ERR only maps are told here\r\n".into(),
        };
        client.write_all(answer.as_bytes())?;
    }
}

/// The number behind the first letter of a line.
fn number(from: &mut impl BufRead) -> io::Result<usize> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let number = line
        .get(1..)
        .and_then(|digits| digits.trim_end().parse().ok());
    number.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// A map with these ranges of hash slots, all of the server at that port.
fn map(ranges: impl Iterator<Item = (i64, i64)>, port: u16) -> String {
    let ranges: Vec<_> = ranges.collect();
    let mut answer = format!("*{}\r\n", ranges.len());
    for (first, last) in ranges {
        let primary = format!(
            "*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$40\r\n{}\r\n",
            "a".repeat(40)
        );
        write!(answer, "*3\r\n:{first}\r\n:{last}\r\n{primary}").expect("to memory");
    }
    answer
}

/// What comes of a call, which has to end.
fn ended(nodes: &[String]) -> Result<Lease, Error> {
    let client = Client::new(nodes).expect("a client");
    let lock = client.lock("a").wait(SOON);
    let (tell, told) = channel();
    thread::spawn(move || tell.send(blocking::wait(lock.acquire())));
    told.recv_timeout(NEVER).expect("the call ends")
}

#[test]
fn a_map_that_is_none_is_refused_and_ends_no_task() {
    let stage = Stage::new(3);
    for (ranges, why) in [
        (vec![(16_383, 1)], "there are no hash slots 16383 to 1"),
        (vec![(0, 16_384)], "there are no hash slots 0 to 16384"),
        (vec![(-1, 9)], "there are no hash slots -1 to 9"),
        (vec![(0, 9), (5, 16_383)], "it has the hash slot 5 twice"),
        (vec![], "no server of the cluster serves a hash slot"),
    ] {
        let none = cluster(|port| map(ranges.iter().copied(), port));
        let error = ended(std::slice::from_ref(&none)).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        // The others are enough.
        let mut nodes = stage.nodes.clone();
        nodes[0] = none;
        let lease = ended(&nodes).unwrap();
        assert!(blocking::wait(lease.release()).unwrap());
    }
}

/// The most ranges that there may be: one for each hash slot.
const MOST: i64 = 16_384;

#[test]
fn the_longest_map_is_read_and_a_longer_one_told() {
    at_once([1024, MOST], |ranges| {
        let each = MOST / ranges;
        let range = |n| (n * each, (n + 1) * each - 1);
        let long = cluster(|port| map((0..ranges).map(range), port));
        let error = ended(&[long]).unwrap_err().to_string();
        assert!(error.contains("only maps are told here"), "{error}");
    });
    // Each range with servers for whose names there is no room.
    let endless = cluster(|port| {
        let map = map((0..MOST).map(|slot| (slot, slot)), port);
        map.replace("127.0.0.1", &"1".repeat(600))
            .replace("$9\r", "$600\r")
    });
    let error = ended(&[endless]).unwrap_err().to_string();
    let why = "its map of the hash slots (CLUSTER SLOTS, CLUSTER NODES) is longer than 8 MiB";
    assert!(error.contains(why), "{error}");
    assert!(error.contains("redis-cli --cluster rebalance"), "{error}");
}

/// Two servers, of which each has every other range of so many hash slots.
#[test]
fn a_cluster_of_many_ranges_is_a_node() {
    for each in [16, 1] {
        let stage = Stage::like(2, &["cluster"]);
        let port = |node: &str| node.rsplit(':').next().expect("a port").to_owned();
        let other = port(&stage.nodes[1]);
        for node in [0, 1] {
            let own = (0..MOST).filter(|slot| slot / each % 2 == node);
            let own: Vec<_> = own.map(|slot| slot.to_string()).collect();
            stage.tell(&format!(
                "redis {} CLUSTER ADDSLOTS {}",
                node + 1,
                own.join(" ")
            ));
        }
        stage.tell("redis 2 CLUSTER SET-CONFIG-EPOCH 2");
        stage.tell(&format!("redis 1 CLUSTER MEET 127.0.0.1 {other}"));
        let up = |node| {
            stage
                .tell(&format!("redis {node} CLUSTER INFO"))
                .contains("cluster_state:ok")
        };
        until("the cluster is up", || up(1) && up(2));
        let url = stage.nodes[0].replace("redis://", "redis+cluster://");
        let guard = RestartGuard::Off;
        let client = Client::builder().nodes([url]).restart_guard(guard).build();
        let client = client.unwrap();
        for name in ["a", "b", "c", "d"] {
            let lease = blocking::wait(client.lock(name).wait(NEVER).acquire()).unwrap();
            assert!(blocking::wait(lease.release()).unwrap());
        }
        assert!(blocking::wait(client.list(None, 10)).is_ok());
    }
}
