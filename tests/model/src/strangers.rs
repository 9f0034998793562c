//! Requests of those who have not the holder's token, to a lock of each form: with a token of their own, with what stands there as
//! it is written, and with what is nearly the holder's. None of them changes what the holder has (docs/reference/protocol.md, "What each
//! script has to be shown").

use std::io;
use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::names::{self, Naming};
use quorlock::sim::probe::{self, ProbeReply};
use quorlock::sim::{
    Adoption, AfterRelease, Keys, Mode, Op, Repair, Reply, Request, Value, Waiter, Waits,
};

use crate::calls::{INBOXES, NAMESPACE};
use crate::game::{Game, START};
use crate::hashed;
use crate::server::Plain;

/// What stands under the lock's key.
pub const FORMS: [&str; 11] = [
    "quiet",
    "held",
    "kept",
    "readers",
    "reserved",
    "digits",
    "word",
    "looks held",
    "empty",
    "hash",
    "redisson",
];
const TTL: Duration = Duration::from_secs(10);
/// How long the key lives that stands there, in ms.
const LIFE: &str = "50000";
/// Until when it is held, in µs: another moment than a request of now would write.
const END: u64 = START + 47_000_000;
/// Who has the lock in Redisson's layout.
const OWNER: &[u8] = b"java:1";

fn holder() -> Vec<u8> {
    [&[b'a'; 40][..], b".host"].concat()
}

/// The text under the key; none of a hash.
fn stands(form: &str) -> Option<Vec<u8>> {
    let end = |mark: char| format!("{mark}{END} ").into_bytes();
    Some(match form {
        "quiet" => holder(),
        "held" => [end('='), holder()].concat(),
        "kept" => [end('-'), holder()].concat(),
        "readers" => b"&0 1 ".to_vec(),
        "reserved" => [&end('@')[..], b"7 ", INBOXES[0]].concat(),
        "digits" => vec![b'a'; 40],
        "word" => b"worker-7".to_vec(),
        "looks held" => b"=1 worker".to_vec(),
        "empty" => Vec::new(),
        _ => return None,
    })
}

/// In whose name they ask: of nobody who has the holder's token.
fn values(form: &str) -> Vec<Vec<u8>> {
    let (token, whole) = ([b'a'; 40], holder());
    let mut all = vec![
        [&[b'b'; 40][..], b".host"].concat(),
        [&[b'b'; 40][..], b"."].concat(),
        token.to_vec(),
        [&[b'A'; 40][..], b".host"].concat(),
        [&token[..], b"a.host"].concat(),
        whole[1..].to_vec(),
        b"host".to_vec(),
        b".".to_vec(),
        b"worker-7".to_vec(),
        b"@0 ".to_vec(),
        b"&0 1 ".to_vec(),
        [b"=9007199254740991 ", &whole[..]].concat(),
        [b"-9007199254740991 ", &whole[..]].concat(),
    ];
    all.extend(stands(form));
    let has = |value: &Vec<u8>| {
        Value(value.as_slice().into()).identity() == Value(holder().as_slice().into()).identity()
    };
    all.retain(|value| !has(value));
    all
}

fn ops() -> Vec<Op> {
    let mut all = vec![Op::Release, Op::Reserve { long: TTL }, Op::Inspect];
    for home in [false, true] {
        all.push(Op::Acquire {
            ttl: TTL,
            candidate: START,
            home,
            let_in: false,
            block: 1,
        });
    }
    for repair in [Repair::No, Repair::Yes, Repair::InQuarantine { server: 0 }] {
        all.push(Op::Extend {
            ttl: TTL,
            repair,
            fence: START,
            behind: 0,
        });
    }
    all.push(Op::Confirm {
        ttl: TTL,
        fence: START,
        block: 1,
    });
    all
}

/// What there is of the holder's.
#[derive(Clone, Debug, PartialEq)]
struct Has {
    text: Option<Vec<u8>>,
    left: i64,
    /// Until when the reader shares it, and whether it is banned.
    shares: Option<Vec<u8>>,
    banned: bool,
    /// In Redisson's layout.
    count: Option<Vec<u8>>,
    token: Option<Vec<u8>>,
}

/// Asks as each stranger of each form; returns what was changed, at most once for each form.
pub fn play(game: &mut Game) -> io::Result<Vec<String>> {
    let mut failed = Vec::new();
    for form in FORMS {
        let found = match form {
            "redisson" => redisson(game)?,
            _ => plain(game, form)?,
        };
        failed.extend(found.map(|why| format!("{form}: {why}")));
    }
    Ok(failed)
}

fn plain_keys() -> Keys {
    let lock = names::lock_key(NAMESPACE, b"s", Naming::Tagged).expect("a good name");
    Keys {
        aux: names::aux(NAMESPACE, &lock, Naming::Tagged),
        lock: lock.into(),
        waits: Waits {
            reservation: Duration::from_secs(1),
            place: Duration::from_secs(6),
            most: 4,
        },
        fence_ttl: Some(TTL),
        mode: Mode::Exclusive,
        adopts: None,
        field: None,
    }
}

