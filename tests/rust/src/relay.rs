//! An address that leads to one server, and later to another.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use crate::{monotonic, nap};

/// See the [module documentation](self). Lives as long as its process.
#[derive(Debug)]
pub struct Relay {
    leads: Arc<Mutex<Leads>>,
    /// Its URL.
    pub url: String,
}

#[derive(Debug)]
struct Leads {
    to: String,
    open: Vec<TcpStream>,
}

impl Relay {
    /// An address for the node with that URL, without credentials.
    pub fn new(node: &str) -> Relay {
        Relay::at("127.0.0.1:0", node)
    }

    /// The same, where it is to be.
    pub fn at(address: &str, node: &str) -> Relay {
        let listener = TcpListener::bind(address).expect("a port");
        let url = format!("redis://{}", listener.local_addr().expect("bound"));
        let leads = Arc::new(Mutex::new(Leads {
            to: host(node),
            open: Vec::new(),
        }));
        let shared = leads.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let mut leads = shared.lock().unwrap_or_else(PoisonError::into_inner);
                // Nobody is there: the client finds its connection closed.
                if let Ok(ways) = TcpStream::connect(&leads.to).and_then(|s| join(client, s)) {
                    leads.open.extend(ways);
                }
            }
        });
        Relay { leads, url }
    }

    /// From now on it leads there; whoever is connected is cut off.
    pub fn lead_to(&self, node: &str) {
        let mut leads = self.leads.lock().unwrap_or_else(PoisonError::into_inner);
        leads.to = host(node);
        for stream in leads.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn host(url: &str) -> String {
    url.strip_prefix("redis://").expect("TCP").to_owned()
}

fn join(client: TcpStream, server: TcpStream) -> io::Result<[TcpStream; 2]> {
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    for (from, to) in [(&client, &server), (&server, &client)] {
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    Ok([client, server])
}

/// An address that leads to a node which is far away: what it answers comes later by that.
#[derive(Debug)]
pub struct Far {
    /// Its URL.
    pub url: String,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Far {
    /// One so far away.
    pub fn new(node: &str, away: Duration) -> Far {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("redis://{}", listener.local_addr().expect("bound"));
        let (to, open) = (host(node), Arc::<Mutex<Vec<TcpStream>>>::default());
        let shared = open.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let mut open = shared.lock().unwrap_or_else(PoisonError::into_inner);
                open.extend(client.try_clone());
                if let Ok(server) = TcpStream::connect(&to) {
                    joined_late(client, server, away).expect("streams of this machine");
                }
            }
        });
        Far { url, open }
    }

    /// Ends the connections.
    pub fn cut(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn joined_late(client: TcpStream, server: TcpStream, away: Duration) -> io::Result<()> {
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let (mut asks, mut asked) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut asks, &mut asked);
        let _ = asked.shutdown(Shutdown::Write);
    });
    let (tells, told) = mpsc::channel::<(u64, Vec<u8>)>();
    let (mut answers, mut answered) = (server, client);
    thread::spawn(move || {
        let mut bytes = [0; 1 << 16];
        while let Ok(length @ 1..) = answers.read(&mut bytes) {
            let due = monotonic() + away.as_nanos() as u64;
            if tells.send((due, bytes[..length].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in told {
            nap(Duration::from_nanos(due.saturating_sub(monotonic())));
            if answered.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = answered.shutdown(Shutdown::Both);
    });
    Ok(())
}
