//! A node whose name has several addresses.

use std::net::SocketAddr;

use super::*;
use crate::node::redis::dial::{DialError, Stream, unreachable};

/// A name of two addresses, with a server at each that reports this of itself; `None`: no server
/// listens there.
struct Name([Option<[&'static str; 2]>; 2], Mutex<Vec<Far>>);

impl Name {
    fn reach(&self, place: usize, texts: &[String]) -> Result<Stream, DialError> {
        if self.0[place].is_none() {
            return Err(unreachable(&io::ErrorKind::ConnectionRefused.into()));
        }
        let (near, far) = dial::pair();
        for text in texts {
            socket2::SockRef::from(&far)
                .send(text.as_bytes())
                .expect("room");
        }
        lock(&self.1).push(far);
        Ok(near)
    }

    /// What the server at that place says: of itself, and of its master.
    fn info(&self, place: usize) -> [String; 2] {
        let [run, role] = self.0[place].unwrap_or_default();
        let bulk = |text: String| format!("${}\r\n{text}\r\n", text.len());
        [
            bulk(format!("redis_version:7.2.4\r\nrun_id:{run}\r\n")),
            bulk(format!("role:{role}\r\n")),
        ]
    }
}

impl Dial for Name {
    fn dial<'a>(&'a self, _: &'a Endpoint) -> StreamFuture<'a> {
        let [server, replication] = self.info(0);
        let none = || "$0\r\n\r\n".to_owned();
        let rest = "$-1\r\n$0\r\n\r\n*2\r\n$1\r\n1\r\n$1\r\n1\r\n$0\r\n\r\n".to_owned();
        let said = [server, none(), none(), none(), replication, rest];
        let stream = self.reach(0, &said);
        Box::pin(async { stream })
    }

    fn others(&self, _: &Endpoint, _: &Stream) -> Vec<SocketAddr> {
        vec!["10.0.0.2:7".parse().unwrap()]
    }

    fn dial_at<'a>(&'a self, _: &'a Endpoint, _: SocketAddr) -> StreamFuture<'a> {
        let stream = self.reach(1, &self.info(1));
        Box::pin(async { stream })
    }
}

/// The faults of a request while a connection to such a name is made.
async fn told(servers: [Option<[&'static str; 2]>; 2]) -> Vec<FaultKind> {
    let at = Endpoint::Tcp {
        host: "n".into(),
        port: 7,
        tls: false,
    };
    let expected = Expectation::new("s", 1, Duration::from_secs(1), 0.01, true);
    let dial = Arc::new(Name(servers, Mutex::default()));
    let mut link = Link::to(at.clone(), expected, dial, (at, 1));
    link.asks(ACQUIRE);
    for _ in 0..50 {
        let event = poll_fn(|cx| Poll::Ready(link.connection.next(cx))).await;
        match event {
            Poll::Ready(ConnectionEvent::NewConnection(Err(fault))) => {
                link.connection.connect_failed(fault)
            }
            Poll::Ready(_) => {}
            Poll::Pending => tokio::task::yield_now().await,
        }
    }
    let heard = lock(&link.heard.0).clone();
    assert_eq!(heard.is_empty(), link.connection.connecting.is_some());
    heard
}

#[tokio::test]
async fn a_name_of_two_servers_is_no_node() {
    let (one, other) = (Some(["a1", "master"]), Some(["b2", "master"]));
    assert_eq!(told([one, other]).await, [FaultKind::Misconfigured]);
    // The other address leads to the same server over IPv6, to a replica, or to no listener.
    for same in [one, Some(["b2", "slave"]), None] {
        assert_eq!(told([one, same]).await, [], "{same:?}");
    }
}
