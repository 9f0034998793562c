//! Which server of a cluster serves which hash slots, as one of its servers says.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use redis::Value as Resp;

use crate::foreign;
use crate::node::address::{Endpoint, shown};
use crate::node::hash_slot::SLOTS;
use crate::node::redis::replies::text;

/// A shard: a primary, and the hash slots that it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(crate) primary: Endpoint,
}

/// Reads the answer to `CLUSTER SLOTS` of the server at `asked`, which calls itself by no name
/// where it knows none; or says why it is none. No two of the ranges have a hash slot in common.
/// Replicas are left out: nothing is asked of them.
pub(crate) fn read(answer: &Resp, asked: &Endpoint) -> Result<Vec<Range>, String> {
    let spans = spans(answer)?;
    let ranges: Vec<Range> = spans
        .iter()
        .map(|span| one(span, asked))
        .collect::<Result<_, _>>()?;
    let mut primaries: Vec<_> = ranges.iter().map(|range| shown(&range.primary)).collect();
    primaries.sort_unstable();
    primaries.dedup();
    if primaries.len() > PRIMARIES {
        return Err(none(&format!("it has more than {PRIMARIES} primaries")));
    }
    Ok(ranges)
}

/// How many primaries a cluster has at most: four times as many as are advised. Each costs memory.
pub(crate) const PRIMARIES: usize = 4096;

/// The hash slots of one range, and what stands behind them: its servers, the primary first.
type Span<'a> = (RangeInclusive<u16>, &'a [Resp]);

/// The ranges of a map, if each is one, and no two have a hash slot in common.
fn spans(answer: &Resp) -> Result<Vec<Span<'_>>, String> {
    let Resp::Array(ranges) = answer else {
        return Err(none("it is no list of them"));
    };
    let (mut served, mut spans) = (vec![false; SLOTS], Vec::new());
    for range in ranges {
        let Resp::Array(parts) = range else {
            return Err(none("one of its ranges is no list"));
        };
        let [Resp::Int(first), Resp::Int(last), servers @ ..] = &parts[..] else {
            return Err(none("one of its ranges begins without two numbers"));
        };
        let (first, last) = match (slot(*first), slot(*last)) {
            (Some(from), Some(to)) if (from <= to) => (from, to),
            _ => return Err(none(&format!("there are no hash slots {first} to {last}"))),
        };
        for slot in first..=last {
            let before = std::mem::replace(&mut served[usize::from(slot)], true);
            if before {
                return Err(none(&format!("it has the hash slot {slot} twice")));
            }
        }
        spans.push((first..=last, servers));
    }
    Ok(spans)
}

fn slot(number: i64) -> Option<u16> {
    let slot = u16::try_from(number).ok();
    slot.filter(|slot| usize::from(*slot) < SLOTS)
}

/// The error for an answer to `CLUSTER SLOTS` that is no map.
fn none(why: &str) -> String {
    format!(
        "its map of the hash slots (CLUSTER SLOTS) is none: {why}. Name servers of a Redis or Valkey \
         cluster, and no proxy before them; `redis-cli --cluster check` looks at their maps"
    )
}

fn one((slots, servers): &Span<'_>, asked: &Endpoint) -> Result<Range, String> {
    let unnamed = || {
        let (first, last) = (slots.start(), slots.end());
        none(&format!(
            "it names no server for the hash slots {first} to {last}"
        ))
    };
    let Some(Resp::Array(primary)) = servers.first() else {
        return Err(unnamed());
    };
    let [host, Resp::Int(port), more @ ..] = &primary[..] else {
        return Err(unnamed());
    };
    // Where a server has an address and a name, its settings say which of them comes first; the
    // other stands behind it.
    let host = match host {
        Resp::Nil => named(more).unwrap_or_default(),
        host => text(host),
    };
    let port = u16::try_from(*port).ok();
    let primary = port.and_then(|port| at(&host, port, asked));
    Ok(Range {
        first: *slots.start(),
        last: *slots.end(),
        primary: primary.ok_or_else(unnamed)?,
    })
}

/// The hash slots that the server of that id serves, in order and each once, by the answer to
/// `CLUSTER SLOTS`; or why it is none.
pub(crate) fn own(answer: &Resp, id: &str) -> Result<Vec<u16>, String> {
    let is_own = |(_, servers): &Span<'_>| match servers.first() {
        Some(Resp::Array(primary)) => primary.get(2).is_some_and(|own| text(own) == id),
        _ => false,
    };
    let own = spans(answer)?.into_iter().filter(is_own);
    let mut own: Vec<u16> = own.flat_map(|(slots, _)| slots).collect();
    own.sort_unstable();
    Ok(own)
}

/// The server's name, where the address is left out (`cluster-preferred-endpoint-type`).
fn named(more: &[Resp]) -> Option<String> {
    let [_, Resp::Array(words), ..] = more else {
        return None;
    };
    let words: Vec<_> = words.iter().map(text).collect();
    let pair = words.chunks(2).find(|pair| pair[0] == "hostname")?;
    pair.get(1).cloned()
}