/// Every request of every stranger, to a lock of ours or what stands in its place.
fn plain(game: &mut Game, form: &str) -> io::Result<Option<String>> {
    for value in values(form) {
        for op in ops() {
            for request in requests(form, op, &value) {
                if let Some(why) = ask(game, form, &request)? {
                    return Ok(Some(why));
                }
            }
        }
        for by in ["lean", "prolong"] {
            if by == "lean" && stands(form).as_ref() == Some(&value) {
                // A plain command, which compares texts: what it is sent is what its client has made.
                continue;
            }
            set_up(game, form)?;
            let before = has(game, &plain_keys())?;
            let lock = plain_keys().lock;
            let script: &[u8] = match by {
                "lean" => &game.sha("lean"),
                _ => probe::prolong().0.as_bytes(),
            };
            let verb: &[u8] = if by == "lean" { b"EVALSHA" } else { b"EVAL" };
            let mut words: Vec<&[u8]> = vec![verb, script, b"1", &lock, &value];
            if by == "prolong" {
                words.extend([&b"10000"[..], b"9007199254740991"]);
            }
            game.server.send(&crate::server::command(&words))?;
            game.server.row()?;
            let after = has(game, &plain_keys())?;
            if !is_whole(form, &before, &after) {
                return Ok(Some(format!("{by} {}: {after:?}", value.escape_ascii())));
            }
        }
    }
    Ok(None)
}

/// The ways in which that can be asked.
fn requests(form: &str, op: Op, value: &[u8]) -> Vec<Request> {
    let plain = Request {
        op,
        native: false,
        keys: Arc::new(plain_keys()),
        value: Value(value.into()),
        waiter: None,
        leaving: AfterRelease::Free,
        not_after: 0,
    };
    let with = |change: &dyn Fn(&mut Keys)| {
        let mut keys = plain_keys();
        change(&mut keys);
        Request {
            keys: Arc::new(keys),
            ..plain.clone()
        }
    };
    let mut all = vec![plain.clone()];
    match op {
        Op::Release => {
            for leaving in [AfterRelease::TakenFor(TTL), AfterRelease::Forced(TTL)] {
                // Who forces names what is to go.
                let named = leaving == AfterRelease::Forced(TTL)
                    && stands(form).is_some_and(|text| text == value);
                if !named {
                    all.push(Request {
                        leaving,
                        ..plain.clone()
                    });
                }
            }
        }
        Op::Acquire { .. } => {
            all.push(with(&|keys| keys.mode = Mode::Shared));
            // By a new value of its own, in place of that.
            let adopts = Box::new(Adoption {
                value: Value(value.into()),
                ban: TTL,
            });
            all.push(Request {
                value: Value([&[b'c'; 40][..], b".x"].concat().into()),
                ..with(&|keys| keys.adopts = Some(adopts.clone()))
            });
        }
        Op::Extend { .. } | Op::Confirm { .. } => all.push(with(&|keys| keys.mode = Mode::Shared)),
        Op::Reserve { .. } | Op::Inspect => {}
    }
    // Whoever waits there is another than it is reserved for.
    let waits = |request: &Request| Request {
        waiter: Some(Waiter {
            number: 8,
            inbox: INBOXES[1].into(),
        }),
        ..request.clone()
    };
    let adopts = |request: &Request| request.keys.adopts.is_some();
    let waiting = match op {
        Op::Acquire { .. } | Op::Release => {
            all.iter().filter(|one| !adopts(one)).map(waits).collect()
        }
        Op::Reserve { .. } => {
            let one = waits(&all[0]);
            all.clear();
            vec![one]
        }
        _ => Vec::new(),
    };
    all.extend(waiting);
    all
}

fn set_up(game: &mut Game, form: &str) -> io::Result<()> {
    game.clear()?;
    let keys = plain_keys();
    let server = &mut game.server;
    if let Some(text) = stands(form) {
        server.ask(&[b"SET", &keys.lock, &text, b"PX", LIFE.as_bytes()])?;
    }
    if form == "hash" {
        server.ask(&[b"HSET", &keys.lock, OWNER, b"1"])?;
    }
    if form == "readers" {
        let end = END.to_string();
        server.ask(&[b"ZADD", &keys.aux.shared(), end.as_bytes(), &holder()])?;
        server.ask(&[b"PEXPIRE", &keys.aux.shared(), LIFE.as_bytes()])?;
    }
    Ok(())
}

/// Asks, and returns what was changed.
fn ask(game: &mut Game, form: &str, request: &Request) -> io::Result<Option<String>> {
    let repairs = matches!(request.op, Op::Extend { repair, .. } if repair != Repair::No);
    if form == "reserved" && repairs {
        // A vote that is stored anew ends a reservation, whoever it is for.
        return Ok(None);
    }
    set_up(game, form)?;
    let keys = plain_keys();
    let before = has(game, &keys)?;
    game.send(&probe::command(request, NAMESPACE, None, true))?;
    let said = game.server.said(request.op)?;
    let after = has(game, &keys)?;
    let gives = matches!(
        said,
        ProbeReply::Reply(
            Reply::Extended { .. }
                | Reply::Confirmed
                | Reply::Released { held: true }
                | Reply::Kept,
            _
        )
    );
    let shares = form == "readers" && request.keys.mode == Mode::Shared;
    let whole = is_whole(form, &before, &after) && (shares || !gives);
    Ok((!whole).then(|| {
        format!(
            "{request:?} by {} -> {said:?}, {after:?}",
            begin(&request.value.0)
        )
    }))
}

