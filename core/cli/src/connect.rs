//! From connection options to a client.

use std::fs;
use std::path::Path;

use quorlock::{Client, ClientBuilder, defaults};

use crate::args::Connection;
use crate::exit::{self, Failure};

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
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|e| Failure::new(exit::CONFIG, format!("the nodes file {shown}: {e}")))?;
    let nodes = urls(&text);
    if nodes.is_empty() {
        let message = format!(
            "the nodes file {shown} names no node: give one URL a line, as in {}",
            defaults::NODES_VARIABLE
        );
        return Err(Failure::new(exit::CONFIG, message));
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
