//! A server as its clients see it: bytes in, bytes out, by what it [keeps](Host).
//!
//! | module | one idea |
//! |---|---|
//! | [`resp`] | commands out of a stream that comes in pieces; replies |
//! | [`scripts`] | our scripts, from their arguments to a memory node's operation, and back |
//!
//! It knows every command that a client of ours sends. To teach it one more: a
//! name in [`serve`], what it does to the keys in [`Host`], and its reply. Errors
//! come as on a real server: first who one is, then what one may do, then what the
//! server's state permits.

pub mod resp;
pub mod scripts;

use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::{OtherRecord, Reply};

use resp::{Input, Words, array, bulk, int, line, number};
use scripts::{Call, Script, text};

/// What a server knows of one connection.
#[derive(Debug, Default)]
pub struct Session {
    /// What has arrived and was not carried out yet.
    pub input: Input,
    /// It speaks RESP3.
    resp3: bool,
    /// It has said who it is.
    known: bool,
    db: u64,
    /// It waits for replicas, and takes no more commands until then.
    pub waits: bool,
}

/// What a server keeps, and what it is like at the moment.
pub trait Host {
    /// The password that it asks for.
    fn password(&self) -> Option<&str>;
    /// The error that this command meets, in place of being carried out.
    fn refusal(&mut self, command: &str) -> Option<String>;
    /// Its `TIME`, in µs.
    fn time(&self) -> u64;
    /// What `INFO` says, or a section of it.
    fn info(&self, section: Option<&str>) -> String;
    /// The address at which it has this connection.
    fn own_address(&self) -> String;
    /// The text under a key.
    fn get(&mut self, key: &[u8]) -> Option<String>;
    /// How much longer a key lives; `None`: there is none.
    fn pttl(&mut self, key: &[u8]) -> Option<Duration>;
    /// It has this script, from here on.
    fn load(&mut self, script: Script);
    /// Whether it has it.
    fn knows(&mut self, script: Script) -> bool;
    /// The command for deleting by value that it knows, if it knows one.
    fn deletes_by(&self) -> Option<&'static str>;
    /// Stores a value where nothing stands, for as long; whether it did.
    fn set_new(&mut self, key: &[u8], value: &[u8], life: Life) -> bool;
    /// Raises a counter to a fence; whether that is beyond what was counted.
    fn propose(&mut self, counter: &[u8], fence: u64) -> bool;
    /// The counter lives for so long.
    fn keep_counter(&mut self, counter: &[u8], life: Duration);
    /// One of the requests of this command is done, and the next comes.
    fn goes_on(&mut self) {}

    /// Deletes what is exactly this value; whether it was.
    fn delete(&mut self, key: &[u8], value: &[u8]) -> bool;
    /// A client reads the end of a write: what stands at its record's and quarantine's
    /// keys, or the time.
    fn told(&mut self, told: Told<'_>);
    /// Carries a request out.
    fn carry_out(&mut self, call: &Call) -> Result<Reply, OtherRecord>;
    /// Replaces the record, if it is `old`; else what it is.
    fn init(&mut self, old: &str, new: Arc<str>, quarantine: Duration) -> Result<(), String>;
    /// How many replicas have all that was written, if those are this many; else it waits for
    /// as long, 0 ms forever.
    fn wait(&mut self, replicas: u64, long: Duration) -> Option<u32>;
    /// This connection listens on a channel. Returns on how many.
    fn subscribe(&mut self, channel: &[u8]) -> usize;
}

/// How long a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Until `TIME` is beyond this many ms.
    Until(u64),
    /// For so long.
    For(Duration),
}