/// Which value it is: no whole token stands in what is printed.
fn begin(value: &[u8]) -> impl std::fmt::Display {
    value[..value.len().min(24)].escape_ascii()
}

/// Whether the holder has all that it had.
fn is_whole(form: &str, before: &Has, after: &Has) -> bool {
    let text = match (form, &after.text) {
        // Who waits marks it, for as long as it would have stood.
        ("quiet", Some(text)) if text.starts_with(b"=") => {
            let mut parts = text[1..].splitn(2, |byte| *byte == b' ');
            let end = parts
                .next()
                .map(String::from_utf8_lossy)
                .and_then(|end| end.parse::<u64>().ok());
            end.is_some_and(|end| end >= START + 50_000_000) && parts.next() == Some(&holder())
        }
        // It may be reserved for one that comes when the readers have gone.
        ("readers", Some(text)) => text.starts_with(b"&"),
        (_, text) => *text == before.text,
    };
    text && after.left >= before.left
        && Has {
            text: None,
            left: 0,
            ..after.clone()
        } == Has {
            text: None,
            left: 0,
            ..before.clone()
        }
}

fn has(game: &mut Game, keys: &Keys) -> io::Result<Has> {
    let server = &mut game.server;
    let text = |plain: Plain| match plain {
        Plain::Text(text) => text,
        _ => None,
    };
    let kind = server.ask(&[b"TYPE", &keys.lock])?;
    let is = |name: &str| kind == Plain::Status(name.into());
    let stands = if is("string") {
        text(server.ask(&[b"GET", &keys.lock])?)
    } else {
        None
    };
    let Plain::Number(left) = server.ask(&[b"PTTL", &keys.lock])? else {
        return Err(io::Error::other("no PTTL"));
    };
    let count = if is("hash") {
        text(server.ask(&[b"HGET", &keys.lock, OWNER])?)
    } else {
        None
    };
    if keys.field.is_some() {
        let token = text(server.ask(&[b"HGET", keys.aux.queue(), &holder()])?);
        return Ok(Has {
            text: stands,
            left,
            shares: None,
            banned: false,
            count,
            token,
        });
    }
    let lease = [b'a'; 40].iter().chain(b".").copied().collect::<Vec<u8>>();
    Ok(Has {
        text: stands,
        left,
        shares: text(server.ask(&[b"ZSCORE", &keys.aux.shared(), &holder()])?),
        banned: text(server.ask(&[b"ZSCORE", &keys.aux.bans(), &lease])?).is_some(),
        count,
        token: None,
    })
}

/// The same of a lock in Redisson's layout: as another owner, and as the same, by another token.
fn redisson(game: &mut Game) -> io::Result<Option<String>> {
    let owners: [&[u8]; 3] = [OWNER, b"java:2", b"x"];
    let tokens = values("redisson");
    for owner in owners {
        for token in &tokens {
            for op in ops() {
                if matches!(op, Op::Reserve { .. } | Op::Inspect) {
                    continue;
                }
                game.clear()?;
                let keys = hashed::keys(0, true, OWNER);
                let server = &mut game.server;
                server.ask(&[b"HSET", &keys.lock, OWNER, b"1"])?;
                server.ask(&[b"PEXPIRE", &keys.lock, LIFE.as_bytes()])?;
                server.ask(&[b"HSET", keys.aux.queue(), &holder(), b"1"])?;
                server.ask(&[b"PEXPIRE", keys.aux.queue(), LIFE.as_bytes()])?;
                let before = has(game, &keys)?;
                let request = Request {
                    op,
                    native: false,
                    keys: Arc::new(hashed::keys(0, true, owner)),
                    value: Value(token.as_slice().into()),
                    waiter: None,
                    leaving: AfterRelease::Free,
                    not_after: 0,
                };
                game.send(&probe::command(&request, NAMESPACE, None, true))?;
                let said = game.server.said(op)?;
                let mut after = has(game, &keys)?;
                // Who has the owner's name may enter beside it: what it adds is its own.
                let enters =
                    owner == OWNER && matches!(said, ProbeReply::Reply(Reply::Granted { .. }, _));
                if enters && after.count.as_deref() == Some(b"2") {
                    after.count = before.count.clone();
                }
                let gives = matches!(
                    said,
                    ProbeReply::Reply(
                        Reply::Extended { .. } | Reply::Confirmed | Reply::Released { held: true },
                        _
                    )
                );
                if gives
                    || after.left < before.left
                    || (&after.count, &after.token) != (&before.count, &before.token)
                {
                    let (owner, token) = (begin(owner), begin(token));
                    return Ok(Some(format!(
                        "{op:?} of {owner} by {token} -> {said:?}, {after:?}"
                    )));
                }
            }
        }
    }
    Ok(None)
}
