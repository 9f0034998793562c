//! The other users of a server, for people that look: how many clients, keys that end, and whether
//! one client asks for more than all others. The census leaves out what the user may not see.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redis::Value as Resp;

use super::greet::greet;
use super::prepare::namespace;
use super::talk::{exchange_long, within};
use super::target::{ConnectHints, Target};
use crate::foreign;
use crate::node::address::Endpoint;
use crate::node::redis::replies::text;
use crate::node::redis::resp;
use crate::node::redis::wire::Wire;

/// Between two looks at what each client has asked for.
const BETWEEN: Duration = Duration::from_millis(250);

/// What was seen.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Census {
    /// How many clients are connected, and how many may be.
    pub(crate) clients: Option<(u64, u64)>,
    /// How many keys end by themselves.
    pub(crate) ending: Option<u64>,
    /// The client that asks for most: by what name, and for how many commands a second. Servers count
    /// that since Valkey 8.1 and Redis 8.0.
    pub(crate) busiest: Option<(String, u64)>,
}

/// Takes it. A server that does not answer is none that is found here.
pub(super) async fn census(target: &Target, wire: &mut Wire, seen: &mut Census) {
    let clock = &target.gate.clock;
    let info = |section: &str| redis::cmd("INFO").arg(section).take();
    let list = redis::cmd("CLIENT").arg("LIST").take();
    let asked = [info("clients"), info("keyspace"), list.clone()];
    let before = clock.now();
    let Ok(mut replies) = exchange_long(wire, &asked, resp::MAP).await else {
        return;
    };
    let first = replies
        .pop()
        .map(|reply| counts(&text(&reply)))
        .unwrap_or_default();
    let [clients, keys] = [0, 1].map(|at| replies.get(at).map(text).unwrap_or_default());
    seen.clients = number(&clients, "connected_clients:").zip(number(&clients, "maxclients:"));
    let number_in = |line: &str| number(line.split_once(':')?.1, "expires=");
    seen.ending = match replies.get(1) {
        Some(Resp::ServerError(_)) | None => None,
        Some(_) => Some(keys.lines().filter_map(number_in).sum()),
    };
    if first.is_empty() {
        return;
    }
    clock.sleep_until(clock.now() + BETWEEN).await;
    let asked = clock.now();
    if let Ok(mut replies) = exchange_long(wire, &[list], resp::MAP).await {
        let second = replies
            .pop()
            .map(|reply| counts(&text(&reply)))
            .unwrap_or_default();
        seen.busiest = busiest(&first, &second, before.until(asked));
    }
}

/// The inboxes of the clients that listen at a server, in its namespace: each client has one, and has it at
/// every node of its list. `None` where the user may not ask, or the node is no single server.
pub(crate) async fn inboxes(target: &Target, most: Duration) -> Option<BTreeSet<Vec<u8>>> {
    if let Endpoint::Cluster(_) = &target.address.endpoint {
        return None;
    }
    let gate = &target.gate;
    let like = [namespace(gate), b"#in:*"].concat();
    let work = async {
        let mut greeted = greet(target, &ConnectHints::default()).await?;
        let mut ask = redis::cmd("PUBSUB");
        let asked = [ask.arg("CHANNELS").arg(like).take()];
        exchange_long(&mut greeted.wire, &asked, resp::MAP).await
    };
    let replies = within(&gate.clock, most, work).await.ok()?;
    let Some(Resp::Array(channels)) = replies.into_iter().next() else {
        return None;
    };
    let name = |channel| match channel {
        Resp::BulkString(name) => Some(name),
        _ => None,
    };
    Some(channels.into_iter().filter_map(name).collect())
}

/// The number behind a word, in a text of fields that commas, blanks or lines divide.
fn number(said: &str, word: &str) -> Option<u64> {
    let mut fields = said.split([',', ' ', '\r', '\n']);
    fields.find_map(|field| field.strip_prefix(word)?.parse().ok())
}

/// The connections by their numbers: the name of each, and how many commands it has sent.
fn counts(list: &str) -> BTreeMap<u64, (String, u64)> {
    let of = |line: &str| {
        let field = |word: &str| line.split(' ').find_map(|field| field.strip_prefix(word));
        let commands = field("tot-cmds=")?.parse().ok()?;
        let name = field("name=").filter(|name| !name.is_empty());
        let name = name.or_else(|| field("addr="))?.to_owned();
        Some((field("id=")?.parse().ok()?, (name, commands)))
    };
    list.lines().filter_map(of).collect()
}

fn busiest(
    first: &BTreeMap<u64, (String, u64)>,
    second: &BTreeMap<u64, (String, u64)>,
    between: Duration,
) -> Option<(String, u64)> {
    let mut rates: BTreeMap<&str, u64> = BTreeMap::new();
    for (id, (name, commands)) in second {
        let before = first.get(id).map_or(0, |(_, before)| *before);
        *rates.entry(name).or_default() += commands.saturating_sub(before);
    }
    let (name, most) = rates.into_iter().max_by_key(|(_, commands)| *commands)?;
    let rate = most as f64 / between.as_secs_f64().max(0.001);
    Some((foreign::excerpt(name), rate as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_that_asks_for_most_is_found_by_its_name() {
        let list = |web, cron| {
            counts(&format!(
                "id=3 addr=10.0.0.7:1 name=web-1 age=5 tot-cmds={web}\n\
                 id=4 addr=10.0.0.7:2 name=web-1 age=5 tot-cmds={web}\n\
                 id=5 addr=10.0.0.8:1 name= age=5 tot-cmds={cron}\n\
                 id=6 addr=10.0.0.9:1 name=old age=5\n"
            ))
        };
        let rate = |second| busiest(&list(100, 100), &second, Duration::from_millis(500));
        assert_eq!(rate(list(600, 1050)), Some(("web-1".into(), 2000)));
        assert_eq!(rate(list(100, 1050)), Some(("10.0.0.8:1".into(), 1900)));
        assert_eq!(rate(counts("")), None);
    }

    #[test]
    fn numbers_stand_behind_their_words() {
        let clients = "# Clients\r\nconnected_clients:9\r\nmaxclients:10000\r\n";
        assert_eq!(number(clients, "maxclients:"), Some(10_000));
        assert_eq!(number("keys=7,expires=5,avg_ttl=1", "expires="), Some(5));
        assert_eq!(number(clients, "clients:"), None);
    }
}
