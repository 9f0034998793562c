//! From connection options to a client.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use quorlock::{Client, ClientBuilder, defaults};

use crate::args::Connection;
use crate::exit::{self, Failure};
use crate::given;

/// The longest file of nodes that is read, in bytes: one that is a device has no end.
const LONGEST: u64 = 1 << 20;

/// A client with these options; `label`: what others see of it.
pub fn client(options: &Connection, label: Option<String>) -> Result<Client, Failure> {
    let wrong = |e: quorlock::Error| Failure::new(exit::CONFIG, e.to_string());
    let nodes = match &options.nodes_file {
        Some(path) => Some(of_file(path)?),
        None => None,
    };
    let builder = || match &nodes {
        Some(nodes) => Client::builder().nodes(nodes),
        None => Client::builder(),
    };
    // First without what stands on the command line: what is wrong then is wrong with the nodes.
    let tls = |builder: ClientBuilder| {
        let builder = set(builder, &options.ca, ClientBuilder::ca);
        let builder = set(builder, &options.cert, ClientBuilder::cert);
        set(builder, &options.key, ClientBuilder::key)
    };
    tls(builder()).build().map_err(wrong)?;
    let builder = tls(builder());
    let builder = set(builder, &options.set_name, ClientBuilder::set_name);
    let builder = set(builder, &options.namespace, ClientBuilder::namespace);
    let builder = set(builder, &options.max_ttl, ClientBuilder::max_ttl);
    let builder = set(builder, &options.node_timeout, ClientBuilder::node_timeout);
    let builder = set(
        builder,
        &options.connect_timeout,
        ClientBuilder::connect_timeout,
    );
    let builder = set(
        builder,
        &options.restart_guard,
        ClientBuilder::restart_guard,
    );
    let builder = set(
        builder,
        &options.wait_replicas,
        ClientBuilder::wait_replicas,
    );
    let builder = builder.accept_eviction(options.accept_eviction);
    let builder = set(builder, &label, ClientBuilder::label);
    Ok(builder.build()?)
}

fn set<T: Clone>(
    builder: ClientBuilder,
    value: &Option<T>,
    setter: impl FnOnce(ClientBuilder, T) -> ClientBuilder,
) -> ClientBuilder {
    match value {
        Some(value) => setter(builder, value.clone()),
        None => builder,
    }
}

fn of_file(path: &Path) -> Result<Vec<String>, Failure> {
    let wrong = |why: String| {
        let shown = given::file(path);
        Failure::new(exit::CONFIG, format!("the nodes file ({shown}) {why}"))
    };
    let read = || {
        let mut text = String::new();
        let file = File::open(path)?;
        file.take(LONGEST + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|e: io::Error| wrong(format!("cannot be read: {e}")))?;
    if text.len() as u64 > LONGEST {
        return Err(wrong("is longer than any list of nodes".into()));
    }
    let nodes = urls(&text);
    if nodes.is_empty() {
        return Err(wrong(format!(
            "names no node: give one URL a line, as in {}",
            defaults::NODES_VARIABLE
        )));
    }
    Ok(nodes)
}

fn urls(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.split([',', ' ', '\t']))
        .filter(|url| !url.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodes_file_has_urls_and_notes() {
        let text = "# ours\nredis://a, redis://b\n\n  # old: redis://x\r\nredis://c#1\r\n";
        assert_eq!(urls(text), ["redis://a", "redis://b", "redis://c#1"]);
    }
}