/// The endpoint that a server of a cluster calls `host` and `port`: an empty host is that of
/// the server that says so.
pub(crate) fn at(host: &str, port: u16, asked: &Endpoint) -> Option<Endpoint> {
    let Endpoint::Tcp { host: own, tls, .. } = asked else {
        return None;
    };
    let host = match host {
        "" | "?" => own.clone(),
        host => foreign::host(host)?,
    };
    Some(Endpoint::Tcp {
        host,
        port,
        tls: *tls,
    })
}

/// The names that servers have in the answer to `CLUSTER NODES`.
pub(crate) fn ids(nodes: &str) -> Vec<String> {
    let names = nodes.lines().filter_map(|line| line.split(' ').next());
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The hash slots that are being moved to the server that answered `CLUSTER NODES` so, in order
/// and each once.
pub(crate) fn arriving(nodes: &str) -> Vec<u16> {
    moving(nodes, "-<-")
}

/// Reads the hash slots that are being moved away.
pub(crate) fn leaving(nodes: &str) -> Vec<u16> {
    moving(nodes, "->-")
}

/// Reads the hash slots on the move: `[93-<-ID]` arrives, `[93->-ID]` leaves.
fn moving(nodes: &str, way: &str) -> Vec<u16> {
    let mut own = nodes.lines().filter(|line| {
        let flags = line.split(' ').nth(2).unwrap_or_default();
        flags.split(',').any(|flag| flag == "myself")
    });
    let words = own.next().unwrap_or_default().split(' ').skip(8);
    let moving = words.filter_map(|word| word.strip_prefix('[')?.split_once(way));
    let slots = moving.filter_map(|(number, _)| slot(number.parse().ok()?));
    BTreeSet::from_iter(slots).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use redis::parse_redis_value;

    fn tcp(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp {
            host: host.into(),
            port,
            tls: true,
        }
    }

    #[test]
    fn a_cluster_has_so_many_primaries() {
        let map = |many: usize| {
            let one = |n: usize| format!("*3\r\n:{n}\r\n:{n}\r\n*2\r\n$1\r\nh\r\n:{}\r\n", n + 1);
            let all: String = (0..many).map(one).collect();
            let map = parse_redis_value(format!("*{many}\r\n{all}").as_bytes()).unwrap();
            read(&map, &tcp("a", 1))
        };
        assert_eq!(map(PRIMARIES).map(|ranges| ranges.len()), Ok(PRIMARIES));
        assert!(
            map(PRIMARIES + 1)
                .unwrap_err()
                .contains("more than 4096 primaries")
        );
    }

    #[test]
    fn what_is_being_moved_here_is_read_and_nothing_else() {
        let nodes = "a1 10.0.0.2:6379@16379,host master - 0 7 2 connected 0-92 [4->-b2]\n\
                     b2 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 94-100 200 \
                     [16383-<-a1] [93-<-a1] [95->-a1] [93-<-a1] [16384-<-a1] [-1-<-a1]\n";
        assert_eq!(arriving(nodes), [93, 16_383]);
        assert_eq!(leaving(nodes), [95]);
        assert_eq!(ids(nodes), ["a1", "b2"]);
        let alone = "b2 :6379@16379 myself,master - 0 0 1 connected 0-16383\n";
        assert!(arriving(alone).is_empty());
        let other = "a1 10.0.0.2:6379@16379 master - 0 7 2 connected [4-<-b2]\n";
        assert!(arriving(other).is_empty());
        assert!(arriving("").is_empty());
    }

    #[test]
    fn slots_are_read_with_the_names_of_their_primaries() {
        let answer = "*3\r\n\
             *4\r\n:0\r\n:5460\r\n*3\r\n$8\r\n10.0.0.1\r\n:7000\r\n$1\r\na\r\n*3\r\n$8\r\n10.0.0.4\r\n:7003\r\n$1\r\nd\r\n\
             *3\r\n:5461\r\n:10922\r\n*3\r\n$0\r\n\r\n:7001\r\n$1\r\nb\r\n\
             *3\r\n:10923\r\n:16383\r\n*4\r\n$-1\r\n:7002\r\n$1\r\nc\r\n*2\r\n$8\r\nhostname\r\n$3\r\nh.c\r\n";
        let answer = parse_redis_value(answer.as_bytes()).unwrap();
        let range = |first, last, primary| Range {
            first,
            last,
            primary,
        };
        assert_eq!(
            read(&answer, &tcp("asked", 1)).unwrap(),
            [
                range(0, 5460, tcp("10.0.0.1", 7000)),
                range(5461, 10922, tcp("asked", 7001)),
                range(10923, 16383, tcp("h.c", 7002)),
            ]
        );
    }

    /// Where a range's primary is, and its id: that of the server that is asked about its own.
    const OWN: &str = "*3\r\n$1\r\nh\r\n:1\r\n$1\r\na\r\n";

    /// A map with these ranges, each written as its two hash slots.
    fn map(ranges: &[(i64, i64)]) -> Resp {
        let range = |(first, last)| format!("*3\r\n:{first}\r\n:{last}\r\n{OWN}");
        let ranges: Vec<_> = ranges.iter().map(|span| range(*span)).collect();
        let answer = format!("*{}\r\n{}", ranges.len(), ranges.concat());
        parse_redis_value(answer.as_bytes()).unwrap()
    }

    #[test]
    fn what_is_no_map_is_refused_in_words() {
        for (wrong, why) in [
            (Resp::Okay, "no list of them"),
            (
                Resp::Array(vec![Resp::Int(0)]),
                "one of its ranges is no list",
            ),
            (
                Resp::Array(vec![Resp::Array(vec![Resp::Int(0)])]),
                "begins without two numbers",
            ),
            (
                Resp::Array(vec![Resp::Array(vec![Resp::Int(0), Resp::Int(7)])]),
                "names no server for the hash slots 0 to 7",
            ),
            (map(&[(16_383, 1)]), "there are no hash slots 16383 to 1"),
            (map(&[(0, 16_384)]), "there are no hash slots 0 to 16384"),
            (map(&[(-1, 5)]), "there are no hash slots -1 to 5"),
            (
                map(&[(0, 5), (7, 9), (5, 6)]),
                "it has the hash slot 5 twice",
            ),
        ] {
            let said = read(&wrong, &tcp("asked", 1)).unwrap_err();
            assert!(said.contains(why), "{said}");
            assert!(said.starts_with("its map of the hash slots"), "{said}");
        }
        // A map without a range names no server.
        assert_eq!(read(&map(&[]), &tcp("asked", 1)), Ok(Vec::new()));
        assert_eq!(own(&map(&[]), "a"), Ok(Vec::new()));
        assert_eq!(own(&map(&[(7, 9), (0, 1)]), "a"), Ok(vec![0, 1, 7, 8, 9]));
        assert_eq!(own(&map(&[(7, 9), (0, 1)]), "b"), Ok(Vec::new()));
        assert!(own(&map(&[(9, 7)]), "a").is_err());
    }

    /// A number about where hash slots end, or any.
    fn edge() -> impl Strategy<Value = i64> {
        prop_oneof![
            -2..20_i64,
            16_370..16_390_i64,
            65_530..65_540_i64,
            any::<i64>()
        ]
    }

    /// What a server may answer.
    fn answer() -> impl Strategy<Value = Resp> {
        let leaf = prop_oneof![
            edge().prop_map(Resp::Int),
            Just(Resp::Nil),
            "[a-z.]{0,3}".prop_map(|s| Resp::BulkString(s.into())),
        ];
        leaf.prop_recursive(4, 60, 6, |inner| {
            prop_oneof![
                3 => prop::collection::vec(inner.clone(), 0..6).prop_map(Resp::Array),
                1 => (edge(), edge(), inner.clone())
                    .prop_map(|(first, last, primary)| Resp::Array(vec![
                        Resp::Int(first),
                        Resp::Int(last),
                        Resp::Array(vec![primary, Resp::Int(first), Resp::BulkString(b"a".into())]),
                    ])),
            ]
        })
    }

    /// Checks what a reader of the map relies on: each hash slot is served by one server at most.
    fn sound(ranges: &[Range]) {
        let mut served = vec![false; SLOTS];
        for range in ranges {
            let served = &mut served[usize::from(range.first)..=usize::from(range.last)];
            assert!(!served.contains(&true), "{range:?}");
            served.fill(true);
        }
    }

    proptest! {
        #[test]
        fn any_map_is_taken_or_refused(
            spans in prop::collection::vec((edge(), edge()), 0..6),
            any in answer(),
        ) {
            for answer in [map(&spans), any] {
                let asked = tcp("asked", 1);
                sound(&read(&answer, &asked).unwrap_or_default());
                let own = own(&answer, "a").unwrap_or_default();
                prop_assert!(own.is_sorted_by(|one, next| one < next));
                prop_assert!(own.iter().all(|slot| usize::from(*slot) < SLOTS));
            }
        }

        #[test]
        fn whatever_is_being_moved_has_hash_slots(nodes in "([0-9a-z,-]{1,9} ){2}(myself|,){1,2} ([0-9-]{1,6} ){5}(\\[-?[0-9]{1,6}-<-a\\] ){0,4}") {
            let arriving = arriving(&nodes);
            prop_assert!(arriving.is_sorted_by(|one, next| one < next));
            prop_assert!(arriving.iter().all(|slot| usize::from(*slot) < SLOTS));
        }
    }
}