/// What a client has read of its node.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// Its record, and whether it is in quarantine.
    Record(Option<&'a str>, bool),
    /// Its `TIME`, in µs.
    Time(u64),
    /// Its record, in the connection's set-up.
    Known(Option<&'a str>),
}

/// Carries out one command, and writes the reply.
pub fn serve(session: &mut Session, words: &Words, host: &mut dyn Host, out: &mut Vec<u8>) {
    let words: Vec<&[u8]> = words.iter().map(|w| session.input.word(w)).collect();
    let first = text(words[0]).to_ascii_lowercase();
    let name = match (&*first, words.get(1)) {
        ("client" | "script", Some(sub)) => format!("{first}|{}", text(sub).to_ascii_lowercase()),
        _ => first,
    };
    let error = |out: &mut Vec<u8>, text: &str| line(out, b'-', text);
    let wants_password = host.password().is_some() && !session.known;
    if wants_password && name != "auth" && name != "hello" {
        return error(out, "NOAUTH Authentication required.");
    }
    if let Some(refusal) = host.refusal(&name) {
        return error(out, &refusal);
    }
    let args = &words[1..];
    match (&*name, args) {
        ("auth", [password] | [_, password]) => match host.password() {
            Some(right) if right.as_bytes() == *password => {
                session.known = true;
                line(out, b'+', "OK");
            }
            Some(_) => error(
                out,
                "WRONGPASS invalid username-password pair or user is disabled.",
            ),
            None => error(
                out,
                "ERR AUTH <password> called without any password configured for the default user.",
            ),
        },
        ("select", [db]) => match number(db).filter(|db| *db < 16) {
            Some(db) => {
                session.db = db;
                line(out, b'+', "OK");
            }
            None => error(out, "ERR DB index is out of range"),
        },
        ("hello", [b"3"]) => {
            session.resp3 = true;
            array(out, b'%', 3);
            for (name, value) in [("server", "redis"), ("version", VERSION)] {
                bulk(out, name.as_bytes());
                bulk(out, value.as_bytes());
            }
            bulk(out, b"proto");
            int(out, 3);
        }
        ("time", []) => {
            let time = host.time();
            host.told(Told::Time(time));
            array(out, b'*', 2);
            scripts::moment(out, time);
        }
        ("set", [key, value, b"NX", unit @ (b"PX" | b"PXAT"), life]) => {
            let Some(life) = number(life).filter(|life| *life > 0) else {
                return error(out, "ERR invalid expire time in 'set' command");
            };
            let life = match *unit {
                b"PX" => Life::For(Duration::from_millis(life)),
                _ => Life::Until(life),
            };
            if host.set_new(key, value, life) {
                line(out, b'+', "OK")
            } else {
                nil(session, out)
            }
        }
        ("zadd", [counter, b"GT", b"CH", fence, b"f"]) => match number(fence) {
            Some(fence) => int(out, i64::from(host.propose(counter, fence))),
            None => error(out, "ERR value is not a valid float"),
        },
        ("pexpire", [counter, life]) => {
            host.keep_counter(counter, Duration::from_millis(number(life).unwrap_or(0)));
            int(out, 1);
        }
        ("mget", [record, quarantine]) => {
            let (record, quarantine) = (host.get(record), host.pttl(quarantine).is_some());
            host.told(Told::Record(record.as_deref(), quarantine));
            array(out, b'*', 2);
            for text in [record, quarantine.then(|| "1".into())] {
                match text {
                    Some(text) => bulk(out, text.as_bytes()),
                    None => nil(session, out),
                }
            }
        }
        ("delifeq", [key, value]) | ("delex", [key, b"IFEQ", value])
            if host.deletes_by() == Some(&*name) =>
        {
            int(out, i64::from(host.delete(key, value)));
        }
        ("info", args) => {
            let section = args.first().map(|section| text(section));
            let info = host.info(section.as_deref());
            let info = match section {
                None => info,
                Some(section) => of_section(&info, &section),
            };
            if session.resp3 {
                line(out, b'=', &(info.len() + 4).to_string());
                out.extend_from_slice(b"txt:");
                out.extend_from_slice(info.as_bytes());
                out.extend_from_slice(b"\r\n");
            } else {
                bulk(out, info.as_bytes());
            }
        }
        ("client|info", _) => {
            let (address, db) = (host.own_address(), session.db);
            let info = format!("id=7 addr=10.9.9.9:999 laddr={address} fd=8 name= db={db}\n");
            bulk(out, info.as_bytes());
        }
        ("client|setinfo", [_, _, _]) | ("client|setname", [_, _]) => line(out, b'+', "OK"),
        ("get", [key]) => {
            let value = host.get(key);
            // Why a quarantine began is for people.
            if !key.ends_with(b"#quarantine") {
                host.told(Told::Known(value.as_deref()));
            }
            match value {
                Some(value) => bulk(out, value.as_bytes()),
                None => nil(session, out),
            }
        }
        ("pttl", [key]) => {
            let left = host.pttl(key);
            int(out, left.map_or(-2, |left| left.as_millis() as i64));
        }
        ("script|load", [_, body]) => match Script::of_text(body) {
            Some(script) => {
                host.load(script);
                bulk(out, script.sha().as_bytes());
            }
            None => error(out, "ERR Error compiling script (new function): unknown"),
        },
        ("eval" | "evalsha", [body, count, rest @ ..]) => {
            let count = number(count).map_or(usize::MAX, |count| count as usize);
            let Some((keys, args)) = rest.split_at_checked(count) else {
                return error(
                    out,
                    "ERR Number of keys can't be greater than number of args",
                );
            };
            let script = match &*name {
                "eval" => Script::of_text(body),
                _ => Script::of_sha(body).filter(|script| host.knows(*script)),
            };
            run(script, keys, args, host, out);
        }
        ("wait", [replicas, long]) => {
            let replicas = number(replicas).unwrap_or(0);
            let long = Duration::from_millis(number(long).unwrap_or(0));
            match host.wait(replicas, long) {
                Some(have) => int(out, i64::from(have)),
                None => session.waits = true,
            }
        }
        // Nobody listens where a client tries whether it may.
        ("publish", [_, _]) => int(out, 0),
        ("subscribe", [channel]) if session.resp3 => {
            let channels = host.subscribe(channel);
            array(out, b'>', 3);
            bulk(out, b"subscribe");
            bulk(out, channel);
            int(out, channels as i64);
        }
        _ => error(
            out,
            &format!("ERR unknown command '{name}', with args beginning with: "),
        ),
    }
}

/// Nothing, as the session's protocol says it.
fn nil(session: &Session, out: &mut Vec<u8>) {
    if session.resp3 {
        line(out, b'_', "")
    } else {
        line(out, b'$', "-1")
    }
}

/// The version that it is.
const VERSION: &str = "7.0.15";

/// What a server is, in the words of `INFO`. `promotion`: which of its node's made it the
/// master, 0 for none; `replica`: it is none that takes writes.
pub fn info(run_id: &str, uptime: u64, promotion: u64, replica: bool) -> String {
    let (history, before) = (promotion + 1, promotion);
    let role = if replica {
        "slave\r\nmaster_host:10.0.9.9\r\nmaster_port:6379"
    } else {
        "master"
    };
    format!(
        "# Server\r\nredis_version:{VERSION}\r\nrun_id:{run_id}\r\nuptime_in_seconds:{uptime}\r\n\
         # Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n\
         # Stats\r\nevicted_keys:0\r\n\
         # Replication\r\nrole:{role}\r\nmaster_replid:{history:040x}\r\n\
         master_replid2:{before:040x}\r\n\
         # Cluster\r\ncluster_enabled:0\r\n"
    )
}

/// That section of what a server says of itself; nothing where it has none of the name.
fn of_section(info: &str, section: &str) -> String {
    let title = |text: &str| {
        let name = text.lines().next().unwrap_or_default();
        name.eq_ignore_ascii_case(section)
    };
    let mut parts = info.split("# ").filter(|part| title(part));
    parts
        .next()
        .map(|part| format!("# {part}"))
        .unwrap_or_default()
}

fn run(
    script: Option<Script>,
    keys: &[&[u8]],
    args: &[&[u8]],
    host: &mut dyn Host,
    out: &mut Vec<u8>,
) {
    match (script, keys, args) {
        (None, ..) => line(out, b'-', "NOSCRIPT No matching script. Please use EVAL."),
        (Some(Script::Try), ..) => bulk(out, b""),
        (Some(Script::Lean), keys, values) if keys.len() == values.len() => {
            host.load(Script::Lean);
            array(out, b'*', keys.len());
            for (at, (key, value)) in keys.iter().zip(values).enumerate() {
                if at > 0 {
                    host.goes_on();
                }
                int(out, i64::from(host.delete(key, value)));
            }
        }
        (Some(Script::Init), [_, _], [old, new, quarantine, _]) => {
            let quarantine = Duration::from_millis(number(quarantine).unwrap_or(0));
            let written = host.init(&text(old), text(new).into(), quarantine);
            let holds = written.as_ref().err().cloned();
            host.told(Told::Known(Some(&holds.unwrap_or_else(|| text(new)))));
            array(out, b'*', 2);
            int(out, i64::from(written.is_ok()));
            bulk(
                out,
                written
                    .err()
                    .map_or(new.to_vec(), String::into_bytes)
                    .as_slice(),
            );
        }
        (Some(script), ..) => match scripts::call(script, keys, args) {
            Some(call) => {
                host.load(script);
                let answer = host.carry_out(&call);
                scripts::answer(out, &call, &answer, host.time());
            }
            None => line(out, b'-', "ERR user_script:1: no client of ours asks that"),
        },
    }
}
