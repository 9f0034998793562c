//! Which server of a cluster serves which hash slots, as one of its servers says.

use redis::Value as Resp;

use crate::node::address::Endpoint;
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
/// where it knows none; `None` if it is none. Replicas are left out: nothing is asked of them.
pub(crate) fn read(answer: &Resp, asked: &Endpoint) -> Option<Vec<Range>> {
    let Resp::Array(ranges) = answer else {
        return None;
    };
    ranges.iter().map(|range| one(range, asked)).collect()
}

fn one(range: &Resp, asked: &Endpoint) -> Option<Range> {
    let Resp::Array(parts) = range else {
        return None;
    };
    let [Resp::Int(first), Resp::Int(last), Resp::Array(primary), ..] = &parts[..] else {
        return None;
    };
    let [host, Resp::Int(port), more @ ..] = &primary[..] else {
        return None;
    };
    let slot = |number: &i64| {
        let slot = u16::try_from(*number).ok();
        slot.filter(|slot| usize::from(*slot) < SLOTS)
    };
    // Where a server is known by an address and a name, its settings say which is
    // preferred; the other stands behind it.
    let host = match host {
        Resp::Nil => named(more).unwrap_or_default(),
        host => text(host),
    };
    Some(Range {
        first: slot(first)?,
        last: slot(last)?,
        primary: at(&host, u16::try_from(*port).ok()?, asked)?,
    })
}

/// The hash slots that the server of that id serves, in order, by the answer to
/// `CLUSTER SLOTS`; `None` if it is none.
pub(crate) fn own(answer: &Resp, id: &str) -> Option<Vec<u16>> {
    let Resp::Array(ranges) = answer else {
        return None;
    };
    let is_own = |range: &Resp| match range {
        Resp::Array(parts) => match parts.get(2) {
            Some(Resp::Array(primary)) => primary.get(2).is_some_and(|own| text(own) == id),
            _ => false,
        },
        _ => false,
    };
    let slots = |range: &Resp| match range {
        Resp::Array(parts) => match &parts[..] {
            [Resp::Int(first), Resp::Int(last), ..] => {
                Some(u16::try_from(*first).ok()?..=u16::try_from(*last).ok()?)
            }
            _ => None,
        },
        _ => None,
    };
    let own: Option<Vec<_>> = ranges.iter().filter(|r| is_own(r)).map(slots).collect();
    let mut own: Vec<u16> = own?.into_iter().flatten().collect();
    own.sort_unstable();
    Some(own)
}

/// The name behind an address that is not told (`cluster-preferred-endpoint-type`).
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
        host => host.to_owned(),
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

/// The hash slots that are being moved to the server that answered `CLUSTER NODES` so.
pub(crate) fn arriving(nodes: &str) -> Vec<u16> {
    let mut own = nodes.lines().filter(|line| {
        let flags = line.split(' ').nth(2).unwrap_or_default();
        flags.split(',').any(|flag| flag == "myself")
    });
    let words = own.next().unwrap_or_default().split(' ').skip(8);
    // `[93-<-ID]`; those that are moved away are `[93->-ID]`.
    let arriving = words.filter_map(|word| word.strip_prefix('[')?.split_once("-<-"));
    arriving.filter_map(|(slot, _)| slot.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::parse_redis_value;

    fn tcp(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp {
            host: host.into(),
            port,
            tls: true,
        }
    }

    #[test]
    fn what_is_being_moved_here_is_read_and_nothing_else() {
        let nodes = "a1 10.0.0.2:6379@16379,host master - 0 7 2 connected 0-92 [4->-b2]\n\
                     b2 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 94-100 200 \
                     [93-<-a1] [95->-a1] [16383-<-a1]\n";
        assert_eq!(arriving(nodes), [93, 16_383]);
        assert_eq!(ids(nodes), ["a1", "b2"]);
        let alone = "b2 :6379@16379 myself,master - 0 0 1 connected 0-16383\n";
        assert_eq!(arriving(alone), []);
        assert_eq!(
            arriving("a1 10.0.0.2:6379@16379 master - 0 7 2 connected [4-<-b2]\n"),
            []
        );
        assert_eq!(arriving(""), []);
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
        for wrong in [
            "*1\r\n:0\r\n",
            "+OK\r\n",
            "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        ] {
            let wrong = parse_redis_value(wrong.as_bytes()).unwrap();
            assert_eq!(read(&wrong, &tcp("asked", 1)), None);
        }
    }
}
